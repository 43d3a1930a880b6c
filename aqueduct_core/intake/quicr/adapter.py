"""QUICR, as an intake knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aqueduct_core.intake.adapter import Adapter
from aqueduct_core.intake.quicr.remote import QuicrRemote
from aqueduct_core.intake.quicr.roles import PublisherSession, engine_config
from aqueduct_core.intake.quicr.rows import ROWS
from aqueduct_core.intake.quicr.settings import QuicrIntake
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.frontend import Accepted, AcceptSession
from aqueduct_core.intake.sessions.remote import MakeRemote
from aqueduct_core.intake.storage.rows import RowFormat
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import ALPN, QuicrEngine
from aqueduct_core.quicr.faults import INTERNAL_ERROR, NO_ERROR
from aqueduct_core.transport.settings import LinkSettings


class QuicrAdapter(Adapter[QuicrIntake]):
    """The sender of a media learns that it has arrived when all of it is durable: there is no ack
    before."""

    name = "quicr"
    alpn = ALPN
    settings = QuicrIntake
    rows: RowFormat = ROWS
    no_error: int = NO_ERROR
    internal_error: int = INTERNAL_ERROR
    has_tokens = False

    def link(self, settings: QuicrIntake) -> LinkSettings:
        return LinkSettings(
            handshake_timeout=settings.limits.handshake_timeout,
            max_datagram_size=settings.max_datagram_bytes,
            max_streams_uni=0,
            max_streams_bidi=0 if settings.connect else QuicrConfig().max_transactions,
        )

    def ack_delay(self, settings: QuicrIntake) -> float:
        return 0.0

    def accepts(
        self, settings: QuicrIntake, refusal: Callable[[str | None], str | None]
    ) -> AcceptSession:
        config = engine_config(settings)

        def accept(peer: str, context: SessionContext, now: float) -> Accepted:
            engine = QuicrEngine(client=False, config=config)
            later = asyncio.get_running_loop().call_later
            return Accepted(engine, PublisherSession(peer, engine, context, settings, later=later))

        return accept

    def dials(self, settings: QuicrIntake) -> MakeRemote:
        connect = settings.connect
        assert connect is not None
        return lambda where, finished: QuicrRemote(where, settings, connect, finished)


ADAPTER = QuicrAdapter()
