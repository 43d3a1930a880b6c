"""Certificates for Flight: an authority with one level below it, and what it signs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from aqueduct_core.primitives.x509 import key_usage, private_pem, unsigned


class Validity(NamedTuple):
    """From when to when a certificate counts."""

    since: datetime
    until: datetime


@dataclass(frozen=True)
class TlsIdentity:
    """Certificate and key of one side of Flight, in PEM; ``repr`` shows neither."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "TlsIdentity(…)"


@dataclass(frozen=True)
class FlightAuthority:
    """A self-signed certificate and its key; ``repr`` shows neither."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def __repr__(self) -> str:
        return "FlightAuthority(…)"

    @classmethod
    def made(cls, key: ec.EllipticCurvePrivateKey, name: str, valid: Validity) -> Self:
        """One whose certificates verify each other whenever they are made of the same ``key`` and
        ``name``."""
        own = _named(name)
        builder = _builder(own, own, key.public_key(), valid, signs_certificates=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def loaded(cls, certificate: bytes, key: bytes) -> Self:
        """From PEM. Raises ValueError for what is none."""
        private = serialization.load_pem_private_key(key, None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's key is not an elliptic curve key")
        return cls(x509.load_pem_x509_certificate(certificate), private)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return private_pem(self.key)

    def issued(self, name: str, purpose: x509.ObjectIdentifier) -> TlsIdentity:
        """A new key, and a certificate for ``name`` and ``purpose`` that is valid as long as that
        of the authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        valid = Validity(
            self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc
        )
        certificate = (
            _builder(
                _named(name),
                self.certificate.subject,
                key.public_key(),
                valid,
                signs_certificates=False,
            )
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        return TlsIdentity(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    valid: Validity,
    *,
    signs_certificates: bool,
) -> x509.CertificateBuilder:
    constraints = x509.BasicConstraints(
        ca=signs_certificates, path_length=0 if signs_certificates else None
    )
    return (
        unsigned(subject, issuer, key, valid.since, valid.until)
        .add_extension(constraints, critical=True)
        .add_extension(key_usage(signs_certificates=signs_certificates), critical=True)
    )
