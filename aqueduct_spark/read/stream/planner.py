"""The planner of a streaming query: lives in the driver's Python process, and moves no payload.

All of it is made with the first call that needs it. Everything that outlives a call is in the
offsets and in the cursors; what is kept here only saves work or asks less often.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from aqueduct_core.errors import DataLoss
from aqueduct_core.flight.stalls import Stall
from aqueduct_core.flight.tickets import CANCELS, View
from aqueduct_spark.formats.description import FormatDescription
from aqueduct_spark.intakes.attach import attach
from aqueduct_spark.model.offsets import Cuts, DataRange, StreamOffset
from aqueduct_spark.model.partitions import DataPartition, LaunchOrder, LaunchPartition
from aqueduct_spark.options.read import StreamReadOptions
from aqueduct_spark.options.source import Dial, Listen, Source, Standalone
from aqueduct_spark.options.starting import AtTime
from aqueduct_spark.planning.admission import AdmissionDelay
from aqueduct_spark.planning.dialling import check_dialled, dialled_elsewhere
from aqueduct_spark.planning.launches import Launches
from aqueduct_spark.planning.pacing import BatchSpacing
from aqueduct_spark.planning.progress import (
    LogEnds,
    ProgressTerms,
    Survey,
    commit_is_due,
    granted,
    passed_over,
    reaches,
    replaced,
    survey,
)
from aqueduct_spark.planning.ranges import data_ranges
from aqueduct_spark.planning.splits import MAX_KEPT, cut, cuts_of, split
from aqueduct_spark.planning.stalls import (
    Held,
    intakes_down,
    launches_waiting,
    rows_held,
    spools_away,
    told_by_intakes,
)
from aqueduct_spark.planning.views import Reader, Seen
from aqueduct_spark.read.stream.measuring import Measuring
from aqueduct_spark.read.stream.stall_watch import QueryStalls

if TYPE_CHECKING:
    from aqueduct_spark.read.stream.event_watch import EventWatch

log = logging.getLogger(__name__)

LONG_POLL = 1.0
"""Longest time in seconds that a call of Spark is held when nothing is new."""

RETRY_PAUSE = 0.2
"""Seconds between two looks for an intake that is waited for."""


class StreamPlanner:
    """Plans the batches of one query run. Called by one thread; ends with `stop` or the process.

    Any method may raise SpoolFailed.CURSOR_IN_USE when another query has the cursor, or took it
    over, and IntakeFailed.UNREACHABLE when an intake cannot be had.
    """

    def __init__(self, description: FormatDescription, options: StreamReadOptions) -> None:
        self._options = options
        events = options.rows.view == "events"
        self._terms = ProgressTerms(
            options.intakes,
            1 if events else options.partitions_per_intake,
            options.rows.view,
            options.starting,
            options.fail_on_data_loss,
            options.lost_spools,
        )
        self._event_watch: EventWatch | None = None
        readers = [Reader(options.cursor, cast(View, options.rows.view))]
        losses = options.fail_on_data_loss and description.tells_losses
        if not events and (losses or options.on_cancel == "fail"):
            from aqueduct_spark.read.stream.event_watch import EventWatch

            mapping = description.rows()
            checks = mapping.event_checks(on_cancel=options.on_cancel, fail_on_data_loss=losses)
            self._event_watch = EventWatch(
                options.cursor, options.rows, options.starting, mapping, checks
            )
            readers.append(self._event_watch.reader)
        self._intakes = attach(description, options, readers)
        self._clients = self._intakes.clients
        self._measuring = Measuring(self._intakes, options.admission.max_bytes)
        self._launches = Launches(options.launch_timeout)
        self._searched: dict[int, list[str]] = {}
        self._held: Held | None = None
        self._delay = self._new_delay()
        self._pace = BatchSpacing()
        self._bounded = False
        self._ceiling: dict[int, tuple[str, LogEnds]] = {}
        self._ticked: StreamOffset | None = None
        self._seen: dict[int, Seen] = {}
        self._reach: StreamOffset | None = None
        self._new_query = uuid.uuid4().hex
        """The id of the query, if it has none yet and a batch of this run is written down."""
        self._stalls = QueryStalls(
            f"{description.name} stream of {_place(options.source)}, cursor {options.cursor}",
            self._find_stalls,
            wait=options.stall_timeout,
            refusal=options.refusal_timeout,
        )

    def available_now(self) -> None:
        """From now on, nothing counts that is stored later than each intake is first seen."""
        self._bounded = True

    def latest(self, start: StreamOffset) -> StreamOffset:
        """The end of the next batch; equal to ``start`` when there is nothing to do.

        It says which tasks the batch has: sizes and options may be others when it is planned again,
        and other intakes may be there.

        Waits for rows up to `LONG_POLL`. A query that is to end with what is there waits for
        intakes only, which it needs to end.
        """
        self._stalls.check()
        self._recognise(start)
        end = self._next(start)
        if end == start:
            return start
        launches = self._launch_tasks(end) if end.launch > start.launch else []
        end = end.with_cuts(self._cuts(start, end), len(launches))
        return end.named(start.query or self._new_query)

    def _next(self, start: StreamOffset) -> StreamOffset:
        end = self._step(start)
        while self._bounded and end == start and len(self._seen) < self._terms.intakes:
            self._stalls.check()
            time.sleep(RETRY_PAUSE)
            end = self._step(start)
        if end == start and not self._bounded:
            held_back = self._pace.remaining(time.monotonic())
            if held_back:
                time.sleep(held_back)
            else:
                self._clients.await_rows(self._seen, self._longest_wait())
            end = self._step(start)
        if end == start and commit_is_due(start, self._seen, self._ticked):
            self._ticked = start
            end = start.ticked()
        return end

    def reach(self) -> StreamOffset | None:
        """How far a batch could go as of the last look; for progress reports."""
        return self._reach

    def waits_for(self) -> list[str]:
        """What the query waits for, as the log tells it; for progress reports."""
        return [str(stall) for stall in self._stalls.reported()]

    def partitions(
        self, start: StreamOffset, end: StreamOffset
    ) -> list[LaunchPartition | DataPartition]:
        """The tasks of the batch between two offsets.

        The data tasks come first, and are the same ones whenever it is asked: a function of the
        offsets, so that a row has the same place in the batch that is done again. Launches come
        last, where the batch is one that launches, at as many places each time: the tasks of
        another stream may follow. No data task waits for one: it has its intake running by itself
        (`ensure_intake`), so a batch is done with one task slot too, and one that is repeated after
        the lease has its intakes back. Those without rows in it are launched by a later batch.
        """
        named = self._recognise(end)
        touched = {rows.intake for rows in data_ranges(start, end, {})}
        if named or end.launch > start.launch or not touched <= set(self._seen):
            self._seen = self._observe_needed(end, touched)
        ranges = data_ranges(start, end, self._first_logs(touched))
        pieces = self._split(ranges) if end.cuts is None else cut(ranges, end.cuts)
        tasks: list[LaunchPartition | DataPartition] = [*self._data_tasks(self._owed(pieces), end)]
        if end.launch > start.launch:
            launches = self._launch_tasks(end)
            self._intakes.begin_launches([each.order.intake for each in launches if each.order])
            places = end.places or len(launches)
            tasks += [*launches, *[LaunchPartition(None)] * places][:places]
        return tasks

    def commit(self, end: StreamOffset) -> None:
        """Spark is done with everything before ``end``."""
        self._recognise(end)
        self._clients.commit(end)

    def stop(self) -> None:
        """Give the cursors back and close what is open here. Launched intakes stay until their
        lease is over, to be adopted."""
        self._stalls.stop()
        self._intakes.close()

    def _find_stalls(self, now: float) -> Iterator[Stall]:
        """In the thread of the watch. Of one intake the last counts: what is done about it."""
        launched = self._intakes.launches
        yield from told_by_intakes(self._clients.last_statuses(), launched=launched)
        yield from intakes_down(self._clients.troubles(now), launched=launched)
        if isinstance(self._options.source, Listen | Dial):
            spool = self._options.source.spool or ""
            yield from launches_waiting(self._intakes.pending(), spool, now)
        yield from spools_away(self._searched)
        yield from rows_held(self._held, now)

    def _recognise(self, written: StreamOffset) -> bool:
        """Spark has written this offset down: whose it is, and how many intakes there have been.
        Returns whether it is the first one with an id: cursors are to be claimed with it."""
        if isinstance(self._options.source, Dial):
            # an endpoint stays with its intake, also where fewer are to share those to come
            intakes = max([self._options.intakes, *(i + 1 for i in written.spool)])
            self._terms = replace(self._terms, intakes=intakes)
        return self._clients.own(written.query)

    def _step(self, start: StreamOffset) -> StreamOffset:
        self._seen = self._clients.observe(start)
        found = self._survey(start)
        passed = passed_over(start, found.entered, self._seen)
        if passed:
            for intake in passed:
                self._clients.begin_anew(intake)
            self._seen = self._clients.observe(start)
            found = self._survey(start)
        self._reach = reaches(start, self._seen).with_cuts({})
        self._look_at_events(start)
        self._tell_of_resets(start, found.entered)
        for loss in found.losses:
            log.warning("passed over: %s", loss)
        end = self._admitted(found)
        if self._intakes.launches:
            if found.missing:
                end = self._launching(found, start, end)
            else:
                if isinstance(self._options.source, Dial):
                    addresses = map(str, self._options.source.endpoint.addresses)
                    check_dialled(list(addresses), self._clients.statuses())
                self._intakes.take_absent()
                self._intakes.begin_launches(())
                self._launches.note((), {}, {}, time.monotonic())
                self._searched = {}
        return end

    def _tell_of_resets(self, start: StreamOffset, entered: StreamOffset) -> None:
        for intake, position in entered.spool.items():
            known = start.spool.get(intake)
            if known is not None and known.id == position.id and not position.follows(known):
                log.warning(
                    "intake %d: cursor %s was reset: read up to %s, the query goes on at %s",
                    intake,
                    self._options.cursor,
                    list(known.to),
                    list(position.to),
                )

    def _survey(self, start: StreamOffset) -> Survey:
        try:
            return survey(
                start,
                self._seen,
                self._terms,
                ceiling=self._ceilings() if self._bounded else None,
                located=self._located(start),
            )
        except DataLoss as loss:
            if loss.subclass == "OFFSET_AHEAD":
                self._clients.report_given_out(start)
            raise

    def _look_at_events(self, start: StreamOffset) -> None:
        if self._event_watch is not None:
            self._event_watch.look(start, self._clients)
            return
        # Of an earlier run that looked: it would hold back the log of events for ever.
        left = self._options.cursor + CANCELS
        for intake, status in self._clients.statuses().items():
            if left in status.events_committed:
                self._clients.drop_cursor(intake, left)

    def _admitted(self, found: Survey) -> StreamOffset:
        rows, now = sum(one.rows for one in found.waiting), time.monotonic()
        self._delay = self._delay.seeing(rows, now)
        if self._held_back(found, rows, now) and not self._bounded:
            return found.entered
        if rows:
            self._delay = self._new_delay()
            self._pace = self._pace.batch(now)
        shares = self._measuring.shares(
            found.waiting, self._options.admission.max_offsets, self._seen
        )
        return granted(found.entered, found.waiting, shares)

    def _held_back(self, found: Survey, rows: int, now: float) -> bool:
        """Whether what waits is to wait for more, or since much comes in. A batch that is as large
        as it may be does not; nor does any wait for more where a spool takes none until this one
        is read."""
        limits = self._options.admission
        size = self._measuring.waiting_bytes(found.waiting, self._seen)
        if (limits.max_offsets is not None and rows >= limits.max_offsets) or (
            limits.max_bytes is not None and size >= limits.max_bytes
        ):
            return False
        if limits.min_offsets is not None:
            full = any(self._seen[one.intake].full for one in found.waiting)
            waits = not full and self._delay.remaining(rows, now) > 0.0
            self._held = Held(rows, self._delay) if waits else None
            return waits
        self._pace = self._pace.seeing(rows, size, now)
        return self._pace.remaining(now) > 0.0

    def _launching(self, found: Survey, start: StreamOffset, end: StreamOffset) -> StreamOffset:
        spools = {intake: position.id for intake, position in start.spool.items()}
        self._launches.note(found.missing, self._intakes.take_absent(), spools, time.monotonic())
        self._searched = self._launches.searched()
        time.sleep(self._launches.pause())
        return end.launched()

    def _launch_tasks(self, end: StreamOffset) -> list[LaunchPartition]:
        """For the intakes that are missing: one each, then copies for those that are searched."""
        each, copies = list[LaunchPartition](), list[LaunchPartition]()
        for intake in sorted(set(range(self._terms.intakes)) - set(self._seen)):
            known = end.spool.get(intake)
            wanted = None if known is None or known.id in self._terms.lost_spools else known.id
            order = self._order(intake, wanted, end)
            if order is None:
                continue
            each.append(LaunchPartition(order))
            # One only, where it may make a new spool: copies might make some on several hosts.
            if order.spool_id is not None:
                copies += [LaunchPartition(order)] * (self._launches.copies(intake) - 1)
        return each + copies

    def _order(self, intake: int, spool: str | None, end: StreamOffset) -> LaunchOrder | None:
        """An intake of an old copy of its spool must not even start, or go on behind what is lost:
        what it would store under offsets that this query has read would never be read."""
        known, given_out = end.spool.get(intake), list[int]()
        if known is not None and known.id == spool:
            made = self._options.partitions_per_intake or 1
            given_out = [0] * (made if self._terms.view == "events" else 0) + list(known.to)
        elsewhere = dialled_elsewhere(intake, end, self._seen)
        return self._intakes.order(intake, spool, elsewhere, given_out)

    def _cuts(self, start: StreamOffset, end: StreamOffset) -> Cuts:
        touched = {rows.intake for rows in data_ranges(start, end, {})}
        return cuts_of(self._split(data_ranges(start, end, self._first_logs(touched))))

    def _split(self, ranges: Sequence[DataRange]) -> list[DataRange]:
        bounds = self._options.split
        sizes = self._measuring.for_split(ranges, bounds.max_bytes, self._seen)
        return split(ranges, bounds, sizes, MAX_KEPT)

    def _owed(self, pieces: Sequence[DataRange]) -> list[DataRange]:
        """The pieces, each at its place; without rows where their spool was given up by name."""
        lost = {rows.intake for rows in pieces if not self._is_owed(rows)}
        return [replace(rows, first=rows.stop) if rows.intake in lost else rows for rows in pieces]

    def _is_owed(self, rows: DataRange) -> bool:
        """Raises DataLoss where another spool is in the place of that of the rows: all standalone
        intakes answer, and none serves it."""
        seen = self._seen.get(rows.intake)
        if seen is not None and seen.id == rows.spool:
            return True
        before = f"rows {rows.first} to {rows.stop} of this batch are of spool {rows.spool}"
        if rows.spool in self._terms.lost_spools:
            log.warning("%s, which is given up: they are left out", before)
            return False
        if self._intakes.launches or seen is None:
            return True
        raise replaced(rows.intake, seen.id, rows.spool, before)

    def _data_tasks(self, pieces: Sequence[DataRange], end: StreamOffset) -> list[DataPartition]:
        spools = {rows.intake: rows.spool for rows in pieces}
        orders = {intake: self._order(intake, spool, end) for intake, spool in spools.items()}
        access = self._intakes.access()
        return [
            DataPartition(
                rows=rows,
                order=orders[rows.intake],
                fetch_timeout=self._options.fetch_timeout,
                lenient=not self._options.fail_on_data_loss,
                access=access,
            )
            for rows in pieces
        ]

    def _observe_needed(self, end: StreamOffset, touched: set[int]) -> dict[int, Seen]:
        """The intakes that answer; those on their own are waited for where rows are wanted."""
        seen = self._clients.observe(end)
        while not self._intakes.launches and not touched <= set(seen):
            self._stalls.check()
            time.sleep(RETRY_PAUSE)
            seen = self._clients.observe(end)
        return seen

    def _first_logs(self, touched: set[int]) -> Mapping[int, int]:
        if self._options.rows.view != "events":
            return {}
        made = self._options.partitions_per_intake
        return {i: self._seen[i].first_log if made is None else made for i in touched}

    def _ceilings(self) -> dict[int, LogEnds]:
        for intake, status in self._seen.items():
            spool, _ = self._ceiling.get(intake, ("", ()))
            if spool != status.id:
                self._ceiling[intake] = (status.id, status.ends)
        return {intake: ends for intake, (_, ends) in self._ceiling.items()}

    def _located(self, start: StreamOffset) -> dict[int, LogEnds]:
        """What the starting time means in spools that are new to the query."""
        starting = self._terms.starting
        if not isinstance(starting, AtTime):
            return {}
        located: dict[int, LogEnds] = {}
        for intake in set(self._seen) - set(start.spool):
            client = self._clients.client(intake)
            if client is not None:
                view = cast(View, self._options.rows.view)
                located[intake] = client.locate(starting.microseconds, view=view)
        return located

    def _new_delay(self) -> AdmissionDelay:
        return AdmissionDelay(
            self._options.admission.min_offsets, self._options.admission.max_delay
        )

    def _longest_wait(self) -> float:
        since = self._delay.since
        if since is None:
            return LONG_POLL
        return max(0.0, min(LONG_POLL, since + self._delay.longest - time.monotonic()))


def _place(source: Source) -> str:
    """What a query reads, for people."""
    if isinstance(source, Standalone):
        return f"intakes {','.join(map(str, source.addresses))}"
    return f"spool {source.spool}"
