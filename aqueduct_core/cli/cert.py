"""``aqueduct cert DIR``: a development certificate authority and a certificate issued by it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cryptography import x509

from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport.tls.credentials import LEAF_DAYS, fingerprint, issue, make_authority

CA, CERT, KEY = "ca.pem", "cert.pem", "key.pem"
NAMES = ("localhost", "127.0.0.1", "::1")


EXAMPLES = [
    (
        "a CA and a certificate for this machine, for trying",
        "aqueduct cert tls",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "cert",
        help="make a development CA and certificate",
        description=f"Writes {CA} (give it to clients), {CERT} and {KEY} (for the listener) into "
        "DIR. The key of the authority is not kept: make a new directory for the next one.",
        examples=EXAMPLES,
    )
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument(
        "--name",
        dest="names",
        action="append",
        metavar="NAME",
        help=f"host name or IP address, may be repeated (default: {', '.join(NAMES)})",
    )
    parser.add_argument(
        "--days", type=int, default=LEAF_DAYS, help="validity (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    directory: Path = options.directory
    if directory.exists() and not directory.is_dir():
        raise InvalidOption("BAD_VALUE", f"{directory} is no directory", "Name another one")
    present = [name for name in (CA, CERT, KEY) if (directory / name).exists()]
    if present:
        raise InvalidOption(
            "CONFLICT",
            f"{directory} holds {', '.join(present)} already",
            "Give another directory, or remove these files first",
        )
    if not 1 <= options.days <= 3650:
        raise InvalidOption("BAD_VALUE", f"--days is {options.days}", "Give 1 to 3650")
    authority = make_authority(days=options.days)
    leaf = issue(authority, options.names or NAMES, days=options.days)
    directory.mkdir(parents=True, exist_ok=True)
    write_new(directory / KEY, leaf.key_pem, 0o600)
    write_new(directory / CERT, leaf.cert_pem, 0o644)
    write_new(directory / CA, authority.cert_pem, 0o644)
    certificate = x509.load_pem_x509_certificate(leaf.cert_pem)
    print(f"{directory / CA}    for clients: --ca, tls.caFile")
    print(f"{directory / CERT}  for the listener: --cert, tls.certFile")
    print(f"{directory / KEY}   for the listener: --key, tls.keyFile; keep it secret")
    print(f"names        {', '.join(options.names or NAMES)}")
    print(f"valid        {dates(certificate)}")
    print(f"fingerprint  {fingerprint(certificate)}")
    return 0


def dates(certificate: x509.Certificate) -> str:
    """From when to when a certificate is valid, in UTC."""
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that is not there yet. Raises: FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
