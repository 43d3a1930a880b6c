"""Certificates that we make ourselves: authorities, what they sign, and self-signed ones.

All have keys on P-256. Private keys are never part of a repr.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aqueduct_core.errors import InvalidOption


class Validity(NamedTuple):
    """From when to when a certificate counts."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key in PEM form."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authority:
    """A self-signed certificate with one level below it, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def made(
        cls, name: str, valid: Validity, key: ec.EllipticCurvePrivateKey | None = None
    ) -> Self:
        """One whose certificates verify each other whenever they are made of the same ``key`` (a
        new one by default) and ``name``."""
        own = key or ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        builder = _unsigned(subject, subject, own.public_key(), valid, authority=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(own.public_key())
        builder = builder.add_extension(identifier, critical=False)
        return cls(builder.sign(own, hashes.SHA256()), own)

    @classmethod
    def loaded(cls, cert_pem: bytes, key_pem: bytes) -> Self:
        """From PEM. Raises ValueError for what is none."""
        key = serialization.load_pem_private_key(key_pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's key is not an elliptic curve key")
        return cls(x509.load_pem_x509_certificate(cert_pem), key)

    @property
    def cert_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return _private_pem(self.key)

    def issue(
        self,
        names: Sequence[str],
        valid: Validity | None = None,
        purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
    ) -> Issued:
        """A new key, and a certificate for ``names`` (host names and IP addresses), valid as long
        as that of the authority by default. Raises InvalidOption."""
        own = self.certificate
        valid = valid or Validity(own.not_valid_before_utc, own.not_valid_after_utc)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _leaf(names, own.subject, key, valid, purpose)
        builder = builder.add_extension(identifier, critical=False)
        return _packed(builder.sign(self.key, hashes.SHA256()), key)


def self_signed(names: Sequence[str], valid: Validity) -> Issued:
    """A certificate for ``names`` that vouches for itself. Raises InvalidOption."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _leaf(names, None, key, valid, ExtendedKeyUsageOID.SERVER_AUTH)
    return _packed(builder.sign(key, hashes.SHA256()), key)


def _leaf(
    names: Sequence[str],
    issuer: x509.Name | None,
    key: ec.EllipticCurvePrivateKey,
    valid: Validity,
    purpose: x509.ObjectIdentifier,
) -> x509.CertificateBuilder:
    if not names:
        raise InvalidOption(
            "MISSING", "a certificate needs a name", "Give a host name or an IP address"
        )
    subject = _subject(names[0])
    named = x509.SubjectAlternativeName([_general_name(name) for name in names])
    return (
        _unsigned(subject, issuer or subject, key.public_key(), valid, authority=False)
        .add_extension(named, critical=False)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    )


def _unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    valid: Validity,
    *,
    authority: bool,
) -> x509.CertificateBuilder:
    constraints = x509.BasicConstraints(ca=authority, path_length=0 if authority else None)
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid.since)
        .not_valid_after(valid.until)
        .add_extension(constraints, critical=True)
        .add_extension(usage, critical=True)
    )


def _subject(name: str) -> x509.Name:
    # A common name holds at most 64 characters; the alternative names are what counts.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


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


def _packed(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Issued:
    return Issued(certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key))


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
