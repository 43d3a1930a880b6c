"""What the event loop's thread answers to planners: status, cursor leases, commits, lease."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aqueduct_core.errors import AqueductError, IntakeFailed, SpoolFailed
from aqueduct_core.flight.status import CursorReset, IntakeStatus
from aqueduct_core.flight.tickets import Commit, GiveUp, Hold, Reset, View, require_spool
from aqueduct_core.intake.control.cursor_leases import CursorLeases
from aqueduct_core.intake.control.cursor_owners import CursorOwners
from aqueduct_core.intake.control.cursor_resets import CursorResets
from aqueduct_core.intake.control.lease import Lease
from aqueduct_core.intake.control.stalls import SlowCursor, slow_cursors
from aqueduct_core.intake.control.state import IntakeState
from aqueduct_core.intake.observing.activity import Activity
from aqueduct_core.intake.observing.traffic_table import ConnectionState
from aqueduct_core.intake.storage.fence import Fence
from aqueduct_core.intake.storage.pending import PendingEvent
from aqueduct_core.intake.storage.skipped_rows import SkipListener, skipped_event
from aqueduct_core.primitives.release import release
from aqueduct_core.spool import Spool
from aqueduct_core.spool.losses import offset_ahead

log = logging.getLogger(__name__)


class Control:
    """Commands of planners on one spool, with ``partitions`` logs of messages and one of events.

    A call of a planner renews the lease. Nothing is answered once another intake has opened the
    spool: each call raises what `Fence.check` raises. ``moved`` is called when a cursor has come,
    gone, or gone on; ``behind`` for a planner that has read what is not stored: offsets would be
    given out again. ``record`` stores an event; ``wall_microseconds`` is its time. ``activity`` is
    told how long commits take; ``peers`` are those that are there.
    """

    def __init__(
        self,
        spool: Spool,
        partitions: int,
        *,
        lease: Lease,
        fence: Fence,
        clock: Callable[[], float],
        state: Callable[[], IntakeState],
        moved: Callable[[], None],
        behind: Callable[[AqueductError], None],
        drain: Callable[[], None],
        record: Callable[[PendingEvent], None],
        activity: Activity,
        peers: Callable[[], list[ConnectionState]],
        wall_microseconds: Callable[[], int],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._spool = spool
        self._partitions = partitions
        self._lease = lease
        self._fence = fence
        self._clock = clock
        self._state = state
        self._moved = moved
        self._behind = behind
        self._drain = drain
        self._record = record
        self._activity = activity
        self._peers = peers
        self._wall_microseconds = wall_microseconds
        self._wall = wall
        self._leases = CursorLeases()
        self._owners = CursorOwners(spool.directory)
        self._committed: dict[str, float] = {}
        self._resets = CursorResets(spool)

    def status(self) -> IntakeStatus:
        self._begin()
        spool, count, state = self._spool, self._partitions, self._state()
        ends, starts = spool.ends(), spool.starts()
        messages: dict[str, tuple[int, ...]] = {}
        events: dict[str, int] = {}
        for cursor, position in spool.cursors().items():
            at = position[count]
            if at is not None:
                events[cursor] = at
            else:
                messages[cursor] = tuple(end or 0 for end in position[:count])
        return IntakeStatus(
            id=spool.id,
            epoch=spool.epoch,
            ends=tuple(ends[:count]),
            starts=tuple(starts[:count]),
            events=(starts[count], ends[count]),
            committed=messages,
            events_committed=events,
            listen=state.listen,
            flight=state.flight,
            pid=os.getpid(),
            bytes=spool.bytes,
            full=spool.full,
            connections=state.connections,
            channels=state.channels,
            draining=state.draining,
            lease=self._lease.seconds,
            held_bytes=state.held_bytes,
            rates=state.rates,
            counters=state.counters,
            subscriptions=state.subscriptions,
            complete=state.complete,
            owners={
                cursor: owner
                for cursor, owner in self._owners.all.items()
                if cursor in messages or cursor in events
            },
            settings=state.settings,
            in_force=state.in_force,
            opened=state.opened,
            warnings=state.warnings,
            protocol=state.protocol,
            name=state.name,
            http=state.http,
            release=release(),
            memory_limit=state.memory_limit,
            held=self._leases.held(self._clock()),
            stalls=state.stalls,
            resets=self._resets.all,
        )

    def slow_cursors(self) -> list[SlowCursor]:
        """The cursors with rows that they have not passed."""
        now = self._clock()
        return slow_cursors(
            self._spool.ends(),
            self._spool.cursors(),
            self._owners.all,
            self._leases.held(now),
            {cursor: now - at for cursor, at in self._committed.items()},
        )

    def peers(self) -> list[ConnectionState]:
        """What is known of all connections, for `Activity.status`."""
        return self._peers()

    def hold(self, hold: Hold) -> None:
        self._begin()
        require_spool(self._spool.id, hold.spool)
        now = self._clock()
        if hold.cursor not in self._spool.cursors():
            # dropped by a release that knew no owners, or in a crash: it is nobody's any more
            self._owners.forget(hold.cursor)
            self._resets.forget(hold.cursor)
        # first who: another query must not make, or read, a cursor that is in use
        self._owners.check(hold.cursor, hold.query)
        self._check_given_out(hold)
        self._leases.hold(hold.cursor, hold.owner, hold.seconds, now)
        try:
            with self._noted_later(hold.cursor):
                self._spool.enter_cursor(hold.cursor, self._reads(hold.view))
            self._owners.claim(hold.cursor, hold.query, hold.where, self._wall())
        except BaseException:
            self._leases.release(hold.cursor, hold.owner)
            raise
        self._moved()

    def _check_given_out(self, hold: Hold) -> None:
        logs = [log for log, read in enumerate(self._reads(hold.view)) if read]
        ends = self._spool.ends()
        for log, known in zip(logs, hold.given_out, strict=False):
            if known > ends[log]:
                error = offset_ahead(self._spool.directory, log, known, ends[log])
                self._behind(error)
                raise error

    def release(self, cursor: str, owner: str) -> None:
        self._leases.release(cursor, owner)

    def commit(self, commit: Commit) -> None:
        self._begin()
        require_spool(self._spool.id, commit.spool)
        if commit.epoch is not None and commit.epoch != self._spool.epoch:
            raise IntakeFailed(
                "UNREACHABLE",
                f"the intake of epoch {commit.epoch} has ended, epoch {self._spool.epoch} serves",
                "Ask for its status, then commit again",
            )
        self._owners.check(commit.cursor, commit.query)
        self._leases.check(commit.cursor, commit.owner, self._clock())
        reads = self._reads(commit.view)
        if len(commit.ends) != sum(reads):
            raise ValueError(f"{len(commit.ends)} ends for the {commit.view} of {commit.cursor!r}")
        ends = iter(self._resets.bounded(commit.cursor, commit.reset, commit.ends))
        began = self._clock()
        with self._noted_later(commit.cursor):
            self._spool.commit(commit.cursor, [next(ends) if read else None for read in reads])
        self._committed[commit.cursor] = self._clock()
        self._activity.commits.add(self._clock() - began)
        self._resets.obeyed(commit.cursor, commit.reset)
        self._moved()

    def drop_cursor(self, cursor: str, query: str | None) -> None:
        self._fence.check()
        if query is not None:
            self._owners.check(cursor, query)
        self._leases.forget(cursor, self._clock())
        self._spool.drop(cursor)
        self._committed.pop(cursor, None)
        self._owners.forget(cursor)
        self._resets.forget(cursor)
        self._moved()

    def give_cursor(self, cursor: str) -> None:
        self._fence.check()
        self._leases.forget(cursor, self._clock())
        self._owners.forget(cursor)

    def reset_cursor(self, order: Reset) -> CursorReset:
        self._fence.check()
        require_spool(self._spool.id, order.spool)
        self._leases.check(order.cursor, None, self._clock())
        reset = self._resets.order(self._spool, order.cursor, order.to, self._wall())
        self._moved()
        return reset

    def record_skip(self, request: GiveUp, recorded: Callable[[], None]) -> None:
        """Record the event where there is something to give up; ``recorded`` is called when it is
        durable, or there is nothing."""
        self._begin()
        ticket = request.ticket
        if not self._spool.prepare_skip(ticket.partition, ticket.start, ticket.end):
            recorded()
            return
        event = skipped_event(
            ticket.partition, ticket.start, ticket.end, request.reason, self._wall_microseconds()
        )
        self._record(SkipListener(recorded).pending(event))

    def give_up(self, request: GiveUp) -> None:
        self._begin()
        ticket = request.ticket
        self._spool.skip(ticket.partition, ticket.start, ticket.end, request.reason)

    def renew(self, seconds: float | None) -> None:
        self._fence.check()
        self._lease.renew(self._clock(), seconds)

    def drain(self) -> None:
        self._drain()

    @contextmanager
    def _noted_later(self, cursor: str) -> Iterator[None]:
        """A full disk must not fail a query: what it has read gives the space back. The position
        counts in memory, and is written with the next commit; until then a restart would only
        keep more than it has to."""
        known = cursor in self._spool.cursors()
        try:
            yield
        except SpoolFailed as error:
            if error.subclass != "FULL" or not known:
                raise
            log.warning("cursor %r could not be noted: %s", cursor, error.what)

    def _begin(self) -> None:
        self._fence.check()
        self._lease.renew(self._clock())

    def _reads(self, view: View) -> list[bool]:
        messages = view == "messages"
        return [messages] * self._partitions + [not messages]
