"""The intake: connections feed the spool, and a Flight server reads it."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.errors import AqueductError, IntakeFailed, SpoolFailed
from aqueduct_core.flight.server import FlightHost
from aqueduct_core.flight.tickets import Commit, IntakeStatus, require_spool
from aqueduct_core.intake import status_file
from aqueduct_core.intake.engine_settings import engine_config
from aqueduct_core.intake.front import Front
from aqueduct_core.intake.fronts import make_front
from aqueduct_core.intake.groups import GroupCommit
from aqueduct_core.intake.host import SpoolHost, Watch
from aqueduct_core.intake.host_port import address, joined
from aqueduct_core.intake.lease import Lease
from aqueduct_core.intake.schema import SPOOL_SCHEMA
from aqueduct_core.intake.session import Session, Surroundings
from aqueduct_core.intake.settings import IntakeSettings
from aqueduct_core.spool import Spool, SpoolSettings, SyncerProcess

log = logging.getLogger(__name__)

DRAIN_SECONDS = 5.0
"""For the last group to become durable and its acks to reach the peers, at an orderly end."""

FLIGHT_SECONDS = 3.0
"""For reads under way at the end; a task whose read breaks off asks the next intake."""


TRIM_PAUSE = 0.01
"""Between two segments that are removed, so that the event loop goes on in between."""


FULL_PAUSE = 0.05
"""The same while the spool is full: producers wait for the space."""


class Intake:
    """One intake process: made by `start`, at work until `finished` returns.

    Ends in good order (`end`, a lease that ran out, an order of a client): no new connection, the
    open group made durable and acked, connections closed with code 0, the spool unlocked. When the
    spool fails nothing is acked any more and `finished` raises the error.
    """

    def __init__(self, settings: IntakeSettings, spool: Spool, front: Front) -> None:
        self.settings = settings
        self._front = front
        self._spool = spool
        self._loop = asyncio.get_running_loop()
        self._watch = Watch(spool.ends())
        self._lease = Lease(settings.lease, self._loop.time())
        self._ending = asyncio.Event()
        self._idle = asyncio.Event()
        self._reason = ""
        self._failure: AqueductError | None = None
        self._trimming = False
        self._sessions: set[Session] = set()
        self._groups = GroupCommit(
            spool,
            [_newest_timestamp(spool, partition) for partition in range(spool.partitions)],
            group_bytes=settings.group_bytes,
            group_seconds=settings.group_commit,
            later=self._loop.call_later,
            failed=self._fail,
        )
        self._around = Surroundings(
            groups=self._groups,
            clock=self._loop.time,
            wall_microseconds=lambda: time.time_ns() // 1000,
            ended=self._sessions.discard,
        )
        self._ack_delay = engine_config(settings).ack_delay
        self._flight: FlightHost
        self._flight_address = ""

    @classmethod
    async def start(cls, settings: IntakeSettings) -> Intake:
        """Open the spool, listen, serve. On return producers and planners may come.

        Raises:
            SpoolFailed: LOCKED, VERSION, CORRUPT, IO.
            ConnectFailed, TlsFailed, InvalidOption: the listener's address or certificate.
            IntakeFailed: UNREACHABLE when the Flight address cannot be bound.
        """
        front = make_front(settings)
        spool = Spool.open(
            Path(settings.spool),
            schema=SPOOL_SCHEMA,
            partitions=settings.partitions,
            settings=SpoolSettings(
                max_bytes=settings.spool_max_bytes,
                retention=settings.retention,
                owed_logs=settings.partitions,
            ),
            sync=SyncerProcess,
        )
        try:
            intake = cls(settings, spool, front)
            await intake._open()
        except BaseException:
            asyncio.get_running_loop().remove_reader(spool.fileno())
            spool.close()
            raise
        return intake

    def ready(self) -> dict[str, Any]:
        """What a launcher wants to know, for the ready line and the status file."""
        return {
            "ready": True,
            "pid": os.getpid(),
            "listen": self._front.address,
            "flight": self._flight_address,
            "id": self._spool.id,
            "epoch": self._spool.epoch,
            "starts": list(self._spool.starts()),
            "ends": list(self._spool.ends()),
            "fingerprint": self._front.fingerprint,
        }

    def end(self, reason: str) -> None:
        """Begin to end in good order; the first reason counts."""
        if not self._ending.is_set():
            self._reason = reason
            self._ending.set()
            self._watch.end()
            log.info("ending: %s", reason)

    async def finished(self) -> None:
        """Work until the end has come, and end. Raises the error of the spool, if it failed."""
        lease = asyncio.create_task(self._watch_lease())
        try:
            await self._ending.wait()
        finally:
            lease.cancel()
            await self._close()
        if self._failure is not None:
            raise self._failure

    # Commands of the Flight side; they run in the event loop's thread.

    def status(self) -> IntakeStatus:
        self._lease.renew(self._loop.time())
        spool = self._spool
        return IntakeStatus(
            id=spool.id,
            epoch=spool.epoch,
            ends=tuple(spool.ends()),
            starts=tuple(spool.starts()),
            committed={
                cursor: tuple(end for end in ends if end is not None)
                for cursor, ends in spool.cursors().items()
            },
            listen=self._front.address,
            flight=self._flight_address,
            pid=os.getpid(),
            bytes=spool.bytes,
            full=spool.full,
            connections=len(self._sessions),
            channels=sum(session.channels for session in self._sessions),
            draining=self._ending.is_set(),
            lease=self._lease.seconds,
            counters=asdict(self._groups.counters) | asdict(self._around.counters),
        )

    def commit(self, commit: Commit) -> None:
        self._lease.renew(self._loop.time())
        require_spool(self._spool.id, commit.spool)
        if commit.epoch is not None and commit.epoch != self._spool.epoch:
            raise IntakeFailed(
                "UNREACHABLE",
                f"the intake of epoch {commit.epoch} has ended, epoch {self._spool.epoch} serves",
                "Ask for its status, then commit again",
            )
        self._spool.commit(commit.cursor, commit.ends)
        self._trim_soon(0.0)

    def renew(self, seconds: float | None) -> None:
        self._lease.renew(self._loop.time(), seconds)

    def drain(self) -> None:
        self.end("a client asked for it")

    async def _open(self) -> None:
        settings = self.settings
        self._spool.on_durable = self._durable
        self._loop.add_reader(self._spool.fileno(), self._pump)
        await self._front.open(self._around, self._sessions.add)
        try:
            host, port = address(settings.flight, "flight")
            flight_host = SpoolHost(self._spool, self, self._watch, self._loop)
            self._flight = FlightHost(host, port, settings.credentials, flight_host)
            self._flight_address = joined(settings.advertise or host, self._flight.port)
            self._write_status("ready")
        except BaseException:
            await self._front.close(Code.INTERNAL, "the intake could not start")
            raise
        log.info(
            "%s: spool %s epoch %d, %s, Flight on %s",
            settings.name,
            settings.spool,
            self._spool.epoch,
            f"listening on {self._front.address}" if self._front.address else "dialling",
            self._flight_address,
        )

    def _pump(self) -> None:
        try:
            self._spool.pump()
        except AqueductError as error:
            self._loop.remove_reader(self._spool.fileno())
            self._groups.fail(error)

    def _durable(self, group: int) -> None:
        self._groups.made_durable(group)
        self._watch.advance(self._spool.ends())
        if self._groups.idle:
            self._idle.set()

    def _fail(self, error: AqueductError) -> None:
        log.error("%s", error)
        self._failure = error
        self.end("the spool failed")

    def _trim(self) -> None:
        """Give back what every cursor has passed, a segment a turn of the event loop."""
        self._trimming = False
        if self._ending.is_set():
            return
        try:
            if self._spool.trim():
                self._trim_soon(TRIM_PAUSE)
            elif self._spool.full:
                self._trim_soon(FULL_PAUSE)
        except AqueductError as error:
            self._groups.fail(error)

    def _trim_soon(self, seconds: float) -> None:
        if not self._trimming:
            self._trimming = True
            self._loop.call_later(seconds, self._trim)

    async def _watch_lease(self) -> None:
        while not self._lease.check(self._loop.time()):
            await asyncio.sleep(self._lease.interval)
            self._trim_soon(0.0)  # retention ends with time alone
        self.end(f"no planner asked for {self._lease.seconds:g} s")

    async def _close(self) -> None:
        self._front.refuse()
        if self._failure is None:
            await self._settle()
        code = Code.NO_ERROR if self._failure is None else Code.INTERNAL
        for session in list(self._sessions):
            session.shutdown(code, self._reason)
        await self._front.close(code, self._reason)
        self._loop.remove_reader(self._spool.fileno())
        await self._end_flight()
        try:
            self._spool.close()
        except AqueductError as error:
            self._failure = self._failure or error
        self._write_status("failed" if self._failure else "ended")

    async def _settle(self) -> None:
        """The last group becomes durable, and its acks go out."""
        self._idle.clear()
        self._groups.stop()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self._groups.idle and self._failure is None:
                    await self._idle.wait()
                    self._idle.clear()
                # Acks leave within the engine's delay; then they are unsent until acknowledged.
                await asyncio.sleep(2 * self._ack_delay)
                while not all(session.sent for session in self._sessions):
                    await asyncio.sleep(self._ack_delay)
        except TimeoutError:
            log.warning("ending with messages that are not acked")

    async def _end_flight(self) -> None:
        """Its threads may be in a call that lasts; they do not hold up the end for long."""
        ended = asyncio.Event()

        def shut() -> None:
            self._flight.shutdown()
            self._loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=shut, daemon=True, name="flight-shutdown").start()
        try:
            await asyncio.wait_for(ended.wait(), FLIGHT_SECONDS)
        except TimeoutError:
            log.warning("a read was under way at the end")

    def _write_status(self, state: str) -> None:
        status = self.ready() | {"state": state, "reason": self._reason, "at": int(time.time())}
        try:
            status_file.write(Path(self.settings.spool), status)
        except OSError as error:
            log.warning("the status file cannot be written: %s", error.strerror)


def _newest_timestamp(spool: Spool, partition: int) -> int:
    """Of the last stored row, so that a clock that was set back does not reorder a partition."""
    start, end = spool.starts()[partition], spool.ends()[partition]
    if start == end:
        return 0
    try:
        last = list(spool.read(partition, end - 1, end))[-1]
    except (SpoolFailed, IndexError) as error:
        log.warning("the newest row of partition %d cannot be read: %s", partition, error)
        return 0
    source = last.column("source")
    newest = source.values.field("timestamp")[source.find_physical_offset()]
    return int(newest.value or 0)
