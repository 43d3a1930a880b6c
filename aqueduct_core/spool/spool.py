"""The durable log of an intake: append in groups, read by range, truncate what all cursors passed."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from aqueduct_core.errors import DataLoss, InvalidOption, SpoolFailed
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.spool.catalog import Catalog
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.identity import Identity, Lock, load_identity
from aqueduct_core.spool.marks import Marks
from aqueduct_core.spool.record import Codec
from aqueduct_core.spool.recovery import load_index, recover
from aqueduct_core.spool.retention import passed, raised, removable
from aqueduct_core.spool.scan import scan
from aqueduct_core.spool.segment import segment_numbers, segment_path
from aqueduct_core.spool.settings import Mark, SpoolSettings
from aqueduct_core.spool.stored import Stored
from aqueduct_core.spool.sync import Sync, SyncerProcess, SyncFactory, wait_readable
from aqueduct_core.spool.writer import Active, Writer

log = logging.getLogger(__name__)

CATALOG = "catalog.sqlite"


def _nobody(group: int) -> None:
    pass


class Spool:
    """One directory, owned by one process; messages as rows of ``partitions`` numbered logs.

    Usage, all from the owner's thread: ``append`` … ``flush`` a group; when ``fileno()`` is readable call
    ``pump()``, which calls ``on_durable(group)`` with the newest group that is durable. Only then may its
    rows be acknowledged. ``commit`` and now and then ``trim`` give space back. ``read``, ``ends`` and
    ``starts`` may be called from any thread.

    Holds: an offset never changes its row; what was reported durable is there after any crash, together
    with its marks; unread rows are never deleted. After an I/O error nothing becomes durable again and
    every call that would write raises ``SpoolFailed.IO``.

    Ends with ``close()``, or with the process: the lock goes with it.
    """

    def __init__(
        self,
        directory: Path,
        identity: Identity,
        settings: SpoolSettings,
        lock: Lock,
        catalog: Catalog,
        sync: Sync,
        disk: Disk,
        codec: Codec,
    ) -> None:
        """Use ``open``."""
        self._directory = directory
        self._identity = identity
        self._settings = settings
        self._lock = lock
        self._catalog = catalog
        self._sync = sync
        self._disk = disk
        self._marks = Marks(settings)
        self._failure: str | None = None
        self._closed = False
        self._unsealed: list[Active] = []
        self.on_durable: Callable[[int], None] = _nobody

        found = recover(directory, identity, catalog, self._marks, disk, time.time())
        self._cursors = found.cursors
        self._newest = found.segments[-1].number if found.segments else 0
        self._state_after: dict[str, Any] | None = None
        self._stored = Stored(
            codec,
            identity.partitions,
            lambda segment: load_index(segment, catalog, identity.partitions),
        )
        for segment in found.segments:
            self._stored.add(segment)
        self._stored.publish(found.ends)
        self._writer = Writer(
            directory,
            codec,
            disk,
            sync,
            segment=found.next_segment,
            group=found.group,
            ends=found.ends,
            roll_bytes=settings.roll_bytes,
            state=self._state,
        )
        catalog.seal(
            found.scanned,
            segment=self._newest,
            group=found.group,
            ends=found.ends,
            state=self._state(),
        )
        if found.cursors:
            catalog.commit(found.cursors, segment=self._newest, group=found.group, ends=found.ends)
        self._bytes = self._stored.size

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        schema: pa.Schema,
        partitions: int,
        settings: SpoolSettings | None = None,
        sync: SyncFactory = SyncerProcess,
        disk: Disk | None = None,
    ) -> Spool:
        """Take the directory over, recover what it holds, and raise the epoch.

        Raises:
            SpoolFailed: LOCKED, VERSION, CORRUPT or IO.
            InvalidOption: the directory has another number of partitions, or other columns.
        """
        settings = settings or SpoolSettings()
        disk = disk or Disk()
        _check_schema(schema)
        if partitions < 1:
            raise InvalidOption(
                "BAD_VALUE", f"a spool of {partitions} partitions", "Give it at least 1 partition"
            )
        with _io(directory):
            directory.mkdir(parents=True, exist_ok=True)
            lock = Lock(directory)
        held: list[Callable[[], None]] = [lock.release]
        try:
            with _io(directory):
                identity = _identify(directory, schema, partitions)
                identity.save(directory, disk)
                catalog = Catalog(directory / CATALOG)
                held.append(catalog.close)
                port = sync()
                held.append(port.close)
                return cls(directory, identity, settings, lock, catalog, port, disk, Codec(schema))
        except BaseException:
            for release in reversed(held):
                release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Spool {self.id} epoch {self.epoch} in {self._directory}, ends {self.ends()}>"

    # What it is

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def id(self) -> str:
        """A UUID that never changes."""
        return self._identity.id

    @property
    def epoch(self) -> int:
        """Raised at each opening: the higher one is the owner."""
        return self._identity.epoch

    @property
    def partitions(self) -> int:
        return self._identity.partitions

    @property
    def schema(self) -> pa.Schema:
        return self._stored.codec.schema

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
        return self._bytes + self._writer.open_bytes

    @property
    def full(self) -> bool:
        """Over ``max_bytes``, or the disk has no space: do not append, ``trim`` and ``flush`` again later."""
        return self._writer.no_space or self.bytes >= self._settings.max_bytes

    @property
    def failed(self) -> bool:
        """Whether the disk failed; nothing becomes durable any more."""
        return self._failure is not None

    @property
    def forgotten(self) -> int:
        """Ranges of stored sequences let go for a bound; their repeats would be stored again."""
        return self._marks.forgotten

    # Appending

    def append(
        self, partition: int, batch: pa.RecordBatch, marks: Sequence[Mark] = ()
    ) -> tuple[int, int]:
        """Put rows into the open group; their offsets ``[first, end)``. The marks become true with them.

        Nothing is written before ``flush``.

        Raises:
            SpoolFailed: IO after a failure.
        """
        self._check()
        if not 0 <= partition < self.partitions:
            raise ValueError(f"partition {partition} of {self.partitions}")
        if not batch.schema.equals(self.schema):
            raise ValueError(f"columns {batch.schema.names} are not those of the spool")
        offsets = self._writer.append(partition, batch, marks)
        self._marks.add(marks)
        return offsets

    def flush(self) -> bool:
        """Write the open group with one call and ask for its sync; true when nothing is left open.

        False: no space. The group stays open and ``full`` is true until a later flush succeeds.

        Raises:
            SpoolFailed: IO.
        """
        self._check()
        size = self._writer.active.size if self._writer.active else 0
        with self._guard():
            started = self._writer.flush()
        if started is not None:
            self._stored.add(started)
            size = 0
        if self._writer.active is not None:
            self._bytes += self._writer.active.size - size
        return not self._writer.open_bytes

    def fileno(self) -> int:
        """Readable when ``pump`` has something to do."""
        return self._sync.fileno()

    def pump(self) -> None:
        """Take the news of the disk; calls ``on_durable`` when a newer group is durable. Never blocks
        on the disk, but for the catalog when a segment was closed.

        Raises:
            SpoolFailed: IO: the disk failed, nothing that is not durable yet ever will be.
        """
        self._check()
        with self._guard():
            settled = self._writer.settle()
        if settled is None:
            return
        self._stored.publish(settled.ends)
        moved_on = settled.started != self._newest
        self._newest = settled.started
        if settled.closed:
            self._state_after = settled.state
            for closed in settled.closed:
                self._seal_soon(closed)
        self.on_durable(settled.group)
        if moved_on or self._unsealed:
            self._enter_sealed()

    def settle(self, timeout: float | None = None) -> bool:
        """Flush, then block until all that was appended is durable; false after ``timeout`` seconds,
        or when there is no space.

        Raises:
            SpoolFailed: IO.
        """
        flushed = self.flush()
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._writer.unsettled:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            wait_readable(self.fileno(), left)
            self.pump()
        return flushed

    def seen(self, producer: str, channel: str) -> RangeSet:
        """The sequences of a producer's channel that are stored, those of the open group included.
        Read it, do not change it."""
        return self._marks.seen(producer, channel)

    # Reading, from any thread

    def ends(self) -> list[int]:
        """The durable end of each partition, exclusive."""
        return self._stored.ends

    def starts(self) -> list[int]:
        """The earliest offset of each partition that is still stored."""
        return self._stored.starts

    def read(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Exactly the rows ``[start, end)``, in order, checksums verified. The buffers lie in the mapped
        segment files and stay valid after truncation.

        Raises:
            DataLoss: RANGE_GONE or OFFSET_AHEAD.
            SpoolFailed: CORRUPT, with segment, partition and offset, when the damaged record is reached.
        """
        return self._stored.read(partition, start, end)

    # Cursors and space

    def cursors(self) -> dict[str, list[int]]:
        """What each reader is done with, per partition, exclusive."""
        return {name: list(ends) for name, ends in self._cursors.items()}

    def commit(self, cursor: str, ends: Sequence[int]) -> None:
        """A reader is done with all before ``ends``. Durable when this returns; never falls back.

        Raises:
            DataLoss: OFFSET_AHEAD beyond what is durable.
            SpoolFailed: FULL when it could not be noted (it counts for ``trim`` all the same); IO.
        """
        self._check()
        if len(ends) != self.partitions:
            raise ValueError(f"{len(ends)} ends for {self.partitions} partitions")
        durable = self._stored.ends
        for partition, (asked, end) in enumerate(zip(ends, durable, strict=True)):
            if asked > end:
                raise DataLoss(
                    "OFFSET_AHEAD",
                    f"partition {partition}: offset {asked} is committed,"
                    f" but the spool is durable up to {end}",
                    "The checkpoint is ahead of the spool: bring the spool's directory back, or start a"
                    " new query with a new checkpoint",
                )
        position = raised(self._cursors.get(cursor), ends)
        if position == self._cursors.get(cursor):
            return
        self._cursors[cursor] = position
        with self._guard():
            # all of them: one that found no space earlier is noted now
            self._catalog.commit(
                self._cursors, segment=self._newest, group=self._writer.durable, ends=durable
            )

    def drop(self, cursor: str) -> None:
        """Forget a reader: it holds nothing back any more."""
        self._check()
        if self._cursors.pop(cursor, None) is not None:
            with self._guard():
                self._catalog.drop_cursor(cursor)

    def trim(self, now: float | None = None) -> bool:
        """Unlink the oldest segment if every cursor has passed it; true when another may follow.

        One segment a call (some milliseconds), so that the owner's loop goes on in between.

        Args:
            now: seconds since 1970, for the retention; default: the clock.

        Raises:
            SpoolFailed: IO.
        """
        self._check()
        now = time.time() if now is None else now
        if self._unsealed:
            self._enter_sealed()
        if self.full:
            self._roll_if_passed()
        oldest = removable(self._stored.segments, self._cursors, now, self._settings.retention)
        if oldest is None:
            return False
        with self._guard():
            self._disk.unlink(oldest.path)
            self._disk.sync_directory(self._directory)
        self._stored.remove(oldest)
        self._bytes -= oldest.size
        try:
            self._catalog.drop_segment(oldest.number)
        except sqlite3.Error as error:
            # the next opening drops it: the file is gone
            log.warning("segment %d stays in the catalog: %s", oldest.number, error)
        return (
            removable(self._stored.segments, self._cursors, now, self._settings.retention)
            is not None
        )

    # The end

    def close(self, timeout: float = 30.0) -> None:
        """Flush, wait until all is durable, close the segment, give the lock back.

        Everything is let go in any case.

        Raises:
            SpoolFailed: FULL or IO: rows that were appended but never reported durable are not stored.
        """
        if self._closed:
            return
        try:
            if self._failure is None:
                self._finish(timeout)
        finally:
            self._closed = True
            self._writer.close()
            self._sync.close()
            self._catalog.close()
            self._lock.release()

    def _finish(self, timeout: float) -> None:
        open_bytes = self.open_bytes
        if not self.settle(timeout):
            raise SpoolFailed(
                "FULL" if self._writer.no_space else "IO",
                f"{self._directory} was closed with {open_bytes} bytes that could not be stored",
                "They were not acknowledged: their producers send them again",
            )
        last = self._writer.finish()
        if last is not None:
            self._state_after = self._state()
            self._seal_soon(last)
        self._enter_sealed()

    def _state(self) -> dict[str, Any]:
        """What the head of a segment says of all before it."""
        writer = getattr(self, "_writer", None)
        return {
            "id": self.id,
            "epoch": self.epoch,
            "partitions": self.partitions,
            "ends": list(writer.ends) if writer else self._stored.ends,
            "cursors": self.cursors(),
            "marks": self._marks.snapshot(),
        }

    def _seal_soon(self, active: Active) -> None:
        active.segment.sealed = time.time()
        self._unsealed.append(active)

    def _enter_sealed(self) -> None:
        """Enter closed segments into the catalog; without space they stay to be entered later."""
        try:
            self._catalog.seal(
                [active.segment for active in self._unsealed],
                segment=self._newest,
                group=self._writer.durable,
                ends=self._stored.ends,
                state=self._state_after,
            )
        except sqlite3.Error as error:
            if not _no_space(error):
                raise self._fail(error) from error
            log.warning("%s: no space to enter closed segments into the catalog", self._directory)
            return
        for active in self._unsealed:
            active.close()
        self._unsealed.clear()

    def _roll_if_passed(self) -> None:
        """When full, the segment in use may be what holds the space: let the next trim have it."""
        active = self._writer.active
        if active is None or not passed(active, self._cursors):
            return
        with self._guard():
            old, new = self._writer.roll()
        if old is None or new is None:
            return
        self._stored.add(new)
        self._bytes += new.size
        self._newest = new.number
        self._state_after = old.state
        self._seal_soon(old)
        self._enter_sealed()

    def _check(self) -> None:
        if self._closed and self._failure is None:
            raise ValueError("the spool is closed")
        if self._failure is not None:
            raise _io_failed(self._directory, self._failure)

    def _fail(self, error: Exception) -> SpoolFailed:
        self._failure = str(error)
        log.error(
            "the spool in %s has failed and stores nothing any more: %s", self._directory, error
        )
        return _io_failed(self._directory, self._failure)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if _no_space(error):
                raise SpoolFailed(
                    "FULL", f"{self._directory}: {error}", "Free some space on that disk"
                ) from error
            raise self._fail(error) from error
        except OSError as error:
            raise self._fail(error) from error


def _check_schema(schema: pa.Schema) -> None:
    """A dictionary would need messages of its own, which random access could not find."""

    def has_dictionary(kind: pa.DataType) -> bool:
        if pa.types.is_dictionary(kind):
            return True
        return any(has_dictionary(kind.field(i).type) for i in range(kind.num_fields))

    for column in schema:
        if has_dictionary(column.type):
            raise ValueError(f"column {column.name} is dictionary encoded")


def _identify(directory: Path, schema: pa.Schema, partitions: int) -> Identity:
    """Who this spool is now, with its epoch raised; a lost identity is found again in the segments."""
    identity = load_identity(directory)
    if identity is None:
        identity = Identity.fresh(partitions, schema)
        for number in reversed(segment_numbers(directory)):
            head = scan(segment_path(directory, number), number).head
            if head is not None:
                state = head.fields
                identity = Identity(state["id"], state["epoch"], state["partitions"], schema)
                log.warning("%s had lost its identity; it is %s", directory, identity.id)
                break
    if identity.partitions != partitions:
        raise InvalidOption(
            "CONFLICT",
            f"{directory} was made with {identity.partitions} partitions, not {partitions}",
            f"Set the partitions to {identity.partitions}, or use another directory",
        )
    if not identity.schema.equals(schema):
        raise SpoolFailed(
            "VERSION",
            f"{directory} holds the columns {identity.schema.names}, this release writes {schema.names}",
            "Read it to its end with the release that wrote it, then use another directory",
        )
    return identity.at(identity.epoch + 1)


def _no_space(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL


def _io_failed(directory: Path, reason: str) -> SpoolFailed:
    return SpoolFailed(
        "IO",
        f"the spool in {directory} has failed: {reason}",
        "Check the disk, then start the owner again: what was reported stored is kept",
    )


@contextmanager
def _io(directory: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise _io_failed(directory, str(error)) from error
