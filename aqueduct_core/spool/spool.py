"""The durable log of an intake: append in groups, read by range, truncate what is read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import pyarrow as pa

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.format.record import Codec
from aqueduct_core.spool.format.sequences import Sequences
from aqueduct_core.spool.format.settings import ContentSum, SequenceMark, SpoolSettings
from aqueduct_core.spool.opening import OpenedParts, opened
from aqueduct_core.spool.ownership import Ownership, acquired
from aqueduct_core.spool.readable import Readable
from aqueduct_core.spool.retention import LogPositions, lowest
from aqueduct_core.spool.skips import MAX_REASON, Skip, save_skips, still_needed
from aqueduct_core.spool.sync import SyncerProcess, SyncFactory, wait_readable

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

    def __init__(self, own: Ownership, parts: OpenedParts) -> None:
        """Use ``open``."""
        self.on_durable: Callable[[int], None] = lambda group: None
        self.lost = parts.lost
        """The rows that were stored in the segment that was given up."""
        self._own = own
        self._directory = own.directory
        self._identity = own.identity
        self._health = parts.health
        self._sequences = parts.sequences
        self._segments = parts.segments
        self._cursors = parts.cursors
        self._writer = parts.writer
        self._quota = parts.quota
        self._closed = False

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
        with acquired(
            directory,
            schema=schema,
            partitions=partitions,
            spool_id=spool_id,
            sync=sync,
            disk=disk or Disk(),
        ) as own:
            return cls(own, opened(own, settings, Codec(schema), lost))

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
        return self._quota.bytes

    @property
    def full(self) -> bool:
        """Over ``max_bytes``, or no space: do not append; ``trim``, and ``flush`` again later."""
        return self._quota.full or self.unreported

    @property
    def no_space(self) -> bool:
        """The disk has no space for what came last; what came before is stored."""
        return self._writer.no_space or self.unreported

    @property
    def unreported(self) -> bool:
        """A group is on the disk and is not reported, as there is no space to note that it was:
        ``pump`` again later."""
        return self._own.claim.behind

    @property
    def failed(self) -> bool:
        """Whether the disk failed; nothing becomes durable any more."""
        return self._health.failure is not None

    @property
    def forgotten(self) -> int:
        """Ranges of stored numbers let go for a bound; their repeats would be stored again."""
        return self._sequences.forgotten

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
        self._sequences.add(marks, sums)
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
            self._segments.add(started)
            size = 0
        if self._writer.active is not None:
            self._quota.add(self._writer.active.size - size)
        return not self._writer.open_bytes

    def fileno(self) -> int:
        """Readable when ``pump`` has something to do."""
        return self._own.sync.fileno()

    def pump(self) -> None:
        """Take the news of the disk; calls ``on_durable`` when a newer group is durable, and is
        known to be: without space to note it the report waits (``unreported``). Never blocks on the
        disk, but for the catalog when a segment was closed.

        Raises:
            SpoolFailed: IO: the disk failed, nothing that is not durable yet ever will be. LOCKED:
            another process owns the spool.
        """
        self._check()
        with self._health.guard():
            durable = self._writer.synced()
            if durable is None or not self._own.claim.advance(durable):
                return
        self.check_owner()
        settled = self._writer.settle(durable)
        self._segments.publish(settled.ends)
        self._cursors.close_segments(settled.closed, settled.state)
        self.on_durable(settled.group)
        self._cursors.save_segments(settled.group, settled.durable.segment)

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
            if not self.unreported:
                wait_readable(self.fileno(), left)
            self.pump()
            if self.unreported:
                return False
        return flushed

    @property
    def sequences(self) -> Sequences:
        """Which numbers of each track are stored, those of the open group included. Read it, do
        not change it."""
        return self._sequences

    # Cursors and space

    def cursors(self) -> dict[str, list[int | None]]:
        """What each reader is done with, per partition, exclusive; None where it does not read."""
        return self._cursors.positions

    def commit(self, cursor: str, ends: LogPositions) -> None:
        """A reader is done with all before ``ends``; None for a partition that it does not read,
        which holds nothing back there. Durable when this returns; never falls back.

        Raises:
            DataLoss: OFFSET_AHEAD beyond what is durable.
            InvalidOption: BAD_VALUE when the cursor reads other partitions, or would read none.
            SpoolFailed: FULL when it could not be noted (it counts for ``trim`` all the same); IO.
        """
        self._check_mine()
        self._cursors.commit(cursor, ends, self._writer.durable)

    def enter_cursor(self, cursor: str, reads: Sequence[bool]) -> None:
        """Have a cursor for these partitions: a new one begins at the present starts and is durable
        when this returns, so that nothing goes behind its reader. No effect when it exists.

        Raises:
            InvalidOption: BAD_VALUE when it exists and reads others, or would read none.
            SpoolFailed: FULL as of ``commit``; IO.
        """
        self._check_mine()
        self._cursors.enter_cursor(cursor, reads, self._writer.durable)

    def lower(self, cursor: str, ends: LogPositions) -> None:
        """Have a reader fall back to ``ends`` where it is beyond: from there on it holds back again
        what is still stored. The catalog has it when this returns; where that is lost, the cursor
        may be where it was.

        Raises:
            KeyError: there is no such cursor.
            SpoolFailed: FULL when it could not be noted (it counts for ``trim`` all the same); IO.
        """
        self._check_mine()
        self._cursors.lower(cursor, ends, self._writer.durable)

    def drop(self, cursor: str) -> None:
        """Forget a reader: it holds nothing back any more. Durable when this returns.

        Raises:
            SpoolFailed: FULL when it could not be noted (it is forgotten until a crash); IO.
        """
        self._check_mine()
        self._cursors.drop(cursor, self._writer.durable)

    def trim(self, now: float | None = None) -> bool:
        """Unlink the oldest segment if every cursor has passed it; true when another may follow.

        One segment a call (some milliseconds), so that the owner's loop goes on in between.

        Args:
            now: seconds since 1970, for the retention; default: the clock.

        Raises:
            SpoolFailed: IO.
        """
        self._check_mine()
        return self._quota.trim(time.time() if now is None else now)

    # Damage

    def prepare_skip(self, partition: int, start: int, end: int) -> bool:
        """Before anybody hears of a skip: whether there is something to be skipped. Then none of
        these rows will come any more: where ``end`` lies behind the end of the partition, its next
        row is numbered by it. Durable when this returns; raises as `skip`."""
        self._check_mine()
        if end > self.ends()[partition]:
            self.settle(_SETTLE_SECONDS)  # what is open may lie there
        if not self.check_unreadable(partition, start, end):
            return False
        if end > (ends := self.ends())[partition]:
            self._quota.continue_from([*ends[:partition], end, *ends[partition + 1 :]])
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
        if not self.prepare_skip(partition, start, end):
            return
        passed = lowest(self.cursors().values(), self.partitions)
        skips = still_needed(self.skips, self._segments.firsts, passed)
        skips.append(Skip(partition, start, end, reason[:MAX_REASON], time.time()))
        with self._health.noting():
            save_skips(self._directory, self.id, skips, self._own.disk)
        self._segments.skip(skips)
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
            if self.unreported:
                left = "groups that were not reported, as there is no space to note that"
            raise SpoolFailed(
                "FULL" if self._writer.no_space or self.unreported else "IO",
                f"{self._directory} was closed with {left}",
                "They were not acknowledged: their producers send them again",
            )
        if (last := self._writer.finish()) is not None:
            self._cursors.close_segments([last[0]], last[1])
        self._cursors.save_segments(self._writer.durable, self._cursors.newest)
        try:
            # so the last group is not taken for a torn one where the catalog is damaged with it
            self._own.claim.note(
                self._cursors.durable(self._writer.durable), self._cursors.positions
            )
        except OSError as error:
            log.warning("%s: the end is noted in the catalog alone: %s", self._directory, error)

    def _check(self) -> None:
        self._health.check()
        if self._closed:
            raise ValueError("the spool is closed")

    def _check_mine(self) -> None:
        """Before the directory is changed."""
        self._check()
        self.check_owner()
