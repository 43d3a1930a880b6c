"""What an intake is told when it starts: one frozen value with a JSON form.

The JSON travels over the standard input of the process (a launched intake) or from a file that
only its owner reads (a standalone one), because it may hold secrets; ``repr`` shows none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.settings.dial import ConnectSettings, checked_address
from aqueduct_core.primitives.json_sections import known, section
from aqueduct_core.transport.address_validation import RetryMode

VERSION = 1


@dataclass(frozen=True)
class TlsSettings:
    """The listener's certificate: files, or one made at start for ``self_signed`` names."""

    cert_file: str | None = None
    key_file: str | None = None
    self_signed: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuthSettings:
    """Who may connect. With neither a file nor a token everybody may.

    ``token_file`` holds one token a line and is read again when it changes; ``token`` is one
    that came from elsewhere: from the environment variable ``token_env`` of the driver.
    """

    token_file: str | None = None
    token: str | None = field(default=None, repr=False)
    token_env: str | None = None

    @property
    def required(self) -> bool:
        return self.token_file is not None or self.token is not None


@dataclass(frozen=True)
class Limits:
    """What hostile or many peers may use; None takes the default of the part that keeps it."""

    connections: int | None = None
    connections_per_address: int | None = None
    handshakes: int | None = None
    handshakes_per_network: int | None = None
    retry: RetryMode | None = None
    channels: int | None = None
    attachments: int | None = None
    header_bytes: int | None = None
    memory: int | None = None
    connection_share: float | None = None
    handshake_seconds: float | None = None


@dataclass(frozen=True)
class IntakeSettings:
    """All settings of one intake process.

    Args:
        spool: its spool directory (for intake *i* of a query ``<spool>/intake-<i>``).
        spool_id: identity of the spool that must be found there; None: it may be a new one.
        given_out: for each log, the offsets below which its reader knows to have been given out;
            a spool that ends before them is an old copy, and would give them out again: it is
            refused, or with ``skip_given_out`` goes on behind them, and tells so as an event.
        partitions: of the spool; a spool keeps the number that it was made with.
        listen: UDP ``host:port`` for producers, port 0 for any; or
        connect: whom to dial. Exactly one of the two.
        flight: ``host:port`` to bind for Flight, port 0 for any.
        advertise: host under which planner and tasks reach it; default: the bound host.
        credentials: of the spool, with the authority's key.
        lease: seconds after which it ends unless a planner asks for it; None: never.
        group_commit: longest wait in seconds before a group is made durable and acked.
        group_bytes: payload bytes that end a group at once.
        spool_max_bytes: size on disk at which producers are pushed back.
        retention: seconds to keep data after it was stored, though it is committed.
        early_data: producers are given sessions and their 0-RTT data is taken; remotes that are
            dialled are resumed, and what is said first to them is 0-RTT data.
        name: of the query or intake, for logs.
    """

    spool: str
    credentials: Credentials
    spool_id: str | None = None
    given_out: tuple[int, ...] = ()
    skip_given_out: bool = False
    partitions: int = 2
    listen: str | None = None
    connect: ConnectSettings | None = None
    flight: str = "127.0.0.1:0"
    advertise: str | None = None
    tls: TlsSettings = TlsSettings()
    auth: AuthSettings = AuthSettings()
    limits: Limits = Limits()
    lease: float | None = None
    group_commit: float = 0.02
    group_bytes: int = 1 << 20
    spool_max_bytes: int = 10 << 30
    retention: float = 0.0
    max_message_bytes: int = 16 << 20
    transport: str = "aioquic"
    early_data: bool = False
    name: str = "intake"

    def __post_init__(self) -> None:
        _within("partitionsPerIntake", self.partitions, 1, 4096)
        _within("groupCommit", self.group_commit, 0.0, 10.0)
        _within("spoolMaxBytes", self.spool_max_bytes, 1 << 20, 1 << 62)
        _within("maxMessageBytes", self.max_message_bytes, 1, 1 << 30)
        if self.lease is not None:
            _within("lease", self.lease, 0.1, 1e9)
        if not isinstance(self.early_data, bool):
            raise _bad("option earlyData", f"is {self.early_data!r}, allowed are true and false")
        if (self.listen is None) is (self.connect is None):
            raise InvalidOption(
                "MISSING" if self.listen is None else "CONFLICT",
                "an intake listens or connects, and "
                + ("neither is set" if self.listen is None else "both are set"),
                "Set listen to host:port, or connect.endpoints to whom to dial",
            )
        if self.listen is not None:
            checked_address("listen", self.listen)
        checked_address("flight", self.flight)

    def to_json(self) -> str:
        """One line of JSON. Holds secrets: for standard input or an owner-only file."""
        return json.dumps(
            {
                "v": VERSION,
                "spool": self.spool,
                "spoolId": self.spool_id,
                "givenOut": list(self.given_out),
                "skipGivenOut": self.skip_given_out,
                "credentials": self.credentials.to_json(),
                "partitions": self.partitions,
                "listen": self.listen,
                "connect": None if self.connect is None else self.connect.to_json(),
                "flight": self.flight,
                "advertise": self.advertise,
                "tls": {
                    "certFile": self.tls.cert_file,
                    "keyFile": self.tls.key_file,
                    "selfSigned": list(self.tls.self_signed),
                },
                "auth": {
                    "tokenFile": self.auth.token_file,
                    "token": self.auth.token,
                    "tokenEnv": self.auth.token_env,
                },
                "limits": {
                    "connections": self.limits.connections,
                    "connectionsPerAddress": self.limits.connections_per_address,
                    "handshakes": self.limits.handshakes,
                    "handshakesPerNetwork": self.limits.handshakes_per_network,
                    "retry": self.limits.retry,
                    "channels": self.limits.channels,
                    "attachments": self.limits.attachments,
                    "headerBytes": self.limits.header_bytes,
                    "memory": self.limits.memory,
                    "connectionShare": self.limits.connection_share,
                    "handshakeSeconds": self.limits.handshake_seconds,
                },
                "lease": self.lease,
                "groupCommit": self.group_commit,
                "groupBytes": self.group_bytes,
                "spoolMaxBytes": self.spool_max_bytes,
                "retention": self.retention,
                "maxMessageBytes": self.max_message_bytes,
                "transport": self.transport,
                "earlyData": self.early_data,
                "name": self.name,
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Settings from `to_json`, or from a file where all but ``spool`` may be missing.

        Without ``credentials`` those of the spool directory are taken (made when missing).

        Raises:
            InvalidOption: MISSING, UNKNOWN or BAD_VALUE, naming the key.
        """
        try:
            data = json.loads(text)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise _bad("the settings", "are not a JSON object")
        return cls.from_mapping(data)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Self:
        """As `from_json`, of a value that was parsed already."""
        known("", data, _KEYS)
        if data.get("v", VERSION) != VERSION:
            raise _bad("v", f"is {data['v']}, this release reads {VERSION}")
        if not isinstance(data.get("spool"), str):
            raise InvalidOption("MISSING", "the settings name no spool", "Give a directory")
        try:
            return cls._from(data)
        except (TypeError, ValueError, KeyError, AttributeError):
            raise _bad("the settings", "hold a value of the wrong kind") from None

    @classmethod
    def _from(cls, data: Mapping[str, Any]) -> Self:
        tls = section(data, "tls", {"certFile", "keyFile", "selfSigned"})
        auth = section(data, "auth", {"tokenFile", "token", "tokenEnv"})
        limits = section(data, "limits", set(_LIMITS))
        if data.get("credentials") is None:
            credentials = Credentials.for_spool(Path(data["spool"]))
        else:
            credentials = Credentials.from_json(data["credentials"])
        plain = {name: data[key] for key, name in _PLAIN.items() if key in data}
        return cls(
            spool=data["spool"],
            credentials=credentials,
            given_out=tuple(map(int, data.get("givenOut") or ())),
            connect=None
            if data.get("connect") is None
            else ConnectSettings.from_json(data["connect"]),
            tls=TlsSettings(
                tls.get("certFile"), tls.get("keyFile"), tuple(tls.get("selfSigned") or ())
            ),
            auth=AuthSettings(auth.get("tokenFile"), auth.get("token"), auth.get("tokenEnv")),
            limits=Limits(**{_LIMITS[key]: value for key, value in limits.items()}),
            **plain,
        )


_PLAIN = {
    "spoolId": "spool_id",
    "skipGivenOut": "skip_given_out",
    "partitions": "partitions",
    "listen": "listen",
    "flight": "flight",
    "advertise": "advertise",
    "lease": "lease",
    "groupCommit": "group_commit",
    "groupBytes": "group_bytes",
    "spoolMaxBytes": "spool_max_bytes",
    "retention": "retention",
    "maxMessageBytes": "max_message_bytes",
    "transport": "transport",
    "earlyData": "early_data",
    "name": "name",
}
_LIMITS = {
    "connections": "connections",
    "connectionsPerAddress": "connections_per_address",
    "handshakes": "handshakes",
    "handshakesPerNetwork": "handshakes_per_network",
    "retry": "retry",
    "channels": "channels",
    "attachments": "attachments",
    "headerBytes": "header_bytes",
    "memory": "memory",
    "connectionShare": "connection_share",
    "handshakeSeconds": "handshake_seconds",
}
_KEYS = {"v", "spool", "givenOut", "credentials", "connect", "tls", "auth", "limits", *_PLAIN}


def _within(option: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise _bad(f"option {option}", f"is {value}, allowed are {least} to {most}")


def _bad(subject: str, what: str) -> InvalidOption:
    return InvalidOption("BAD_VALUE", f"{subject} {what}", "Correct it and start again")
