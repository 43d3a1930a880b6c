"""The front of an intake that dials: one line to each endpoint."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from aqueduct_core.aqueduct.config import ALPN
from aqueduct_core.flight.subscription_status import FAILURES, SubscriptionStatus
from aqueduct_core.intake.control.endpoint_claims import claimed, claims_of
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.endpoint_connection import EndpointConnection
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.sessions.subscriptions import Subscriptions
from aqueduct_core.intake.settings.dial import AqueductConnect
from aqueduct_core.intake.settings.engine import engine_config, link_settings
from aqueduct_core.intake.settings.intake import AqueductIntake
from aqueduct_core.intake.storage.finished_channels import FinishedChannels
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.primitives.token_file import read_token
from aqueduct_core.transport.session_file import SessionFile
from aqueduct_core.transport.sessions import SessionStore
from aqueduct_core.transport.stacks import stack

log = logging.getLogger(__name__)


class DialFrontend:
    """A `Front` that dials. Raises where it is made: InvalidOption (CA file, transport),
    AuthFailed.MISSING (the token file), SpoolFailed (what an earlier intake left there)."""

    address = ""
    fingerprint = None
    warnings: tuple[str, ...] = ()

    def __init__(self, settings: AqueductIntake, connect: AqueductConnect) -> None:
        if not connect.insecure:
            connect.tls.authorities()
        if connect.token_file is not None:
            read_token(Path(connect.token_file))
        stack(settings.transport)
        self._connect = connect
        self._config = engine_config(settings)
        self._link = replace(link_settings(settings), idle_timeout=connect.idle_timeout)
        self._transport = settings.transport
        self._directory = Path(settings.spool)
        self._early_data = settings.early_data
        self._fulfilled = FinishedChannels(self._directory, connect.subscriptions)
        self._lines: list[EndpointConnection] = []
        self._claims: tuple[str, ...] = ()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def subscriptions(self) -> SubscriptionStatus:
        demands = [line.demand for line in self._lines]
        failed = [failure for demand in demands for failure in demand.failed]
        return SubscriptionStatus(
            requested=sum(demand.requested for demand in demands),
            open=sum(demand.open for demand in demands),
            finished=sum(demand.finished for demand in demands),
            failed=tuple(failed[-FAILURES:]),
            failures=sum(demand.failures for demand in demands),
            endpoints=tuple(line.state for line in self._lines),
            settled=bool(self._lines) and all(line.over for line in self._lines),
            claims=self._claims,
        )

    @property
    def counters(self) -> Mapping[str, int]:
        return {}

    @property
    def complete(self) -> bool:
        lines = self._lines
        return bool(lines) and all(
            line.over and line.demand.finished == line.demand.requested for line in lines
        )

    async def open(self, around: SessionContext, joined: Callable[[Session], None]) -> None:
        endpoints, shared = self._connect.endpoints, self._connect.intakes
        if shared is not None:
            endpoints = claimed(self._directory, endpoints, shared, self._connect.elsewhere)
            self._claims = claims_of(self._directory)
        tickets: SessionStore | None = None
        if self._early_data:
            tickets = SessionFile.in_directory(self._directory, ALPN)
        for endpoint in endpoints:
            demand = Subscriptions(endpoint, self._connect, fulfilled=self._fulfilled.of(endpoint))
            self._lines.append(
                EndpointConnection(
                    HostPort.parse(endpoint),
                    self._connect,
                    demand,
                    config=self._config,
                    link=self._link,
                    transport=self._transport,
                    tickets=tickets,
                    early_data=self._early_data,
                    around=around,
                    joined=joined,
                    moved=self._moved,
                )
            )
        loop = asyncio.get_running_loop()
        for line in self._lines:
            self._tasks.append(loop.create_task(line.run(), name=str(line)))
            self._tasks[-1].add_done_callback(_report)

    def refuse(self) -> None:
        for line, task in zip(self._lines, self._tasks, strict=True):
            line.end()
            if line.driver is None:
                task.cancel()

    async def close(self, code: int, reason: str) -> None:
        self.refuse()
        for line in self._lines:
            driver = line.driver
            if driver is not None:
                driver.close(code, reason)
                lost = driver.lost
                if lost is None or lost.by_peer:
                    driver.abandon()  # the remote has gone, and nothing more is owed to it
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._fulfilled.close()

    def _moved(self) -> None:
        for line in self._lines:
            self._fulfilled.note(str(line.where), line.demand.fulfilled)


def _report(task: asyncio.Task[None]) -> None:
    """A line ends by itself or is cancelled; anything else is a fault of ours."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s failed", task.get_name(), exc_info=error)
