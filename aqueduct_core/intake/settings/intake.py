"""What an intake is started with: one frozen value with a JSON form.

The JSON travels over the standard input of the process (a launched intake) or from a file that
only its owner reads (a standalone one), because it may hold secrets; ``repr`` shows none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.settings.dial import ConnectSettings, checked_address
from aqueduct_core.intake.settings.service import ServiceSettings
from aqueduct_core.primitives.settings import (
    Section,
    check_known,
    duration,
    from_mapping,
    number,
    size,
)

VERSION = 1


class TlsSettings(Section, frozen=True):
    """The listener's certificate: files, or one made at start for ``self_signed`` names."""

    cert_file: str | None = None
    key_file: str | None = None
    self_signed: tuple[str, ...] = ()


class AuthSettings(Section, frozen=True):
    """Who may connect. With neither a file nor a token everybody may.

    ``token_file`` holds one token a line and is read again when it changes; ``token`` is one
    that came from elsewhere: from the environment variable ``token_env`` of the driver.
    """

    token_file: str | None = None
    token: str | None = None
    token_env: str | None = None

    def __repr__(self) -> str:
        return f"<AuthSettings {self.token_file or self.token_env}>"

    @property
    def required(self) -> bool:
        return self.token_file is not None or self.token is not None


class IntakeSettings(ServiceSettings, frozen=True):
    """All settings of one intake process, of any protocol: one that has settings of its own has
    them in sections of its own, in place of ``limits`` and ``connect``.

    Args:
        spool: its spool directory (for intake *i* of a query ``<spool>/intake-<i>``).
        protocol: by name; a spool is of one protocol.
        spool_id: identity of the spool that must be found there; None: it may be a new one.
        given_out: for each log, the offsets below which its reader knows to have been given out;
            a spool that ends before them is an old copy, and would give them out again: it is
            refused, or with ``skip_given_out`` goes on behind them, and records that as an event.
        partitions: of the spool; a spool keeps the number that it was made with.
        listen: UDP ``host:port`` for producers, port 0 for any; or
        connect: whom to dial. Exactly one of the two.
        share_port: listen on a port where other intakes of this user do so, too, each with a spool
            of its own: the kernel gives each client to one of them, by its address.
        flight: ``host:port`` to bind for Flight, port 0 for any.
        advertise: host under which planner and tasks reach it; default: the bound host.
        credentials: of the spool, with the authority's key.
        lease: seconds after which it ends unless a planner asks for it; None: never.
        group_bytes: payload bytes that end a group at once.
        name: of the query or intake, for logs.
    """

    spool: str
    credentials: Credentials
    spool_id: str | None = None
    given_out: tuple[int, ...] = ()
    skip_given_out: bool = False
    partitions: Annotated[int, number(1, 4096, "Of the spool.")] = 2
    listen: str | None = None
    share_port: bool = False
    connect: ConnectSettings | None = None
    flight: str = "127.0.0.1:0"
    advertise: str | None = None
    tls: TlsSettings = TlsSettings()
    auth: AuthSettings = AuthSettings()
    lease: Annotated[float, duration("100ms", "36500d", "It ends without its query.")] | None = None
    group_bytes: Annotated[int, size("1b", "1t", "Payload that ends a group at once.")] = 1 << 20
    name: str = "intake"
    protocol: str = "aqueduct"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.listen is None) is (self.connect is None):
            raise InvalidOption(
                "MISSING" if self.listen is None else "CONFLICT",
                "an intake listens or connects, and "
                + ("neither is set" if self.listen is None else "both are set"),
                "Set listen to host:port, or connect.endpoints to whom to dial"
                + ("" if self.listen is None else ", not both"),
            )
        if self.listen is not None:
            checked_address("listen", self.listen)
        checked_address("flight", self.flight)
        if not self.spool.strip() or "://" in self.spool:
            raise InvalidOption(
                "BAD_VALUE",
                f"spool is {self.spool!r}; it must be the path of a local or mounted directory",
                "Name it without a scheme",
            )

    @property
    def scheme(self) -> str:
        """Of the URLs of what it dials."""
        return "" if self.connect is None else self.connect.scheme

    @property
    def own_sections(self) -> tuple[Section, ...]:
        """Those of its protocol, of which each setting is an option of its queries."""
        return ()

    @property
    def own_options(self) -> dict[str, Any]:
        """What its protocol has besides, by option; None: not given."""
        return {}

    @property
    def own_admission(self) -> dict[str, str]:
        """What of it decides who can bring messages, by option (`settings.recorded`)."""
        return {}

    def to_json(self) -> str:
        """One line of JSON. Holds secrets: for standard input or an owner-only file."""
        content = {**msgspec.to_builtins(self), "credentials": self.credentials.to_json()}
        return msgspec.json.encode({"v": VERSION, **content}).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Settings from `to_json`, or from a file where all but ``spool`` may be missing.

        Without ``credentials`` those of the spool directory are taken (made when missing).

        Raises:
            InvalidOption: MISSING, UNKNOWN or BAD_VALUE, naming the key.
        """
        try:
            data = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise InvalidOption(
                "BAD_VALUE", "the settings are not a JSON object", "Correct it and start again"
            )
        return cls.from_mapping(data)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Self:
        """As `from_json`, of a value that was parsed already."""
        content = dict(data)
        version = content.pop("v", VERSION)
        if version != VERSION:
            raise InvalidOption(
                "BAD_VALUE",
                f"v is {version}, this release reads {VERSION}",
                "Use the release that wrote it, or a newer one",
            )
        check_known(content, cls)
        if "spool" not in content:
            raise InvalidOption(
                "MISSING", "the settings name no spool", "Set spool to the directory of the log"
            )
        kept = content.get("credentials")
        content["credentials"] = _NONE if kept is None else _credentials(kept)
        settings = from_mapping(content, cls)
        if kept is not None:
            return settings
        # made when all else is right, so that a mistake leaves no directory behind
        found = Credentials.for_spool(Path(settings.spool))
        return msgspec.structs.replace(settings, credentials=found)


_NONE = Credentials("", b"")


def _credentials(given: Any) -> Credentials:
    try:
        return given if isinstance(given, Credentials) else Credentials.from_json(given)
    except (TypeError, ValueError, KeyError, AttributeError):
        raise InvalidOption(
            "BAD_VALUE",
            "the settings hold a value of the wrong kind: credentials",
            "Correct it and start again",
        ) from None
