"""Aqueduct, as an intake knows it."""

from __future__ import annotations

from collections.abc import Callable

from aqueduct_core.aqueduct.config import ALPN
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.intake.adapter import Adapter
from aqueduct_core.intake.aqueduct.config import engine_config, link_settings
from aqueduct_core.intake.aqueduct.remote import AqueductRemote
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.intake.aqueduct.server_role import ServerRole
from aqueduct_core.intake.aqueduct.session import AqueductSession
from aqueduct_core.intake.aqueduct.settings import AqueductIntake
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.frontend import Accepted, AcceptSession
from aqueduct_core.intake.sessions.remote import MakeRemote
from aqueduct_core.intake.storage.rows import RowFormat
from aqueduct_core.transport.settings import LinkSettings


class AqueductAdapter(Adapter[AqueductIntake]):
    """Producers are acked when their messages are durable (``AckMode.ON_STORED``)."""

    name = "aqueduct"
    alpn = ALPN
    settings = AqueductIntake
    rows: RowFormat = ROWS
    no_error: int = Code.NO_ERROR
    internal_error: int = Code.INTERNAL

    def link(self, settings: AqueductIntake) -> LinkSettings:
        return link_settings(settings)

    def ack_delay(self, settings: AqueductIntake) -> float:
        return engine_config(settings).ack_delay

    def accepts(
        self, settings: AqueductIntake, refusal: Callable[[str | None], str | None]
    ) -> AcceptSession:
        config = engine_config(settings)

        def accept(peer: str, context: SessionContext, now: float) -> Accepted:
            engine = AqueductEngine(Side.SERVER, config=config, now=now)
            role = ServerRole(engine, refusal, context.clock)
            return Accepted(engine, AqueductSession(peer, engine, context, role))

        return accept

    def dials(self, settings: AqueductIntake) -> MakeRemote:
        connect, config = settings.connect, engine_config(settings)
        assert connect is not None
        return lambda where, finished: AqueductRemote(where, connect, config, finished)


ADAPTER = AqueductAdapter()
