"""The durable log of an intake: append in groups, read by range, truncate what is read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.cursors import CursorStore
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.format.record import Codec
from aqueduct_core.spool.format.sequences import Sequences
from aqueduct_core.spool.format.settings import ContentSum, SequenceMark, SpoolSettings
from aqueduct_core.spool.health import Health
from aqueduct_core.spool.opening import load_index, take_over
from aqueduct_core.spool.ownership import Ownership, taking
from aqueduct_core.spool.quota import Quota
from aqueduct_core.spool.readable import Readable
from aqueduct_core.spool.retention import Position, lowest
from aqueduct_core.spool.segments import Segments
from aqueduct_core.spool.skips import MAX_REASON, Skip, load_skips, save_skips, still_needed
from aqueduct_core.spool.sync import SyncerProcess, SyncFactory, wait_readable
from aqueduct_core.spool.writer import Writer

log = logging.getLogger(__name__)

_SETTLE_SECONDS = 10.0


class Spool(Readable):
    """One directory, owned by one process; messages as rows of ``partitions`` numbered logs.

    Usage, all from the owner's thread: ``append`` … ``flush`` a group; when ``fileno()`` is
    readable call ``pump()``, which calls ``on_durable(group)`` with the newest group that is
    durable. Only then may its rows be acknowledged. ``commit`` and now and then ``trim`` give
    space back. What reads (`Readable`) may be called from any thread.

    Holds: an offset never changes its row; what was reported durable is there after any crash,
    together with its marks; unread rows are never deleted. After an I/O error nothing becomes
    durable again and every call that would write raises ``SpoolFailed.IO``.

    Ends with ``close()``, or with the process: the lock goes with it.
    """

    def __init__(
        self, own: Ownership, settings: SpoolSettings, codec: Codec, lost: int | None = None
    ) -> None:
        """Use ``open``."""
        directory, identity, catalog = own.directory, own.identity, own.catalog
        self.on_durable: Callable[[int], None] = lambda group: None
        self._directory = directory
        self._identity = identity
        self._own = own
        self._health = Health(directory)
        self._closed = False
        self._marks = Sequences(settings)
        found, cursors = take_over(
            directory, identity, own.claim, catalog, self._marks, own.disk, time.time(), lost
        )
        self._stored = Segments(
            directory,
            codec,
            identity.partitions,
            lambda segment: load_index(segment, catalog, identity.partitions),
            own.claim.held,
        )
        self._stored.skip(load_skips(directory, identity.id))
        for segment in found.segments:
            self._stored.add(segment)
        for segment in found.scanned:
            self._stored.rest(segment)
        self._stored.publish(found.ends)
        last = found.segments[-1] if found.segments else None
        newest, stamp = (last.number, last.stamp) if last else (0, "")
        note = own.claim.note
        self._ledger = CursorStore(catalog, self._health, self._stored, cursors, newest, note)
        self._writer = Writer(
            directory,
            codec,
            own.disk,
            own.sync,
            segment=found.next_segment,
            previous=(newest, stamp),
            group=found.group,
            ends=found.ends,
            roll_bytes=settings.roll_bytes,
            state=self._state,
        )
        self._room = Quota(
            directory, settings, own.disk, self._health, self._stored, self._ledger, self._writer
        )
        self.lost = () if lost is None else tuple(found.rows_of(lost, cursors.values()))
        """The rows that were stored in the segment that was given up."""
        if lost is not None and lost > newest:
            self._room.go_on_from(found.ends)

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        schema: pa.Schema,
        partitions: int,
        spool_id: str | None = None,
        settings: SpoolSettings | None = None,
        sync: SyncFactory = SyncerProcess,
        disk: Disk | None = None,
        lost: int | None = None,
    ) -> Spool:
        """Take the directory over, recover what it holds, and raise the epoch.

        Args:
            spool_id: of the spool that must be there; None: it may be a new one, which is made.
            lost: the number of a segment that is given up, for which an opening is refused as it is
                missing, or another one is in its place. None of its offsets is given out again.

        Raises:
            DataLoss: SPOOL_REPLACED when another one than ``spool_id`` is there.
            SpoolFailed: LOCKED, VERSION, CORRUPT, FULL or IO.
            InvalidOption: the directory has more partitions; CONFLICT when ``lost`` can be read. To
            fewer partitions empty ones are added.
        """
        settings = settings or SpoolSettings()
        with taking(
            directory,
            schema=schema,
            partitions=partitions,
            spool_id=spool_id,
            sync=sync,
            disk=disk or Disk(),
        ) as own:
            return cls(own, settings, Codec(schema), lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Spool {self.id} epoch {self.epoch} in {self._directory}, ends {self.ends()}>"

    # What it is

    @property
    def group(self) -> int:
        """The number of the open group: what is appended now is durable when it is."""
        return self._writer.group

    @property
    def open_bytes(self) -> int:
        """Bytes in the open group; 0 when there is nothing to flush."""
        return self._writer.open_bytes

    @property
    def bytes(self) -> int:
        """Bytes stored in segments, and in the open group."""
        return self._room.bytes

    @property
    def full(self) -> bool:
        """Over ``max_bytes``, or no space: do not append; ``trim``, and ``flush`` again later."""
        return self._room.full or self.unmarked

    @property
    def unmarked(self) -> bool:
        """A group is on the disk and is not reported, as there is no space to note that it was:
        ``pump`` again later."""
        return self._own.claim.behind

    @property
    def failed(self) -> bool:
        """Whether the disk failed; nothing becomes durable any more."""
        return self._health.failure is not None

    @property
    def forgotten(self) -> int:
        """Ranges of stored sequences let go for a bound; their repeats would be stored again."""
        return self._marks.forgotten

    def check_owner(self) -> None:
        """Return while nobody else has opened the directory. Some microseconds; thread-safe.

        Raises:
            SpoolFailed: LOCKED when somebody has, IO when the directory is not there any more.
            Nothing is written or reported from then on.
        """
        with self._health.guard():
            held = self._own.claim.held()
        if not held:
            raise self._health.fenced(self._own.claim.lost())

    # Appending

    def append(
        self,
        partition: int,
        batch: pa.RecordBatch,
        marks: Sequence[SequenceMark] = (),
        sums: Sequence[ContentSum] = (),
    ) -> tuple[int, int]:
        """Put rows into the open group; their offsets ``[first, end)``. The marks become true with
        them, and the sums of what the marks say is stored are added to those before.

        Nothing is written before ``flush``.

        Raises:
            SpoolFailed: IO after a failure.
        """
        self._check()
        if not 0 <= partition < self.partitions:
            raise ValueError(f"partition {partition} of {self.partitions}")
        if not batch.schema.equals(self.schema):
            raise ValueError(f"columns {batch.schema.names} are not those of the spool")
        offsets = self._writer.append(partition, batch, marks, sums)
        self._marks.add(marks, sums)
        return offsets

    def flush(self) -> bool:
        """Write the open group with one call and ask for its sync; true when nothing is left open.

        False: no space. The group stays open and ``full`` is true until a later flush succeeds.

        Raises:
            SpoolFailed: IO.
        """
        self._check_mine()
        size = self._writer.active.size if self._writer.active else 0
        with self._health.guard():
            started = self._writer.flush()
        if started is not None:
            self._stored.add(started)
            size = 0
        if self._writer.active is not None:
            self._room.took(self._writer.active.size - size)
        return not self._writer.open_bytes

    def fileno(self) -> int:
        """Readable when ``pump`` has something to do."""
        return self._own.sync.fileno()

    def pump(self) -> None:
        """Take the news of the disk; calls ``on_durable`` when a newer group is durable, and is
        known to be: without space to note it the report waits (``unmarked``). Never blocks on the
        disk, but for the catalog when a segment was closed.

        Raises:
            SpoolFailed: IO: the disk failed, nothing that is not durable yet ever will be. LOCKED:
            another process owns the spool.
        """
        self._check()
        with self._health.guard():
            durable = self._writer.synced()
            if durable is None or not self._own.claim.mark(durable):
                return
        self.check_owner()
        settled = self._writer.settle(durable)
        self._stored.publish(settled.ends)
        self._ledger.close_segments(settled.closed, settled.state)
        self.on_durable(settled.group)
        self._ledger.enter(settled.group, settled.durable.segment)

    def settle(self, timeout: float | None = None) -> bool:
        """Flush, then block until all that was appended is durable; false after ``timeout``
        seconds, or when there is no space.

        Raises:
            SpoolFailed: IO.
        """
        flushed = self.flush()
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._writer.unsettled:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            if not self.unmarked:
                wait_readable(self.fileno(), left)
            self.pump()
            if self.unmarked:
                return False
        return flushed

    @property
    def marks(self) -> Sequences:
        """Which numbered sequences are stored, those of the open group included. Read it, do not
        change it."""
        return self._marks

    # Cursors and space

    def cursors(self) -> dict[str, list[int | None]]:
        """What each reader is done with, per partition, exclusive; None where it does not read."""
        return self._ledger.cursors

    def commit(self, cursor: str, ends: Position) -> None:
        """A reader is done with all before ``ends``; None for a partition that it does not read,
        which holds nothing back there. Durable when this returns; never falls back.

        Raises:
            DataLoss: OFFSET_AHEAD beyond what is durable.
            InvalidOption: BAD_VALUE when the cursor reads other partitions, or would read none.
            SpoolFailed: FULL when it could not be noted (it counts for ``trim`` all the same); IO.
        """
        self._check_mine()
        self._ledger.commit(cursor, ends, self._writer.durable)

    def enter_cursor(self, cursor: str, reads: Sequence[bool]) -> None:
        """Have a cursor for these partitions: a new one begins at the present starts and is durable
        when this returns, so that nothing goes behind its reader. No effect when it exists.

        Raises:
            InvalidOption: BAD_VALUE when it exists and reads others, or would read none.
            SpoolFailed: FULL as of ``commit``; IO.
        """
        self._check_mine()
        self._ledger.enter_cursor(cursor, reads, self._writer.durable)

    def drop(self, cursor: str) -> None:
        """Forget a reader: it holds nothing back any more. Durable when this returns.

        Raises:
            SpoolFailed: FULL when it could not be noted (it is forgotten until a crash); IO.
        """
        self._check_mine()
        self._ledger.drop(cursor, self._writer.durable)

    def trim(self, now: float | None = None) -> bool:
        """Unlink the oldest segment if every cursor has passed it; true when another may follow.

        One segment a call (some milliseconds), so that the owner's loop goes on in between.

        Args:
            now: seconds since 1970, for the retention; default: the clock.

        Raises:
            SpoolFailed: IO.
        """
        self._check_mine()
        return self._room.trim(time.time() if now is None else now)

    # Damage

    def leave(self, partition: int, start: int, end: int) -> bool:
        """Before `skip` is told to anybody: whether there is something to be skipped. Then none of
        these rows will come any more: where ``end`` lies behind the end of the partition, its next
        row is numbered by it. Durable when this returns; raises as `skip`."""
        self._check_mine()
        if end > self.ends()[partition]:
            self.settle(_SETTLE_SECONDS)  # what is open may lie there
        if not self.check_unreadable(partition, start, end):
            return False
        if end > (ends := self.ends())[partition]:
            self._room.go_on_from([*ends[:partition], end, *ends[partition + 1 :]])
            self.on_durable(self._writer.durable)
        return True

    def skip(self, partition: int, start: int, end: int, reason: str) -> None:
        """Give the rows ``[start, end)`` up for good, none of which can be read: readers go on
        behind them. Durable when this returns; without effect where it is done already.

        Raises:
            DataLoss: OFFSET_AHEAD when it begins behind the end.
            InvalidOption: BAD_VALUE, CONFLICT when any of them can be read.
            SpoolFailed: FULL, IO.
        """
        if not self.leave(partition, start, end):
            return
        passed = lowest(self.cursors().values(), self.partitions)
        kept = still_needed(self.skips, self._stored.firsts, passed)
        kept.append(Skip(partition, start, end, reason[:MAX_REASON], time.time()))
        with self._health.noting():
            save_skips(self._directory, self.id, kept, self._own.disk)
        self._stored.skip(kept)
        log.warning(
            "partition %d: offsets %d to %d are given up: %s", partition, start, end, reason
        )

    # The end

    def close(self, timeout: float = 30.0) -> None:
        """Flush, wait until all is durable, close the segment, give the lock back.

        Everything is let go in any case.

        Raises:
            SpoolFailed: FULL or IO: rows that were appended but never reported durable are not
            stored.
        """
        if self._closed:
            return
        try:
            if not self.failed:
                self._finish(timeout)
        finally:
            self._closed = True
            self._writer.close()
            self._own.close()

    def abandon(self, reason: str) -> None:
        """The directory has another owner by now: touch nothing in it any more, not even to close.
        Each call that would write raises ``SpoolFailed.IO`` from now on; ``close`` lets go."""
        self._health.failure = self._health.failure or reason

    def _finish(self, timeout: float) -> None:
        open_bytes = self.open_bytes
        if not self.settle(timeout):
            left = f"{open_bytes} bytes that could not be stored"
            if self.unmarked:
                left = "groups that were not reported, as there is no space to note that"
            raise SpoolFailed(
                "FULL" if self._writer.no_space or self.unmarked else "IO",
                f"{self._directory} was closed with {left}",
                "They were not acknowledged: their producers send them again",
            )
        last = self._writer.finish()
        if last is not None:
            self._ledger.close_segments([last], self._state())
        self._ledger.enter(self._writer.durable, self._ledger.newest)
        try:
            # so the last group is not taken for a torn one where the catalog is damaged with it
            self._own.claim.note(self._ledger.durable(self._writer.durable), self._ledger.cursors)
        except OSError as error:
            log.warning("%s: the end is noted in the catalog alone: %s", self._directory, error)

    def _state(self) -> dict[str, Any]:
        """What the head of a segment says of all before it."""
        return {
            "id": self.id,
            "epoch": self.epoch,
            "partitions": self.partitions,
            "ends": list(self._writer.ends),
            "cursors": self.cursors(),
            "marks": self._marks.snapshot(),
            "sums": self._marks.sums(),
        }

    def _check(self) -> None:
        self._health.check()
        if self._closed:
            raise ValueError("the spool is closed")

    def _check_mine(self) -> None:
        """Before the directory is changed."""
        self._check()
        self.check_owner()
