"""What the intake offers to its Flight server, whose threads are not the event loop's."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa
from msgspec import structs

from aqueduct_core.errors import IntakeFailed
from aqueduct_core.flight.activity import ChannelQuery
from aqueduct_core.flight.status import CursorReset, IntakeStatus
from aqueduct_core.flight.tickets import Commit, GiveUp, Hold, Reset, Ticket, View, require_spool
from aqueduct_core.intake.control.cursor_lag import CursorLags
from aqueduct_core.intake.observing.activity import Activity
from aqueduct_core.intake.observing.traffic_table import ConnectionState
from aqueduct_core.intake.storage.fence import Fence
from aqueduct_core.intake.storage.rows import RowFormat
from aqueduct_core.spool import Location, Spool, Stretch

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
"""Longest wait for the event loop; it never blocks for long unless the host is overloaded."""

Result = TypeVar("Result")


class IntakeCommands(Protocol):
    """What the event loop's thread does for the Flight threads."""

    def status(self) -> IntakeStatus: ...

    def peers(self) -> list[ConnectionState]: ...

    def hold(self, hold: Hold) -> None: ...

    def release(self, cursor: str, owner: str) -> None: ...

    def commit(self, commit: Commit) -> None: ...

    def drop_cursor(self, cursor: str, query: str | None) -> None: ...

    def give_cursor(self, cursor: str) -> None: ...

    def reset_cursor(self, order: Reset) -> CursorReset: ...

    def record_skip(self, request: GiveUp, recorded: Callable[[], None]) -> None: ...

    def give_up(self, request: GiveUp) -> None: ...

    def renew(self, seconds: float | None) -> None: ...

    def drain(self) -> None: ...


class Watch:
    """The durable ends of all logs, for threads that wait until there is more. Thread-safe."""

    def __init__(self, ends: Sequence[int]) -> None:
        self._ends = tuple(ends)
        self._ended = False
        self._changed = threading.Condition()

    def advance(self, ends: Sequence[int]) -> None:
        with self._changed:
            self._ends = tuple(ends)
            self._changed.notify_all()

    def end(self) -> None:
        """Nobody waits from now on."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, beyond: Sequence[int], timeout: float, logs: slice) -> None:
        """Return when one of these logs is past ``beyond``, the watch has ended, or time is up."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._ended and not self._past(beyond, logs):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return

    def _past(self, beyond: Sequence[int], logs: slice) -> bool:
        ends = self._ends[logs]
        return len(beyond) != len(ends) or any(
            end > known for end, known in zip(ends, beyond, strict=True)
        )


class SpoolHost:
    """Reads go straight to the spool, which is thread-safe; everything else to the event loop.

    After `end` every call raises ``IntakeFailed.UNREACHABLE``, and so does a read under way with
    its next batch. It is called before the spool is given back, so a successor and this one never
    serve at a time.
    """

    def __init__(
        self,
        spool: Spool,
        rows: RowFormat,
        partitions: int,
        commands: IntakeCommands,
        watch: Watch,
        fence: Fence,
        loop: asyncio.AbstractEventLoop,
        activity: Activity,
        spool_limit: int,
    ) -> None:
        self.schema: pa.Schema = spool.schema
        self._spool = spool
        self._rows = rows
        self._logs: dict[View, slice] = {
            "messages": slice(partitions),
            "events": slice(partitions, partitions + 1),
        }
        self._commands = commands
        self._watch = watch
        self._fence = fence
        self._loop = loop
        self._ended = False
        self._activity = activity
        self._spool_limit = spool_limit
        self._lags = CursorLags(spool, rows)

    def end(self) -> None:
        self._ended = True

    def status(self) -> IntakeStatus:
        status = self._ask(self._commands.status)
        return structs.replace(status, oldest=self._lags.oldest(status, time.time()))

    def observe(self, query: ChannelQuery) -> IntakeStatus:
        """The status with what the query asks for. What takes long is done in this thread."""
        status, peers = self._ask(lambda: (self._commands.status(), self._commands.peers()))
        now = time.time()
        return structs.replace(
            status,
            oldest=self._lags.oldest(status, now),
            lag=self._lags.of(status, now),
            use=self._lags.use(status, self._spool_limit),
            activity=self._activity.status(query, peers),
        )

    def wait(self, beyond: Sequence[int], timeout: float, view: View) -> IntakeStatus:
        self._watch.wait(beyond, timeout, self._logs[view])
        return self._ask(self._commands.status)

    def read(self, ticket: Ticket) -> Iterator[pa.RecordBatch]:
        self._check(ticket)
        return self._guarded(self._spool.read(ticket.partition, ticket.start, ticket.end))

    def locations(self, ticket: Ticket) -> list[Location]:
        self._check(ticket)
        return self._spool.locations(ticket.partition, ticket.start, ticket.end)

    def stretches(self, ticket: Ticket) -> list[Stretch]:
        self._check(ticket)
        return self._spool.stretches(ticket.partition, ticket.start, ticket.end)

    def skip(self, request: GiveUp) -> None:
        """Recorded before it is done: what is passed over without an event would be passed over in
        silence."""
        ticket = request.ticket
        self._check(ticket)
        if not self._spool.check_unreadable(ticket.partition, ticket.start, ticket.end):
            return
        recorded = threading.Event()
        self._ask(lambda: self._commands.record_skip(request, recorded.set))
        if not recorded.wait(ANSWER_SECONDS):
            raise _late()
        self._ask(lambda: self._commands.give_up(request))

    def sizes(self, partition: int, start: int, end: int, step: int) -> list[tuple[int, int]]:
        self._check(None)
        return self._spool.sizes(partition, start, end, step)

    def locate(self, microseconds: int, view: View) -> list[int]:
        self._check(None)
        logs = range(self._spool.partitions)[self._logs[view]]
        return [
            self._spool.bisect(log, lambda rows: self._rows.newest_timestamp(rows) < microseconds)
            for log in logs
        ]

    def hold(self, hold: Hold) -> None:
        self._ask(lambda: self._commands.hold(hold))

    def release(self, cursor: str, owner: str) -> None:
        self._ask(lambda: self._commands.release(cursor, owner))

    def commit(self, commit: Commit) -> None:
        self._ask(lambda: self._commands.commit(commit))

    def drop_cursor(self, cursor: str, query: str | None) -> None:
        self._ask(lambda: self._commands.drop_cursor(cursor, query))

    def give_cursor(self, cursor: str) -> None:
        self._ask(lambda: self._commands.give_cursor(cursor))

    def reset_cursor(self, order: Reset) -> CursorReset:
        return self._ask(lambda: self._commands.reset_cursor(order))

    def renew(self, seconds: float | None) -> None:
        self._ask(lambda: self._commands.renew(seconds))

    def drain(self) -> None:
        self._ask(self._commands.drain)

    def _check(self, ticket: Ticket | None) -> None:
        if self._ended:
            raise _ended()
        self._fence.check()
        if ticket is not None:
            require_spool(self._spool.id, ticket.spool)

    def _guarded(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._check(None)
            yield batch

    def _ask(self, call: Callable[[], Result]) -> Result:
        if self._ended:
            raise _ended()
        answer: concurrent.futures.Future[Result] = concurrent.futures.Future()

        def run() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(call())
            except Exception as error:
                answer.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(run)
            return answer.result(ANSWER_SECONDS)
        except TimeoutError:
            answer.cancel()
            raise _late() from None
        except RuntimeError:
            raise _ended() from None


def _late() -> IntakeFailed:
    return IntakeFailed(
        "UNREACHABLE",
        f"the intake did not answer within {ANSWER_SECONDS:g} s",
        "Its host may be overloaded, or its disk full; try again",
    )


def _ended() -> IntakeFailed:
    return IntakeFailed("UNREACHABLE", "the intake has ended", "Start it again")
