"""What the intake offers to its Flight server, whose threads are not the event loop's."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa

from aqueduct_core.errors import IntakeFailed
from aqueduct_core.flight.tickets import Commit, IntakeStatus, Ticket, require_spool
from aqueduct_core.spool import Spool

ANSWER_SECONDS = 5.0
"""Longest wait for the event loop; it never blocks for long unless the host is overloaded."""

Result = TypeVar("Result")


class Commands(Protocol):
    """What the event loop's thread does for the Flight threads."""

    def status(self) -> IntakeStatus: ...

    def commit(self, commit: Commit) -> None: ...

    def renew(self, seconds: float | None) -> None: ...

    def drain(self) -> None: ...


class Watch:
    """The durable ends, for threads that wait until there is more. Thread-safe."""

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

    def wait(self, beyond: Sequence[int], timeout: float) -> None:
        """Return when a partition is past ``beyond``, the watch has ended, or time is up."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._ended and not self._past(beyond):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return

    def _past(self, beyond: Sequence[int]) -> bool:
        return len(beyond) != len(self._ends) or any(
            end > known for end, known in zip(self._ends, beyond, strict=True)
        )


class SpoolHost:
    """Reads go straight to the spool, which is thread-safe; everything else to the event loop."""

    def __init__(
        self, spool: Spool, commands: Commands, watch: Watch, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.schema: pa.Schema = spool.schema
        self._spool = spool
        self._commands = commands
        self._watch = watch
        self._loop = loop

    def status(self) -> IntakeStatus:
        return self._ask(self._commands.status)

    def wait(self, beyond: Sequence[int], timeout: float) -> IntakeStatus:
        self._watch.wait(beyond, timeout)
        return self._ask(self._commands.status)

    def read(self, ticket: Ticket) -> Iterator[pa.RecordBatch]:
        require_spool(self._spool.id, ticket.spool)
        return self._spool.read(ticket.partition, ticket.start, ticket.end)

    def commit(self, commit: Commit) -> None:
        self._ask(lambda: self._commands.commit(commit))

    def renew(self, seconds: float | None) -> None:
        self._ask(lambda: self._commands.renew(seconds))

    def drain(self) -> None:
        self._ask(self._commands.drain)

    def _ask(self, call: Callable[[], Result]) -> Result:
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
            raise IntakeFailed(
                "UNREACHABLE",
                f"the intake did not answer within {ANSWER_SECONDS:g} s",
                "Its host may be overloaded; try again",
            ) from None
        except RuntimeError:
            raise IntakeFailed("UNREACHABLE", "the intake has ended", "Start it again") from None
