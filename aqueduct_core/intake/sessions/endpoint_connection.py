"""The connection to one endpoint, whatever its protocol: dials it, and dials again until nothing is
wanted there any more."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aqueduct_core.engine.close_codes import ConnectionEnd
from aqueduct_core.engine.engine import Engine
from aqueduct_core.errors import (
    AqueductError,
    AuthFailed,
    IntakeFailed,
    InvalidOption,
    ProtocolViolation,
    TlsFailed,
    VersionMismatch,
)
from aqueduct_core.flight.error_codec import ErrorForm
from aqueduct_core.flight.subscription_status import EndpointState
from aqueduct_core.intake.sessions.carriers import DialEndpoint
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.remote import Dialled, DialledClient, Remote
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.settings.dial import ConnectSettings
from aqueduct_core.primitives.backoff import Backoff
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.primitives.token_file import read_token
from aqueduct_core.transport.driver import Driver

log = logging.getLogger(__name__)

LEAVE_SECONDS = 5.0
"""For the remote to take our last acks, and that we leave."""

REFUSALS = (AuthFailed, TlsFailed, VersionMismatch, ProtocolViolation, InvalidOption)
"""What another attempt will not cure by itself; it is made all the same, at the longest wait,
because tokens and certificates are renewed, and remotes upgraded, while we run."""


class EndpointConnection:
    """One endpoint. ``run`` ends when all that is wanted of it is settled and the connection is
    closed, and when ``end`` was called, for then nothing more is dialled.

    Args:
        where: the endpoint.
        remote: what is wanted of it.
        no_error: the code with which a connection is closed in good order.
        joined: called with the session of each connection.
        changed: called when ``remote.requests`` may have changed.
    """

    def __init__(
        self,
        where: HostPort,
        remote: Remote,
        settings: ConnectSettings,
        *,
        dial: DialEndpoint,
        no_error: int,
        context: SessionContext,
        joined: Callable[[Session[Any]], None],
        changed: Callable[[], None],
    ) -> None:
        self.where = where
        self.requests = remote.requests
        self.driver: Driver | None = None
        self.shown: str | None = None
        self._remote = remote
        self._settings = settings
        self._dial = dial
        self._no_error = no_error
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
        self._client: DialledClient

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
            self.over,
        )

    @property
    def over(self) -> bool:
        """Nothing is wanted any more, and no connection is left."""
        return self.requests.settled and self.driver is None

    async def run(self) -> None:
        while not self._done:
            try:
                await self._connect()
            except AqueductError as error:
                self._failed(error)
            except Exception as fault:
                log.exception("%s failed", self)
                self._failed(
                    IntakeFailed(
                        "UNREACHABLE",
                        f"the intake failed by a fault of its own: {type(fault).__name__}",
                        "Read its log",
                    )
                )
            if not self._done:
                await asyncio.sleep(self._pause())

    @property
    def _done(self) -> bool:
        return self._ending or self.requests.settled

    def end(self) -> None:
        """Dial no more. A connection that is there stays until it is closed."""
        self._ending = True

    # what the session of a connection reports (`ConnectionEvents`)

    def opened(self) -> None:
        self._connected = True
        self._since = self._loop.time()
        self._error = None
        log.info("%s: connected", self)
        self._changed()

    def changed(self) -> None:
        self._woken.set()
        self._changed()

    def closed(self, end: ConnectionEnd) -> None:
        admitted, self._connected = self._connected, False
        if self._done:
            return
        driver = self.driver
        if not admitted and driver is not None and not driver.link.ready:  # it was written to early
            self._failed(driver.why_not_ready())
        else:
            self._failed(self._remote.why(end, accepted=admitted))
        lasted = self._loop.time() - self._since >= self._settings.longest_wait
        if admitted and (lasted or self._client.progress):
            self._backoff.reset()

    # the inside

    async def _connect(self) -> None:
        """One connection from its dial to its end."""
        self._attempts += 1
        begin = self._remote.prepare(self._token())
        dialled: Dialled | None = None

        def make_engine(now: float) -> Engine[Any]:
            nonlocal dialled
            dialled = begin(self._context, self, now)
            self._client = dialled.client
            self._joined(dialled.session)
            return dialled.engine

        def on_events(driver: Driver, events: list[Any]) -> None:
            assert dialled is not None
            dialled.session.on_events(driver, events)

        self._woken.clear()
        driver = await self._dial(
            make_engine=make_engine, on_events=on_events, on_server=self._on_server
        )
        assert dialled is not None
        self.driver = driver
        try:
            await self._attend(driver, dialled)
        finally:
            driver.abandon()
            self.driver = None
            self._changed()

    def _on_server(self, fingerprint: str | None) -> None:
        self.shown = fingerprint

    async def _attend(self, driver: Driver, dialled: Dialled) -> None:
        """Leave when there is nothing to do here any more; return at the end of the link."""
        closed = self._loop.create_task(driver.wait_closed())
        try:
            while not (closed.done() or dialled.client.idle):
                woken = self._loop.create_task(self._woken.wait())
                try:
                    await asyncio.wait((closed, woken), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    woken.cancel()
                self._woken.clear()
            if not closed.done() and not self._ending:
                await self._leave(driver, dialled)
            await closed
        finally:
            closed.cancel()

    async def _leave(self, driver: Driver, dialled: Dialled) -> None:
        """Close in good order: the remote knows that we leave, and our acks have arrived."""
        dialled.client.leave()
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                while not (dialled.client.left or driver.closed):
                    await self._woken.wait()
                    self._woken.clear()
                await driver.writable(1)
        except TimeoutError:
            log.info("%s: the remote has not taken that we leave", self)
        dialled.session.shutdown(self._no_error, "")

    def _failed(self, error: AqueductError) -> None:
        self._error = error  # who looks at the state tells of it, once
        self._changed()

    def _pause(self) -> float:
        if isinstance(self._error, REFUSALS):
            longest = self._settings.longest_wait
            return Backoff(longest, longest, random.random).next()
        return self._backoff.next()

    def _token(self) -> str | None:
        """The file is read again for each attempt. Raises: AuthFailed.MISSING."""
        settings = self._settings
        if settings.token_file is not None:
            return read_token(Path(settings.token_file))
        return settings.token
