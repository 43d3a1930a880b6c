"""The frontend of an intake that dials: a connection to each of its endpoints."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aqueduct_core.flight.subscription_status import FAILURES, SubscriptionStatus
from aqueduct_core.intake.sessions.carriers import DialCarrier
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.endpoint_claims import claimed, claims_of
from aqueduct_core.intake.sessions.endpoint_connection import EndpointConnection
from aqueduct_core.intake.sessions.remote import MakeRemote
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.settings.dial import ConnectSettings
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.intake.storage.finished_channels import FinishedChannels
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.primitives.token_file import read_token

log = logging.getLogger(__name__)


class DialFrontend:
    """A `Frontend` that dials over a carrier. Raises where it is made: AuthFailed.MISSING (the
    token file), SpoolFailed (what an earlier intake left there)."""

    address = ""
    fingerprint = None

    def __init__(
        self,
        settings: IntakeSettings,
        connect: ConnectSettings,
        *,
        carrier: DialCarrier,
        no_error: int,
        make_remote: MakeRemote,
    ) -> None:
        if connect.token_file is not None:
            read_token(Path(connect.token_file))
        self.warnings = carrier.warnings
        self._connect = connect
        self._carrier = carrier
        self._no_error = no_error
        self._make_remote = make_remote
        self._directory = Path(settings.spool)
        self._finished = FinishedChannels(self._directory)
        self._connections: list[EndpointConnection] = []
        self._claims: tuple[str, ...] = ()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def subscriptions(self) -> SubscriptionStatus:
        requests = [connection.requests for connection in self._connections]
        failed = [failure for each in requests for failure in each.failed]
        return SubscriptionStatus(
            requested=sum(each.requested for each in requests),
            open=sum(each.open for each in requests),
            finished=sum(each.finished for each in requests),
            failed=tuple(failed[-FAILURES:]),
            failures=sum(each.failures for each in requests),
            endpoints=tuple(connection.state for connection in self._connections),
            settled=bool(self._connections)
            and all(connection.over for connection in self._connections),
            claims=self._claims,
        )

    @property
    def counters(self) -> Mapping[str, int]:
        return {}

    @property
    def complete(self) -> bool:
        connections = self._connections
        return bool(connections) and all(
            connection.over and connection.requests.finished == connection.requests.requested
            for connection in connections
        )

    async def open(self, context: SessionContext, joined: Callable[[Session[Any]], None]) -> None:
        endpoints, shared = self._connect.endpoints, self._connect.intakes
        if shared is not None:
            endpoints = claimed(self._directory, endpoints, shared, self._connect.elsewhere)
            self._claims = claims_of(self._directory)
        for endpoint in endpoints:
            where = HostPort.parse(endpoint)
            self._connections.append(
                EndpointConnection(
                    where,
                    self._make_remote(endpoint, self._finished.of(endpoint)),
                    self._connect,
                    dial=self._carrier.to(where),
                    no_error=self._no_error,
                    context=context,
                    joined=joined,
                    changed=self._changed,
                )
            )
        loop = asyncio.get_running_loop()
        for connection in self._connections:
            self._tasks.append(loop.create_task(connection.run(), name=str(connection)))
            self._tasks[-1].add_done_callback(_report)

    def refuse(self) -> None:
        for connection, task in zip(self._connections, self._tasks, strict=True):
            connection.end()
            if connection.driver is None:
                task.cancel()

    async def close(self, code: int, reason: str) -> None:
        self.refuse()
        for connection in self._connections:
            driver = connection.driver
            if driver is not None:
                driver.close(code, reason)
                lost = driver.lost
                if lost is None or lost.by_peer:
                    driver.abandon()  # the remote has gone, and nothing more is owed to it
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._finished.close()

    def _changed(self) -> None:
        for connection in self._connections:
            self._finished.note(str(connection.where), connection.requests.finished_requests)


def _report(task: asyncio.Task[None]) -> None:
    """A connection ends by itself or is cancelled; anything else is a fault of ours."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s failed", task.get_name(), exc_info=error)
