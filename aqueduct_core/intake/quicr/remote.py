"""An origin or a relay that is dialled: what is requested there, and what its end means."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aqueduct_core.engine.close_codes import CloseOrigin, ConnectionEnd, how_ended
from aqueduct_core.errors import AqueductError, AuthFailed, ConnectFailed, ProtocolViolation
from aqueduct_core.intake.quicr.requests import MediaRequests
from aqueduct_core.intake.quicr.roles import ReaderSession, engine_config
from aqueduct_core.intake.quicr.settings import QuicrConnect, QuicrIntake
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.remote import ConnectionEvents, Dialled, DialSession
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.faults import INTERNAL_ERROR


class QuicrRemote:
    """A `Remote`: every media is requested on each connection, until it has finished."""

    def __init__(
        self,
        where: str,
        settings: QuicrIntake,
        connect: QuicrConnect,
        finished: Mapping[str, str | None],
    ) -> None:
        self.requests = MediaRequests(connect, settings.media, finished)
        self._where = where
        self._settings = settings

    def prepare(self, token: str | None) -> DialSession:
        if token is not None:
            raise AuthFailed("REJECTED", "QUICR has no place for a token", "Give none")

        def begin(context: SessionContext, events: ConnectionEvents, now: float) -> Dialled:
            engine = QuicrEngine(client=True, config=engine_config(self._settings))
            session = ReaderSession(
                self._where,
                engine,
                context,
                self._settings,
                self.requests,
                events,
                later=asyncio.get_running_loop().call_later,
            )
            return Dialled(engine, session, session)

        return begin

    def why(self, end: ConnectionEnd, *, accepted: bool) -> AqueductError:
        how = how_ended(end)[:400]
        broken = end.origin is CloseOrigin.TRANSPORT and end.code == INTERNAL_ERROR
        if broken and not end.by_peer:
            return ProtocolViolation(
                "",
                f"{self._where} broke the protocol: {how}",
                "Report it to those who run the origin or the relay",
            )
        what = "ended" if accepted else "ended before it was accepted"
        return ConnectFailed(
            "NO_REPLY",
            f"the connection to {self._where} {what}: {how}",
            "It is dialled again; look into the log of the origin or the relay",
        )
