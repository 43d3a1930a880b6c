"""What planner, tasks and intakes of one spool share: a bearer token and a private authority.

The authority signs the certificate of each Flight server, so a client needs no certificate of
the host it dials: it trusts this one authority. From the token follow the name in that certificate
and an authority for clients, so that either side knows in the TLS handshake whether the other has
the same token. That takes nothing away from the token, which is random and as long as a key.
The files lie beside the spool because a restarted query must find the same ones again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.primitives import atomic_file
from aqueduct_core.primitives.certificates import Authority, Issued, Validity
from aqueduct_core.primitives.json_file import unusable

KEYS_FILE = ".keys"
VERSION = 1

_LIFETIME = timedelta(days=3650)
"""As long as a spool may be in use; a new authority is made by removing the keys file."""

_SKEW = timedelta(days=1)
"""Certificates are valid from that long ago: clocks of driver and executors differ."""

_ALWAYS = Validity(datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
"""Of what follows from the token, which alone says how long it is valid."""

_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the base point of P-256: private keys are the numbers from 1 up to it."""


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
        now = datetime.now(UTC)
        authority = Authority.made(
            "Aqueduct spool authority", Validity(now - _SKEW, now + _LIFETIME)
        )
        return cls(secrets.token_urlsafe(32), authority.cert_pem, authority.key_pem)

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
            atomic_file.make_directories(path.parent)
            if not path.exists():
                content = json.dumps(cls.fresh().to_json()).encode()
                atomic_file.create(path, content)
            text = path.read_bytes()
        except OSError as error:
            raise unusable(
                path.parent, error, "Name a directory that this user can make, and write to"
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

    @property
    def server_name(self) -> str:
        """The one DNS name in the certificates of servers, which clients verify instead of a host
        name. It says which token a server has to whom has the same, and nothing to others."""
        return f"{self._derived('server name', 16).hex()}.aqueduct-intake"

    def server_identity(self) -> Issued:
        """A fresh certificate for one Flight server, signed by the authority."""
        if self.authority_key is None:
            raise ValueError("these credentials are for clients only")
        return Authority.loaded(self.authority, self.authority_key).issue([self.server_name])

    def page_identity(self, names: Sequence[str]) -> Issued:
        """A fresh certificate for HTTPS under these host names and addresses, signed by the
        authority. Raises InvalidOption for what is no name."""
        if self.authority_key is None:
            raise ValueError("these credentials are for clients only")
        return Authority.loaded(self.authority, self.authority_key).issue(names)

    def client_authority(self) -> bytes:
        """The certificate, in PEM, by which a server knows clients that have the token."""
        return self._authority_of_clients().cert_pem

    def client_identity(self) -> Issued:
        """A fresh certificate for one client, signed by the authority that follows from the
        token: it proves in the TLS handshake that the client has it."""
        return self._authority_of_clients().issue(
            ["aqueduct-client"], purpose=ExtendedKeyUsageOID.CLIENT_AUTH
        )

    def _authority_of_clients(self) -> Authority:
        # 128 bits more than the order has, so that no key is noticeably likelier than another
        number = int.from_bytes(self._derived("client authority", 48)) % (_ORDER - 1) + 1
        key = ec.derive_private_key(number, ec.SECP256R1())
        return Authority.made("Aqueduct clients", _ALWAYS, key)

    def _derived(self, purpose: str, size: int) -> bytes:
        info = b"aqueduct flight " + purpose.encode()
        return HKDF(hashes.SHA256(), size, None, info).derive(self.token.encode())
