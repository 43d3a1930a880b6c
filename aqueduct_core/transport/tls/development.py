"""Certificates for development: an authority and leaves it issues, EC P-256 throughout."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.x509 import key_usage, private_pem, unsigned

LEAF_DAYS = 365
AUTHORITY_DAYS = 3_650
BACKDATED = datetime.timedelta(minutes=10)
"""Certificates begin a little in the past, so that a clock slightly behind accepts them."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key in PEM form."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)


def make_authority(
    name: str = "Aqueduct development CA",
    *,
    days: int = AUTHORITY_DAYS,
    at: datetime.datetime | None = None,
) -> Issued:
    """A new certificate authority; nobody trusts it until told to."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        _dated(subject, subject, key, days, at)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _issued(builder.sign(key, hashes.SHA256()), key)


def issue(
    authority: Issued,
    names: Sequence[str],
    *,
    days: int = LEAF_DAYS,
    at: datetime.datetime | None = None,
) -> Issued:
    """A certificate for ``names`` (host names and IP addresses), signed by ``authority``."""
    issuer = x509.load_pem_x509_certificate(authority.cert_pem)
    issuer_key = serialization.load_pem_private_key(authority.key_pem, password=None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise InvalidOption(
            "BAD_VALUE", "the key of the authority is no EC key", "Make the authority again"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _leaf(names, issuer.subject, key, days, at).add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
        critical=False,
    )
    return _issued(builder.sign(issuer_key, hashes.SHA256()), key)


def self_signed(
    names: Sequence[str], *, days: int = LEAF_DAYS, at: datetime.datetime | None = None
) -> Issued:
    """A certificate for ``names`` that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _leaf(names, _subject(names), key, days, at)
    return _issued(builder.sign(key, hashes.SHA256()), key)


@dataclass(frozen=True, slots=True)
class DevelopmentFiles:
    """Where ``write_development`` put things."""

    ca_cert: Path
    ca_key: Path
    cert: Path
    key: Path


def write_development(directory: Path, names: Sequence[str]) -> DevelopmentFiles:
    """Write ``ca.pem``, ``ca.key``, ``cert.pem`` and ``cert.key`` into ``directory``.

    An authority that is already there is used again, so what trusts it goes on doing so.
    Keys are readable by their owner only.
    """
    files = DevelopmentFiles(
        directory / "ca.pem", directory / "ca.key", directory / "cert.pem", directory / "cert.key"
    )
    directory.mkdir(parents=True, exist_ok=True)
    if files.ca_cert.exists() and files.ca_key.exists():
        authority = Issued(files.ca_cert.read_bytes(), files.ca_key.read_bytes())
    else:
        authority = make_authority()
        _write(files.ca_key, authority.key_pem, 0o600)
        _write(files.ca_cert, authority.cert_pem, 0o644)
    leaf = issue(authority, names)
    _write(files.key, leaf.key_pem, 0o600)
    _write(files.cert, leaf.cert_pem, 0o644)
    return files


def _leaf(
    names: Sequence[str],
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    days: int,
    at: datetime.datetime | None,
) -> x509.CertificateBuilder:
    return (
        _dated(_subject(names), issuer, key, days, at)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )


def _subject(names: Sequence[str]) -> x509.Name:
    if not names:
        raise InvalidOption(
            "MISSING", "a certificate needs a name", "Give a host name or an IP address"
        )
    # A common name holds at most 64 characters; the alternative names are what counts.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError:
        raise InvalidOption(
            "BAD_VALUE",
            f"{name!r} is no name for a certificate",
            "Give a host name in ASCII form or an IP address",
        ) from None


def _dated(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    days: int,
    at: datetime.datetime | None,
) -> x509.CertificateBuilder:
    begin = (at if at is not None else datetime.datetime.now(datetime.UTC)) - BACKDATED
    until = begin + datetime.timedelta(days=days)
    return unsigned(subject, issuer, key.public_key(), begin, until)


def _issued(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Issued:
    return Issued(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))


def _write(path: Path, content: bytes, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)
