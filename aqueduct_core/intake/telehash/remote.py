"""A peer that is dialled: which channels are opened there, and what the end of its line means."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aqueduct_core.engine.close_codes import CloseOrigin, ConnectionEnd, how_ended
from aqueduct_core.errors import AqueductError, AuthFailed, ConnectFailed, ProtocolViolation
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.remote import ConnectionEvents, Dialled, DialSession
from aqueduct_core.intake.sessions.requests import EndpointRequests
from aqueduct_core.intake.telehash.event_recorder import EventBudget
from aqueduct_core.intake.telehash.roles import OpeningSession, engine_config
from aqueduct_core.intake.telehash.settings import TelehashConnect, TelehashIntake
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.faults import CloseCode
from aqueduct_core.telehash.hashnames import dials_odd, hashname_of


class TelehashRemote:
    """A `Remote`: a channel of each type is opened on every line, until it has finished."""

    def __init__(
        self,
        where: str,
        settings: TelehashIntake,
        connect: TelehashConnect,
        finished: Mapping[str, str | None],
        budget: EventBudget,
    ) -> None:
        self.requests = EndpointRequests(connect, settings.types, finished)
        self._where = where
        self._settings = settings
        self._budget = budget

    def prepare(self, token: str | None) -> DialSession:
        if token is not None:
            raise AuthFailed("REJECTED", "Telehash has no place for a token", "Give none")
        settings = self._settings

        def begin(context: SessionContext, events: ConnectionEvents, now: float) -> Dialled:
            peer = settings.peer_hashname
            if peer is None and events.shown is not None:
                peer = hashname_of(events.shown)
            odd = dials_odd(settings.hashname, peer, dialled=True)
            engine = TelehashEngine(odd=odd, config=engine_config(settings, dials=True))
            session = OpeningSession(
                self._where,
                engine,
                context,
                settings,
                self.requests,
                events,
                budget=self._budget,
                later=asyncio.get_running_loop().call_later,
            )
            return Dialled(engine, session, session)

        return begin

    def why(self, end: ConnectionEnd, *, accepted: bool) -> AqueductError:
        how = how_ended(end)[:400]
        ours = end.origin is CloseOrigin.APPLICATION and not end.by_peer
        if ours and end.code != CloseCode.NO_ERROR:
            return ProtocolViolation(
                "",
                f"{self._where} cannot be used: {how}",
                "Report it to those who run the peer",
            )
        what = "ended" if accepted else "ended before it was accepted"
        return ConnectFailed(
            "NO_REPLY",
            f"the line to {self._where} {what}: {how}",
            "It is dialled again; look into the log of the peer",
        )
