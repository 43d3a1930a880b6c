"""An endpoint of Aqueduct that is dialled: what is subscribed to there, and what its end means."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.conventions.headers import BadHeader, connection_headers
from aqueduct_core.aqueduct.conventions.refusals import broke_protocol, refusal
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.close_codes import CloseOrigin, ConnectionEnd, how_lost
from aqueduct_core.errors import AqueductError, AuthFailed, ConnectFailed, ProtocolViolation
from aqueduct_core.intake.aqueduct.client_role import ClientRole
from aqueduct_core.intake.aqueduct.session import AqueductSession
from aqueduct_core.intake.aqueduct.settings import AqueductConnect
from aqueduct_core.intake.aqueduct.subscriptions import Subscriptions
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.remote import ConnectionEvents, Dialled, DialSession


class AqueductRemote:
    """A `Remote`: every subscription is asked for on each connection, until it has finished."""

    def __init__(
        self,
        where: str,
        settings: AqueductConnect,
        config: Config,
        finished: Mapping[str, str | None],
    ) -> None:
        self.requests = Subscriptions(where, settings, finished=finished)
        self._where = where
        self._config = config

    def prepare(self, token: str | None) -> DialSession:
        try:
            headers = connection_headers(token=token)
        except BadHeader as error:
            raise AuthFailed("MISSING", str(error), "Give a token without spaces") from None

        def begin(context: SessionContext, events: ConnectionEvents, now: float) -> Dialled:
            engine = AqueductEngine(Side.CLIENT, headers, self._config, now)
            role = ClientRole(
                engine,
                self.requests,
                clock=context.clock,
                later=asyncio.get_running_loop().call_later,
                events=events,
            )
            return Dialled(engine, AqueductSession(self._where, engine, context, role), role)

        return begin

    def why(self, end: ConnectionEnd, *, accepted: bool) -> AqueductError:
        return _lost(self._where, end) if accepted else refusal(self._where, end)


def _lost(where: str, end: ConnectionEnd) -> AqueductError:
    """Why a connection that was up is not there any more."""
    if end.origin is not CloseOrigin.APPLICATION:
        reason = how_lost(end)[:400]
    else:
        reason = end.reason[:200] or "no reason given"
    if broke_protocol(end):
        return ProtocolViolation(
            "",
            f"{where} broke the protocol (code {end.code}): {reason}",
            "Report it to those who run the remote",
        )
    return ConnectFailed(
        "NO_REPLY",
        f"the connection to {where} ended: {reason}",
        "It is dialled again; look into the log of the remote",
    )
