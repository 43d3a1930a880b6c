"""The connection to one endpoint: dials it, subscribes there, and dials again until nothing is
left to subscribe to."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aqueduct_core.aqueduct.config import ALPN, Config
from aqueduct_core.aqueduct.conventions.headers import BadHeader, connection_headers
from aqueduct_core.aqueduct.conventions.refusals import broke_protocol, refusal
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.close_codes import CloseOrigin, how_lost
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import (
    AqueductError,
    AuthFailed,
    ConnectFailed,
    InvalidOption,
    ProtocolViolation,
    TlsFailed,
    VersionMismatch,
)
from aqueduct_core.flight.error_codec import ErrorForm
from aqueduct_core.flight.subscription_status import EndpointState
from aqueduct_core.intake.aqueduct.client_role import ClientRole
from aqueduct_core.intake.aqueduct.session import AqueductSession
from aqueduct_core.intake.aqueduct.subscriptions import Subscriptions
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.settings.dial import AqueductConnect
from aqueduct_core.primitives.backoff import Backoff
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.primitives.token_file import read_token
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.driver import Driver
from aqueduct_core.transport.sessions import SessionStore
from aqueduct_core.transport.settings import LinkSettings

log = logging.getLogger(__name__)

LEAVE_SECONDS = 5.0
"""For the remote to take our last acks and the end of the entrypoint."""

REFUSALS = (AuthFailed, TlsFailed, VersionMismatch, ProtocolViolation, InvalidOption)
"""What another attempt will not cure by itself; it is made all the same, at the longest wait,
because tokens and certificates are renewed, and remotes upgraded, while we run."""


class EndpointConnection:
    """One endpoint. ``run`` ends when all of its subscriptions are settled and the connection is
    closed, and when ``end`` was called, for then nothing more is dialled.

    Args:
        where: the endpoint.
        subscriptions: what is wanted of it.
        joined: called with the session of each connection.
        changed: called when the subscriptions may have changed.
    """

    def __init__(
        self,
        where: HostPort,
        settings: AqueductConnect,
        subscriptions: Subscriptions,
        *,
        config: Config,
        link: LinkSettings,
        transport: str,
        tickets: SessionStore | None,
        early_data: bool,
        context: SessionContext,
        joined: Callable[[AqueductSession], None],
        changed: Callable[[], None],
    ) -> None:
        self.where = where
        self.subscriptions = subscriptions
        self.driver: Driver | None = None
        self._settings = settings
        self._config = config
        self._link = link
        self._transport = transport
        self._tickets = tickets
        self._early_data = early_data
        self._context = context
        self._joined = joined
        self._changed = changed
        self._backoff = Backoff(settings.first_wait, settings.longest_wait, random.random)
        self._loop = asyncio.get_running_loop()
        self._attempts = 0
        self._connected = False
        self._since = 0.0
        self._error: AqueductError | None = None
        self._woken = asyncio.Event()
        self._ending = False
        self._role: ClientRole

    def __repr__(self) -> str:
        return f"<EndpointConnection to {self.where}>"

    @property
    def state(self) -> EndpointState:
        error = self._error
        return EndpointState(
            str(self.where),
            self._connected,
            self._attempts,
            None if error is None else ErrorForm.of(error),
            isinstance(error, REFUSALS),
        )

    @property
    def over(self) -> bool:
        """Nothing is wanted any more, and no connection is left."""
        return self.subscriptions.settled and self.driver is None

    async def run(self) -> None:
        while not self._done:
            try:
                await self._connect()
            except AqueductError as error:
                self._failed(error)
            if not self._done:
                await asyncio.sleep(self._pause())

    @property
    def _done(self) -> bool:
        return self._ending or self.subscriptions.settled

    def end(self) -> None:
        """Dial no more. A connection that is there stays until it is closed."""
        self._ending = True

    async def _connect(self) -> None:
        """One connection from its dial to its end."""
        self._attempts += 1
        headers = self._own_headers()
        session: AqueductSession | None = None

        def make_engine(now: float) -> AqueductEngine:
            nonlocal session
            engine = AqueductEngine(Side.CLIENT, headers, self._config, now)
            self._role = ClientRole(
                engine,
                self.subscriptions,
                clock=self._context.clock,
                later=self._loop.call_later,
                opened=self._opened,
                changed=self._wake,
                closed=self._on_closed,
            )
            session = AqueductSession(str(self.where), engine, self._context, self._role)
            self._joined(session)
            return engine

        def on_events(driver: Driver, events: list[Any]) -> None:
            assert session is not None
            session.on_events(driver, events)

        self._woken.clear()
        driver = await dial(
            self.where.host,
            self.where.port,
            alpn=ALPN,
            settings=self._link,
            tls=self._settings.tls,
            make_engine=make_engine,
            on_events=on_events,
            transport=self._transport,
            tickets=self._tickets,
            early_data=self._early_data,
        )
        assert session is not None
        self.driver = driver
        try:
            await self._attend(driver, session)
        finally:
            driver.abandon()
            self.driver = None
            self._changed()

    async def _attend(self, driver: Driver, session: AqueductSession) -> None:
        """Leave when there is nothing to do here any more; return at the end of the link."""
        closed = self._loop.create_task(driver.wait_closed())
        try:
            while not (closed.done() or self._role.idle):
                woken = self._loop.create_task(self._woken.wait())
                try:
                    await asyncio.wait((closed, woken), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    woken.cancel()
                self._woken.clear()
            if not closed.done() and not self._ending:
                await self._leave(driver, session)
            await closed
        finally:
            closed.cancel()

    async def _leave(self, driver: Driver, session: AqueductSession) -> None:
        """Close in good order (AQ-LIFE-24): the entrypoint is finished, our acks have arrived."""
        self._role.finish()
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                while not (self._role.entrypoint_ended or driver.closed):
                    await self._woken.wait()
                    self._woken.clear()
                await driver.writable(1)
        except TimeoutError:
            log.info("%s: the end of the entrypoint was not taken", self)
        session.shutdown(Code.NO_ERROR, "")

    def _opened(self) -> None:
        self._connected = True
        self._since = self._loop.time()
        self._error = None
        log.info("%s: connected", self)
        self._changed()

    def _wake(self) -> None:
        self._woken.set()
        self._changed()

    def _on_closed(self, closed: Closed) -> None:
        admitted, self._connected = self._connected, False
        if self._done:
            return
        driver = self.driver
        if admitted:
            self._failed(_lost(self.where, closed))
        elif driver is not None and not driver.link.ready:  # it was written to early
            self._failed(driver.why_not_ready())
        else:
            self._failed(refusal(str(self.where), closed))
        lasted = self._loop.time() - self._since >= self._settings.longest_wait
        if admitted and (lasted or self._role.progress):
            self._backoff.reset()

    def _failed(self, error: AqueductError) -> None:
        if str(error) != str(self._error):
            log.warning("%s: %s", self, error)
        self._error = error
        self._changed()

    def _pause(self) -> float:
        if isinstance(self._error, REFUSALS):
            longest = self._settings.longest_wait
            return Backoff(longest, longest, random.random).next()
        return self._backoff.next()

    def _own_headers(self) -> Headers:
        settings = self._settings
        token = settings.token
        if settings.token_file is not None:
            token = read_token(Path(settings.token_file))
        try:
            return connection_headers(token=token)
        except BadHeader as error:
            raise AuthFailed("MISSING", str(error), "Give a token without spaces") from None


def _lost(where: HostPort, closed: Closed) -> AqueductError:
    """Why a connection that was up is not there any more."""
    if closed.origin is not CloseOrigin.APPLICATION:
        reason = how_lost(closed)[:400]
    else:
        reason = closed.reason[:200] or "no reason given"
    if broke_protocol(closed):
        return ProtocolViolation(
            "",
            f"{where} broke the protocol (code {closed.code}): {reason}",
            "Report it to those who run the remote",
        )
    return ConnectFailed(
        "NO_REPLY",
        f"the connection to {where} ended: {reason}",
        "It is dialled again; look into the log of the remote",
    )
