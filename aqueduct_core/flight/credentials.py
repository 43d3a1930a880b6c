"""What planner, tasks and intakes of one spool share: a bearer token and a private authority.

The authority signs the certificate of each Flight server, so a client needs no certificate of
the host it dials: it trusts this one authority and expects the fixed name `SERVER_NAME`.
The files lie beside the spool because a restarted query must find the same ones again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.primitives import atomic_file
from aqueduct_core.primitives.private_files import make_directories

SERVER_NAME = "aqueduct-intake"
"""The one DNS name in each server certificate; clients verify it instead of a host name."""

KEYS_FILE = ".keys"
VERSION = 1

_LIFETIME = timedelta(days=3650)
"""As long as a spool may be in use; a new authority is made by removing the keys file."""

_SKEW = timedelta(days=1)
"""Certificates are valid from that long ago: clocks of driver and executors differ."""


@dataclass(frozen=True)
class ServerIdentity:
    """Certificate and key of one Flight server, in PEM; ``repr`` shows neither."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "ServerIdentity(…)"


@dataclass(frozen=True)
class Credentials:
    """Token, authority certificate and (only where servers are started) the authority's key.

    ``repr`` shows nothing of it. Values are pickled from the planner to tasks; hand out
    `for_clients` where no server is to be started.
    """

    token: str
    authority: bytes
    authority_key: bytes | None = None

    def __repr__(self) -> str:
        return "Credentials(…)"

    @classmethod
    def fresh(cls) -> Credentials:
        """A new random token and a new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Aqueduct spool authority")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(now + _LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        return cls(
            secrets.token_urlsafe(32),
            certificate.public_bytes(serialization.Encoding.PEM),
            _private_pem(key),
        )

    @classmethod
    def for_spool(cls, directory: Path) -> Credentials:
        """The credentials kept in ``directory``; made on the first call.

        The file is created whole or not at all, readable by its owner only. When two processes
        race, both get the ones of the winner.

        Raises:
            SpoolFailed: IO when the directory cannot be used, CORRUPT or VERSION when the file
                is not one of ours.
        """
        path = Path(directory) / KEYS_FILE
        try:
            make_directories(path.parent)
            if not path.exists():
                content = json.dumps(cls.fresh().to_json()).encode()
                atomic_file.create(path, content)
            text = path.read_bytes()
        except OSError as error:
            raise SpoolFailed(
                "IO",
                f"the credentials file {path} cannot be used: {error.strerror}",
                "Make the spool directory writable for the user of the query",
            ) from None
        try:
            return cls.from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SpoolFailed(
                "CORRUPT",
                f"the credentials file {path} is damaged",
                "Remove it when no intake of this spool runs: new ones are made",
            ) from None

    def to_json(self) -> dict[str, Any]:
        """For a file or pipe that only the owner reads. Holds secrets."""
        return {
            "v": VERSION,
            "token": self.token,
            "authority": self.authority.decode(),
            "authorityKey": self.authority_key.decode() if self.authority_key else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Credentials:
        """The inverse of `to_json`; raises SpoolFailed.VERSION for a newer version."""
        if data["v"] != VERSION:
            raise SpoolFailed(
                "VERSION",
                f"the spool's credentials have version {data['v']}, this release reads {VERSION}",
                "Use the release that wrote them",
            )
        key = data["authorityKey"]
        return cls(data["token"], data["authority"].encode(), key.encode() if key else None)

    def for_clients(self) -> Credentials:
        """The same without the authority's key: enough to call a server, not to be one."""
        return replace(self, authority_key=None)

    def reset_key(self, spool_id: str) -> bytes:
        """The key of stateless resets (32 bytes) of the intake of this spool: the same one after
        each restart, and another one for each intake of those that share the credentials."""
        if self.authority_key is None:
            raise ValueError("these credentials are for clients only")
        info = b"aqueduct stateless reset " + spool_id.encode()
        return HKDF(hashes.SHA256(), 32, None, info).derive(self.authority_key)

    def server_identity(self) -> ServerIdentity:
        """A fresh certificate for one Flight server, signed by the authority."""
        if self.authority_key is None:
            raise ValueError("these credentials are for clients only")
        authority = x509.load_pem_x509_certificate(self.authority)
        signer = serialization.load_pem_private_key(self.authority_key, None)
        if not isinstance(signer, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's key is not an elliptic curve key")
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SERVER_NAME)]))
            .issuer_name(authority.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(authority.not_valid_before_utc)
            .not_valid_after(authority.not_valid_after_utc)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
                critical=False,
            )
            .sign(signer, hashes.SHA256())
        )
        return ServerIdentity(
            certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key)
        )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
