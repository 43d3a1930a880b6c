"""Certificates and trust of both ends. Private keys are never part of a repr, a log or an error."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from aqueduct_core.errors import InvalidOption, TlsFailed
from aqueduct_core.primitives import certificates
from aqueduct_core.primitives.certificates import Authority, Issued, Validity

LEAF_DAYS = 365
AUTHORITY_DAYS = 3_650
BACKDATED = datetime.timedelta(minutes=10)
"""Certificates begin a little in the past, so that a clock slightly behind accepts them."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How the server that we dial is verified.

    With neither ``ca_file`` nor ``ca_pem`` the certificate authorities of the system are
    trusted. ``server_name`` is the name to look for in the certificate; None: the host dialled.
    ``insecure`` takes any certificate and is refused for hosts other than loopback.
    """

    ca_file: Path | None = None
    ca_pem: bytes | None = field(default=None, repr=False)
    server_name: str | None = None
    insecure: bool = False

    def authorities(self) -> tuple[str | None, bytes | None]:
        """The trusted certificates: a file of the system, or PEM that was read and checked.

        Raises ``InvalidOption.BAD_VALUE`` naming the file.
        """
        if self.ca_pem is not None:
            pem, origin = self.ca_pem, "the given PEM"
        elif self.ca_file is not None:
            pem, origin = _read(self.ca_file, "CA file"), f"the CA file {self.ca_file}"
        else:
            # Not parsed here: stores of systems hold old certificates that a parser warns about.
            return ssl.get_default_verify_paths().cafile or certifi.where(), None
        try:
            x509.load_pem_x509_certificates(pem)
        except ValueError:
            raise InvalidOption(
                "BAD_VALUE",
                f"{origin} holds no certificate in PEM form",
                "Give a PEM file with at least one CA certificate",
            ) from None
        return None, pem


@dataclass(frozen=True)
class ServerIdentity:
    """A certificate with its chain and key, loaded and checked: ready to serve."""

    certificate: x509.Certificate
    chain: tuple[x509.Certificate, ...]
    key: PrivateKeyTypes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.certificate)


@dataclass(frozen=True)
class ServerTls:
    """The certificate of a listener: files, or PEM in memory (``self_signed``).

    ``cert_file`` holds the leaf first and then its chain; ``key_file`` the unencrypted key.
    """

    cert_file: Path | None = None
    key_file: Path | None = None
    cert_pem: bytes | None = field(default=None, repr=False)
    key_pem: bytes | None = field(default=None, repr=False)

    @classmethod
    def self_signed(cls, names: Sequence[str] = ("localhost", "127.0.0.1", "::1")) -> ServerTls:
        """A fresh certificate for ``names`` (host names and IP addresses), kept in memory only.

        Clients trust it by ``ClientTls(ca_pem=tls.cert_pem)`` or compare ``fingerprint``.
        """
        issued = self_signed(names)
        return cls(cert_pem=issued.cert_pem, key_pem=issued.key_pem)

    @cached_property
    def identity(self) -> ServerIdentity:
        """The loaded certificate and key.

        Raises:
            InvalidOption.BAD_VALUE: a file is missing, unreadable or not PEM, or the key does
                not belong to the certificate; the text names the file.
            InvalidOption.MISSING: no certificate or no key was given.
        """
        cert_pem, cert_origin = _part(self.cert_pem, self.cert_file, "certificate")
        key_pem, key_origin = _part(self.key_pem, self.key_file, "key")
        try:
            chain = x509.load_pem_x509_certificates(cert_pem)
        except ValueError:
            raise InvalidOption(
                "BAD_VALUE",
                f"{cert_origin} holds no certificate in PEM form",
                "Give a PEM file with the certificate of the listener",
            ) from None
        key = _load_key(key_pem, key_origin)
        if _public(key.public_key()) != _public(chain[0].public_key()):
            raise InvalidOption(
                "BAD_VALUE",
                f"{key_origin} is not the key of {cert_origin}",
                "Give the key that the certificate was issued for",
            )
        return ServerIdentity(chain[0], tuple(chain[1:]), key)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, as colon-separated hexadecimal."""
        return self.identity.fingerprint

    def checked(self, at: datetime.datetime | None = None) -> ServerIdentity:
        """The identity, or ``TlsFailed.EXPIRED`` when its dates do not cover ``at`` (now)."""
        identity = self.identity
        moment = at if at is not None else datetime.datetime.now(datetime.UTC)
        certificate = identity.certificate
        origin = f"the certificate {self.cert_file}" if self.cert_file else "the certificate"
        if moment > certificate.not_valid_after_utc:
            raise TlsFailed(
                "EXPIRED",
                f"{origin} expired at {certificate.not_valid_after_utc.isoformat()}",
                "Issue a new one (aqueduct cert DIR makes one for development)",
            )
        if moment < certificate.not_valid_before_utc:
            raise TlsFailed(
                "EXPIRED",
                f"{origin} is valid only from {certificate.not_valid_before_utc.isoformat()}",
                "Check the clock of this machine or issue a new certificate",
            )
        return identity


def make_authority(*, days: int = AUTHORITY_DAYS, at: datetime.datetime | None = None) -> Authority:
    """A new certificate authority; nobody trusts it until told to."""
    return Authority.made("Aqueduct development CA", _for_days(days, at))


def issue(
    authority: Authority,
    names: Sequence[str],
    *,
    days: int = LEAF_DAYS,
    at: datetime.datetime | None = None,
) -> Issued:
    """A certificate for ``names`` (host names and IP addresses), signed by ``authority``."""
    return authority.issue(names, _for_days(days, at))


def self_signed(
    names: Sequence[str], *, days: int = LEAF_DAYS, at: datetime.datetime | None = None
) -> Issued:
    """A certificate for ``names`` that vouches for itself."""
    return certificates.self_signed(names, _for_days(days, at))


def _for_days(days: int, at: datetime.datetime | None) -> Validity:
    begin = (at if at is not None else datetime.datetime.now(datetime.UTC)) - BACKDATED
    return Validity(begin, begin + datetime.timedelta(days=days))


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate's DER form as upper-case hexadecimal pairs with colons."""
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def _part(pem: bytes | None, path: Path | None, what: str) -> tuple[bytes, str]:
    if pem is not None:
        return pem, f"the {what}"
    if path is None:
        raise InvalidOption(
            "MISSING",
            f"a listener needs a {what}",
            "Give a certificate file and its key file, or ask for a self-signed one",
        )
    return _read(path, f"{what} file"), f"the {what} file {path}"


def _read(path: Path, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidOption(
            "BAD_VALUE",
            f"the {what} {path} cannot be read: {error.strerror}",
            "Give the path of a readable PEM file",
        ) from None


def _load_key(pem: bytes, origin: str) -> PrivateKeyTypes:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise InvalidOption(
            "BAD_VALUE", f"{origin} is encrypted", "Give an unencrypted private key"
        ) from None
    except ValueError:
        # The parser's text may quote what it read, so it does not become part of the error.
        raise InvalidOption(
            "BAD_VALUE",
            f"{origin} holds no private key in PEM form",
            "Give a PEM file with the private key of the certificate",
        ) from None
    kinds = (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)
    if not isinstance(key, (*kinds, ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey)):
        raise InvalidOption(
            "BAD_VALUE",
            f"{origin} is of a kind that TLS 1.3 does not use",
            "Use an EC, RSA or Ed25519 key",
        )
    return key


def _public(key: object) -> bytes:
    encoded: bytes = key.public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded
