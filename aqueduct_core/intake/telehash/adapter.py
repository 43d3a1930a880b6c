"""Telehash, as an intake knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aqueduct_core.intake.adapter import Adapter
from aqueduct_core.intake.sessions.carriers import DialCarrier, ListenCarrier
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.dial import DialFrontend
from aqueduct_core.intake.sessions.frontend import Accepted, AcceptSession, Frontend
from aqueduct_core.intake.sessions.listen import ListenFrontend
from aqueduct_core.intake.sessions.plain import PlainDial, PlainListen
from aqueduct_core.intake.sessions.quic import QuicDial, QuicListen
from aqueduct_core.intake.sessions.remote import MakeRemote
from aqueduct_core.intake.storage.rows import RowFormat
from aqueduct_core.intake.telehash.event_recorder import EventBudget
from aqueduct_core.intake.telehash.remote import TelehashRemote
from aqueduct_core.intake.telehash.roles import engine_config
from aqueduct_core.intake.telehash.rows import ROWS
from aqueduct_core.intake.telehash.session import LineSession
from aqueduct_core.intake.telehash.settings import TelehashIntake
from aqueduct_core.telehash.config import ALPN, TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.faults import CloseCode
from aqueduct_core.telehash.hashnames import dials_odd, hashname_of
from aqueduct_core.transport.plain_udp.link import PlainSettings
from aqueduct_core.transport.settings import LinkSettings

INTERNAL_ERROR = max(CloseCode) + 1
"""The code with which a line is closed that fails by a fault of ours."""


class TelehashAdapter(Adapter[TelehashIntake]):
    """The ack of the protocol means stored, or committed; over QUIC datagrams, or plain UDP."""

    name = "telehash"
    alpn = ALPN
    settings = TelehashIntake
    rows: RowFormat = ROWS
    no_error: int = CloseCode.NO_ERROR
    internal_error: int = INTERNAL_ERROR
    has_tokens = False

    def link(self, settings: TelehashIntake) -> LinkSettings:
        return LinkSettings(
            handshake_timeout=settings.limits.handshake_timeout,
            max_datagram_size=settings.max_datagram_bytes,
            max_streams_uni=0,
            max_streams_bidi=0,
        )

    def ack_delay(self, settings: TelehashIntake) -> float:
        return TelehashConfig().ack_delay

    def accepts(
        self, settings: TelehashIntake, refusal: Callable[[str | None], str | None]
    ) -> AcceptSession:
        return self._accepting(settings, settings.hashname)

    def dials(self, settings: TelehashIntake) -> MakeRemote:
        connect, budget = settings.connect, EventBudget()
        assert connect is not None
        return lambda where, finished: TelehashRemote(where, settings, connect, finished, budget)

    def frontend(self, settings: TelehashIntake) -> Frontend:
        alpn, link, error = self.alpn, self.link(settings), self.internal_error
        plain = PlainSettings(trusted=settings.udp_trusted)
        connect = settings.connect
        if connect is not None:
            dialling: DialCarrier
            if settings.carrier == "udp":
                dialling = PlainDial(plain, connect)
            else:
                dialling = QuicDial(settings, connect, alpn=alpn, link=link, internal_error=error)
            return DialFrontend(
                settings,
                connect,
                carrier=dialling,
                no_error=self.no_error,
                make_remote=self.dials(settings),
            )
        assert settings.listen is not None
        carrier: ListenCarrier
        own = settings.hashname
        if settings.carrier == "udp":
            carrier = PlainListen(plain)
        else:
            carrier = QuicListen(settings, alpn=alpn, link=link, internal_error=error)
            own = own or hashname_of(carrier.fingerprint)
        return ListenFrontend(
            settings,
            settings.listen,
            carrier=carrier,
            has_tokens=self.has_tokens,
            accepts=lambda _: self._accepting(settings, own),
        )

    def _accepting(self, settings: TelehashIntake, own: str | None) -> AcceptSession:
        """``own``: our hashname, as peers know it."""
        config, budget = engine_config(settings), EventBudget()
        odd = dials_odd(own, settings.peer_hashname, dialled=False)

        def accept(peer: str, context: SessionContext, now: float) -> Accepted:
            engine = TelehashEngine(odd=odd, config=config)
            later = asyncio.get_running_loop().call_later
            session = LineSession(peer, engine, context, settings, budget=budget, later=later)
            return Accepted(engine, session)

        return accept


ADAPTER = TelehashAdapter()
