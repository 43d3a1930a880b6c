"""The seam between an intake and a protocol.

An intake is the same for every protocol: groups that are durable before they are acked, the queue
of what waits for room, cursors and leases, the Flight server, the spool and its layout, memory.
What is a protocol's own is its *adapter*: an object with the attributes of `Adapter`, at the top of
a module. `adapter_named` finds it, by a name that is built in or by ``package.module:NAME``, so
a protocol may live anywhere.

An adapter makes

- for each connection an engine (`StorageEngine`) and its session, a subclass of
  `sessions.session.Session`. The session gives what its engine received to the group commit as
  `PendingBatch`, and what happened as `PendingEvent`; `Session` acks what has become durable. It
  may ack nothing by itself, and hold nothing without counting it in its ``memory``;
- for each endpoint that is dialled a `sessions.remote.Remote`: what is wanted of it, its client's
  engine and session for each connection, and what the end of one means. Dialling, back-off, tokens,
  TLS and the status are the intake's (`sessions.dial`);
- the rows (`RowFormat`): the columns of a stored message, what readers make of them, and its kinds
  of events with their counts (`EventSchema`);
- where its connections do not come over QUIC, the `Frontend` that begins them.

It keeps no state of its own, and knows nothing of groups, spools, cursors and readers.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.sessions.dial import DialFrontend
from aqueduct_core.intake.sessions.frontend import AcceptSession, Frontend
from aqueduct_core.intake.sessions.listen import ListenFrontend
from aqueduct_core.intake.sessions.quic import QuicDial, QuicListen
from aqueduct_core.intake.sessions.remote import MakeRemote
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.intake.storage.rows import RowFormat
from aqueduct_core.transport.settings import LinkSettings

DEFAULT_PROTOCOL = "aqueduct"
"""Where settings or a spool name none: it was there before others were."""

_BUILT_IN = {
    DEFAULT_PROTOCOL: "aqueduct_core.intake.aqueduct.adapter:ADAPTER",
    "quicr": "aqueduct_core.intake.quicr.adapter:ADAPTER",
    "telehash": "aqueduct_core.intake.telehash.adapter:ADAPTER",
}

SettingsT = TypeVar("SettingsT", bound=IntakeSettings)


class Adapter(Protocol[SettingsT]):
    """What an intake, and those who read its rows, know of a protocol."""

    name: str
    """As it is noted in the spool, and refused by intakes of another protocol."""

    alpn: str
    """Its name in the TLS handshake."""

    settings: type[SettingsT]
    """Those of its intakes: those of every intake with sections of its own."""

    rows: RowFormat
    """Those of a new spool; it reads those of earlier ones."""

    no_error: int
    """The code with which a connection is closed in good order."""

    internal_error: int
    """The code with which one is closed that fails by a fault of ours."""

    has_tokens: bool = True
    """Clients may show a bearer token."""

    def link(self, settings: SettingsT) -> LinkSettings:
        """Of each connection."""

    def ack_delay(self, settings: SettingsT) -> float:
        """Seconds in which an ack leaves, once its message is durable."""

    def accepts(
        self, settings: SettingsT, refusal: Callable[[str | None], str | None]
    ) -> AcceptSession:
        """How connections of a listener begin. Called once, at the start.

        Args:
            refusal: why a client with this bearer token may not connect; None: it may.

        Raises:
            InvalidOption: settings that the protocol cannot have.
        """

    def dials(self, settings: SettingsT) -> MakeRemote:
        """What is wanted of the endpoints of an intake that dials (its settings have ``connect``).
        Called once, at the start.

        Raises:
            InvalidOption: also where the protocol has no client.
        """

    def frontend(self, settings: SettingsT) -> Frontend:
        """How its connections come: over QUIC, by what `accepts` and `dials` say. A protocol with
        another carrier gives that to these frontends, or has a `Frontend` of its own here.

        Raises:
            InvalidOption, TlsFailed, AuthFailed: certificates or tokens cannot be had.
        """
        alpn, link = self.alpn, self.link(settings)
        connect, error = settings.connect, self.internal_error
        if connect is not None:
            return DialFrontend(
                settings,
                connect,
                carrier=QuicDial(settings, connect, alpn=alpn, link=link, internal_error=error),
                no_error=self.no_error,
                make_remote=self.dials(settings),
            )
        assert settings.listen is not None
        return ListenFrontend(
            settings,
            settings.listen,
            carrier=QuicListen(settings, alpn=alpn, link=link, internal_error=error),
            has_tokens=self.has_tokens,
            accepts=lambda refusal: self.accepts(settings, refusal),
        )


def adapter_named(protocol: str) -> Adapter[Any]:
    """The adapter of a protocol.

    Args:
        protocol: ``aqueduct``, ``quicr``, ``telehash``, or where an adapter is:
            ``package.module:NAME``.

    Raises:
        InvalidOption: BAD_VALUE: there is none.
    """
    module, _, name = _BUILT_IN.get(protocol, protocol).partition(":")
    try:
        return cast(Adapter[Any], getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidOption(
            "BAD_VALUE",
            f"protocol is {protocol!r}, for which there is no adapter: {error}",
            f"Name {' or '.join(_BUILT_IN)}, or an adapter as package.module:NAME",
        ) from None


def settings_from(text: str | bytes) -> IntakeSettings:
    """The settings of an intake, from the JSON of `IntakeSettings.to_json`.

    Raises:
        InvalidOption: MISSING, UNKNOWN or BAD_VALUE, naming the key; no adapter.
    """
    try:
        protocol = json.loads(text).get("protocol", DEFAULT_PROTOCOL)
    except (ValueError, AttributeError, RecursionError):
        protocol = DEFAULT_PROTOCOL  # whose settings refuse it
    settings: IntakeSettings = adapter_named(str(protocol)).settings.from_json(text)
    return settings
