"""The intake: connections feed the spool, and a Flight server reads it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from aqueduct_core.errors import AqueductError
from aqueduct_core.flight.server import IntakeServer
from aqueduct_core.intake.adapter import Adapter, adapter_named
from aqueduct_core.intake.control import status_file
from aqueduct_core.intake.control.commands import Control
from aqueduct_core.intake.control.cursor_lag import uncommitted
from aqueduct_core.intake.control.flight_host import SpoolHost, Watch
from aqueduct_core.intake.control.http_host import serve_http, url_of
from aqueduct_core.intake.control.lease import Lease
from aqueduct_core.intake.control.stall_watch import IntakeStalls
from aqueduct_core.intake.control.state import IntakeState, Meter
from aqueduct_core.intake.observing.activity import Activity
from aqueduct_core.intake.observing.traffic_table import states_of
from aqueduct_core.intake.sessions.channel_owners import ChannelOwners
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.frontend import Frontend
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.settings.in_force import in_force
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.intake.settings.recorded import admission_of, check_recorded, record
from aqueduct_core.intake.storage.commit_tracker import CommitTrackers
from aqueduct_core.intake.storage.fence import Fence
from aqueduct_core.intake.storage.group_commit import RETRY, GroupCommit
from aqueduct_core.intake.storage.layout import settle_layout
from aqueduct_core.intake.storage.rows import RowFormat, newest_stored
from aqueduct_core.intake.storage.skipped_rows import settle_given_out
from aqueduct_core.intake.storage.truncation import Truncation
from aqueduct_core.logs.json_lines import named
from aqueduct_core.logs.refusals import RefusalLog
from aqueduct_core.monitoring.http_server import HttpServer
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.spool import Spool, SpoolSettings, SyncerProcess
from aqueduct_core.spool.identity import stored_schema
from aqueduct_core.spool.ownership import require_spool_in

log = logging.getLogger(__name__)

DRAIN_SECONDS = 5.0
"""For the last group to become durable and its acks to reach the peers, at an orderly end."""

FLIGHT_SECONDS = 1.0
"""For reads under way at the end, which end with their next batch; whoever takes none does not hold
the spool. A task whose read breaks off asks the next intake."""


STATUS_SECONDS = 5.0
"""Between two writings of the status file."""


class Intake:
    """One intake process: made by `start`, at work until `finished` returns.

    Ends in good order (`end`, a lease that ran out, a request of a client): no new connection, the
    open group made durable and acked, connections closed with code 0, the spool unlocked. When the
    spool fails nothing is acked any more and `finished` raises the error.
    """

    def __init__(
        self,
        settings: IntakeSettings,
        adapter: Adapter[Any],
        *,
        spool: Spool,
        rows: RowFormat,
        frontend: Frontend,
    ) -> None:
        self.settings = settings
        self._adapter = adapter
        self._rows = rows
        self._frontend = frontend
        self._spool = spool
        self._loop = asyncio.get_running_loop()
        self._watch = Watch(spool.ends())
        self._lease = Lease(settings.lease, self._loop.time())
        self._ending = asyncio.Event()
        self._idle = asyncio.Event()
        self._reason = ""
        self._failure: AqueductError | None = None
        self._sessions: set[Session[Any]] = set()
        self._fence = Fence(spool)
        self._activity = Activity(self._loop.time, _microseconds)
        self._groups = GroupCommit(
            spool,
            rows,
            [newest_stored(spool, rows, log) for log in range(spool.partitions)],
            group_bytes=settings.group_bytes,
            group_seconds=settings.group_commit,
            later=self._loop.call_later,
            failed=self._fail,
            allowed=self._fence.check,
            clocks=(self._loop.time, time.thread_time),
            observer=self._activity,
        )
        serial = count(1)
        self._commits = CommitTrackers(settings.partitions, spool.cursors())
        self._context = SessionContext(
            groups=self._groups,
            clock=self._loop.time,
            wall_microseconds=_microseconds,
            ended=self._sessions.discard,
            owners=ChannelOwners(
                self._groups.numbers.owner,
                lambda *track: self._groups.numbers.position(*track).next,
            ),
            refusals=RefusalLog(log, self._loop.call_later),
            new_id=lambda: f"{spool.id[:8]}-{spool.epoch}-{next(serial)}",
            commits=self._commits,
            spool_id=spool.id,
        )
        self._truncation = Truncation(spool, self._fence, self._loop.call_later, self._groups.fail)
        self._meter = Meter(self._loop.time())
        self._stalls: IntakeStalls
        self._pump_timer: asyncio.TimerHandle | None = None
        self._ack_delay = adapter.ack_delay(settings)
        self._host: SpoolHost
        self._flight: IntakeServer
        self._flight_address = ""
        self._http: HttpServer | None = None
        self._in_force = in_force(settings)
        self._opened = tuple(spool.ends())
        self._status_written = 0.0

    @classmethod
    async def start(cls, settings: IntakeSettings) -> Intake:
        """Open the spool, listen, serve. On return producers and planners may come.

        Raises:
            SpoolFailed: LOCKED, VERSION, CORRUPT, IO.
            ConnectFailed, TlsFailed, InvalidOption: the listener's address or certificate;
                CONFLICT where the spool was served with other settings before.
            DataLoss: OFFSET_AHEAD where it ends before what was given out, unless that is skipped.
            IntakeFailed: UNREACHABLE when the Flight address cannot be bound.
        """
        adapter, directory = adapter_named(settings.protocol), Path(settings.spool)
        frontend = adapter.frontend(settings)
        require_spool_in(directory, settings.spool_id)
        settle_layout(directory, settings.partitions, adapter.name, settings.protocol)
        rows = adapter.rows.as_stored(stored_schema(directory))
        spool = Spool.open(
            directory,
            schema=rows.schema,
            partitions=settings.partitions + 1,
            spool_id=settings.spool_id,
            settings=SpoolSettings(
                max_bytes=settings.spool_max_bytes,
                retention=settings.retention,
                owed_partitions=settings.partitions,
            ),
            sync=SyncerProcess,
        )
        try:
            settle_given_out(  # before anybody can bring rows
                spool, rows, settings.partitions, settings.given_out, settings.skip_given_out
            )
            check_recorded(settings)  # as the owner: nobody else settles them at this moment
            intake = cls(settings, adapter, spool=spool, rows=rows, frontend=frontend)
            await intake._begin()
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
            "listen": self._frontend.address,
            "flight": self._flight_address,
            "http": url_of(self._http),
            "id": self._spool.id,
            "epoch": self._spool.epoch,
            "starts": self._spool.starts()[: self.settings.partitions],
            "ends": self._spool.ends()[: self.settings.partitions],
            "fingerprint": self._frontend.fingerprint,
            "warnings": list(self._frontend.warnings),
        }

    def end(self, reason: str) -> None:
        """Begin to end in good order; the first reason counts."""
        if not self._ending.is_set():
            self._reason = reason
            self._ending.set()
            self._watch.end()
            log.info("ending: %s", reason, extra=named("intake-ending", reason=reason))

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

    def _state(self) -> IntakeState:
        counters, now = self._groups.counters, self._loop.time()
        return IntakeState(
            listen=self._frontend.address,
            flight=self._flight_address,
            connections=len(self._sessions),
            channels=sum(session.channels for session in self._sessions),
            draining=self._ending.is_set(),
            held_bytes=self._groups.held_bytes,
            rates=self._meter.rates(now, counters.rows, counters.bytes),
            counters=asdict(counters)
            | asdict(self._context.counters)
            | {**self._frontend.counters, "marks_forgotten": self._spool.forgotten},
            subscriptions=self._frontend.subscriptions,
            complete=self._frontend.complete and self._groups.idle and not self._groups.holding,
            protocol=self._adapter.name,
            name=self.settings.name,
            http=url_of(self._http),
            memory_limit=self.settings.limits.memory,
            settings=admission_of(self.settings),
            in_force=self._in_force,
            opened=self._opened,
            warnings=self._frontend.warnings,
            stalls=self._stalls.now(),
        )

    def _sample(self) -> None:
        self._activity.sample(
            stored=self._spool.bytes,
            lag=uncommitted(self._spool, self.settings.partitions),
            connections=len(self._sessions),
            channels=sum(session.channels for session in self._sessions),
        )

    def _cursors_moved(self) -> None:
        self._commits.move(self._spool.cursors())
        self._truncation.soon()

    async def _begin(self) -> None:
        settings = self.settings
        self._spool.on_durable = self._durable
        self._loop.add_reader(self._spool.fileno(), self._pump)
        await self._frontend.open(self._context, self._sessions.add)
        try:
            host, port = HostPort.parse(settings.flight)
            control = Control(
                self._spool,
                settings.partitions,
                lease=self._lease,
                fence=self._fence,
                clock=self._loop.time,
                state=self._state,
                moved=self._cursors_moved,
                behind=self._groups.fail,
                drain=lambda: self.end("a client asked for it"),
                record=self._groups.record,
                activity=self._activity,
                peers=lambda: states_of(self._sessions, self._groups),
                wall_microseconds=self._context.wall_microseconds,
            )
            self._stalls = IntakeStalls(
                self._spool, settings, self._frontend, self._context, control.slow_cursors
            )
            self._host = SpoolHost(
                self._spool,
                self._rows,
                settings.partitions,
                control,
                self._watch,
                self._fence,
                self._loop,
                self._activity,
                settings.spool_max_bytes,
            )
            self._flight = IntakeServer(
                host, port, settings.credentials, self._host, self._flight_refused
            )
            self._flight_address = str(HostPort(settings.advertise or host, self._flight.port))
            self._http = serve_http(settings, self._host.observe)
            record(settings)
            self._write_status("ready")
        except BaseException:
            await self._end_http()
            await self._frontend.close(self._adapter.internal_error, "the intake could not start")
            raise
        log.info(
            "%s: spool %s epoch %d, %s, Flight on %s",
            settings.name,
            settings.spool,
            self._spool.epoch,
            f"listening on {self._frontend.address}" if self._frontend.address else "dialling",
            self._flight_address,
            extra=named("intake-ready", epoch=self._spool.epoch, listen=self._frontend.address),
        )
        for warning in self._frontend.warnings:
            log.warning("%s", warning)
        self._stalls.start()
        if self._http is not None:
            url = url_of(self._http)
            log.info("page and metrics on %s", url, extra=named("page-served", url=url))

    def _flight_refused(self, reason: str) -> None:
        """In a thread of Flight."""
        line = ("Flight calls refused", "a Flight call is refused: %s", reason)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._context.refusals.add, *line)

    def _pump(self) -> None:
        try:
            self._spool.pump()
        except AqueductError as error:
            self._loop.remove_reader(self._spool.fileno())
            self._groups.fail(error)
            return
        if self._spool.unreported and self._pump_timer is None:
            self._pump_timer = self._loop.call_later(RETRY, self._pump_again)

    def _pump_again(self) -> None:
        self._pump_timer = None
        self._pump()

    def _durable(self, group: int) -> None:
        # the spool has looked behind the sync whether it is ours: a successor that comes after
        # that finds what is acked now
        self._groups.made_durable(group)
        self._watch.advance(self._spool.ends())
        self._meter.note(self._loop.time(), self._groups.counters.rows, self._groups.counters.bytes)
        if self._groups.idle:
            self._idle.set()

    def _fail(self, error: AqueductError) -> None:
        log.error("%s", error)
        self._failure = error
        self.end("the spool failed")

    async def _watch_lease(self) -> None:
        while not self._lease.check(self._loop.time()):
            asleep = self._loop.time()
            await asyncio.sleep(self._lease.interval)
            self._activity.delays.add(self._loop.time() - asleep - self._lease.interval)
            self._sample()
            self._refresh_status()
            self._truncation.soon()  # retention ends with time alone
        self.end(f"no planner asked for {self._lease.seconds:g} s")

    async def _close(self) -> None:
        self._truncation.end()
        self._stalls.end()
        self._frontend.refuse()
        if self._failure is None:
            await self._settle()
        adapter = self._adapter
        code = adapter.no_error if self._failure is None else adapter.internal_error
        for session in list(self._sessions):
            session.shutdown(code, self._reason)
        await self._frontend.close(code, self._reason)
        self._context.refusals.close()
        self._groups.flush()  # the events of the ends of the connections
        self._loop.remove_reader(self._spool.fileno())
        if self._pump_timer is not None:
            self._pump_timer.cancel()
        self._host.end()
        await self._end_http()
        await self._end_flight()
        try:
            self._fence.check()
        except AqueductError as error:
            self._failure = self._failure or error
            self._spool.abandon("another owner has it")
        try:
            self._spool.close()
        except AqueductError as error:
            self._failure = self._failure or error
        if not self._fence.lost:
            self._write_status("failed" if self._failure else "ended")

    async def _settle(self) -> None:
        """The last group becomes durable, and its acks go out."""
        self._idle.clear()
        for session in self._sessions:
            session.pause()
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

    async def _end_http(self) -> None:
        if self._http is not None:
            await asyncio.to_thread(self._http.close)

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

    def _refresh_status(self) -> None:
        """What it says of how the intake is stays true, though not to the second."""
        late = self._loop.time() - self._status_written >= STATUS_SECONDS
        if late and not (self._fence.lost or self._ending.is_set()):
            self._write_status("ready")

    def _write_status(self, state: str) -> None:
        self._status_written = self._loop.time()
        status = self.ready() | {"state": state, "reason": self._reason, "at": int(time.time())}
        status |= {
            "connections": len(self._sessions),
            "channels": sum(session.channels for session in self._sessions),
            "bytes": self._spool.bytes,
            "full": self._spool.full,
        }
        if self._failure is not None:
            status["error"] = str(self._failure)
        try:
            status_file.write(Path(self.settings.spool), status)
        except OSError as error:
            log.warning("the status file cannot be written: %s", error.strerror)


def _microseconds() -> int:
    return time.time_ns() // 1000
