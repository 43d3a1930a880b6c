"""The certificate of a verb that listens."""

from __future__ import annotations

import argparse
from pathlib import Path

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.host_port import HostPort, is_loopback
from aqueduct_core.transport.tls.credentials import ServerTls


def add_certificate(parser: argparse.ArgumentParser) -> None:
    """``--cert``, ``--key`` and ``--self-signed``."""
    parser.add_argument("--cert", type=Path, metavar="FILE", help="certificate in PEM form")
    parser.add_argument("--key", type=Path, metavar="FILE", help="its private key in PEM form")
    parser.add_argument(
        "--self-signed", action="store_true", help="make a certificate and print its fingerprint"
    )


def server_tls(options: argparse.Namespace, where: HostPort) -> ServerTls:
    """What a listener on this address shows. Raises: InvalidOption.MISSING, CONFLICT."""
    if options.self_signed:
        if options.cert is not None or options.key is not None:
            raise InvalidOption(
                "CONFLICT", "--self-signed was given with --cert or --key", "Give one of them"
            )
        names = ["localhost", "127.0.0.1", "::1"]
        if (
            where.host
            and not is_loopback(where.host)
            and where.host not in (*names, "0.0.0.0", "::")
        ):
            names.append(where.host)
        return ServerTls.self_signed(names)
    if options.cert is None or options.key is None:
        raise InvalidOption(
            "MISSING",
            _absent(options),
            "Give --cert and --key (aqueduct cert DIR makes them), or --self-signed",
        )
    return ServerTls(cert_file=options.cert, key_file=options.key)


def _absent(options: argparse.Namespace) -> str:
    if options.cert is None and options.key is None:
        return "a listener needs a certificate"
    given, absent = ("--cert", "--key") if options.key is None else ("--key", "--cert")
    return f"{given} is given without {absent}"
