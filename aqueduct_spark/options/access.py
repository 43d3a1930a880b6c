"""Certificates and tokens as options name them: places and choices, never a secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.options.refusals import conflict, missing
from aqueduct_spark.options.values import Endpoint

if TYPE_CHECKING:
    from aqueduct_core.transport.tls.credentials import ClientTls


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Where the bearer token is: exactly one of a file and an environment variable."""

    file: str | None
    env: str | None


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """The certificate of a listener: two files, or one that is made (both None)."""

    cert_file: str | None
    key_file: str | None

    @property
    def self_signed(self) -> bool:
        return self.cert_file is None


@dataclass(frozen=True, slots=True)
class DialTls:
    """How a dialled endpoint is verified."""

    ca_file: str | None
    server_name: str | None
    insecure: bool

    def client(self) -> ClientTls:
        """The same for whoever dials."""
        from aqueduct_core.transport.tls.credentials import ClientTls

        return ClientTls(
            ca_file=Path(self.ca_file) if self.ca_file else None,
            server_name=self.server_name,
            insecure=self.insecure,
        )


def listener_tls(found: Mapping[str, Any], listen: HostPort) -> ListenerTls:
    cert, key, self_signed = (found[f"tls.{n}"] for n in ("certFile", "keyFile", "selfSigned"))
    if (cert is None) != (key is None):
        given, absent = ("certFile", "keyFile") if key is None else ("keyFile", "certFile")
        raise missing(f"tls.{absent}", f"it belongs to tls.{given}")
    if cert is not None and self_signed:
        raise conflict("tls.selfSigned=true and tls.certFile are both set", "Set one of them")
    if cert is None and self_signed is not True and (self_signed is False or not listen.loopback):
        raise missing(
            "tls.certFile",
            f"a listener on {listen} needs a certificate (tls.certFile and tls.keyFile, or "
            "tls.selfSigned=true)",
        )
    return ListenerTls(cert, key)


def dial_tls(found: Mapping[str, Any], target: Endpoint) -> DialTls:
    insecure: bool = found["tls.insecure"]
    if insecure and not all(address.loopback for address in target.addresses):
        raise conflict(
            "tls.insecure=true is for loopback addresses only, and endpoint is " + str(target),
            "Set tls.caFile to the authority of the endpoint",
        )
    if insecure and found["tls.caFile"] is not None:
        raise conflict("tls.insecure=true and tls.caFile are both set", "Set one of them")
    return DialTls(found["tls.caFile"], found["tls.serverName"], insecure)


def token_source(found: Mapping[str, Any]) -> TokenSource | None:
    file, env = found["auth.tokenFile"], found["auth.tokenEnv"]
    if file is not None and env is not None:
        raise conflict("auth.tokenFile and auth.tokenEnv are both set", "Set one of them")
    return None if file is None and env is None else TokenSource(file, env)
