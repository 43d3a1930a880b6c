"""The durable log of an intake on object storage: append in groups, read by range, truncate."""

from __future__ import annotations

import logging
import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Self

import pyarrow as pa

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.format.record import Codec
from aqueduct_core.spool.format.sequences import Sequences
from aqueduct_core.spool.format.settings import ContentSum, SequenceMark, SpoolSettings
from aqueduct_core.spool.losses import offset_ahead
from aqueduct_core.spool.objects.appending import ObjectAppender, ObjectSettings
from aqueduct_core.spool.objects.manifest import Manifest, SegmentEntry
from aqueduct_core.spool.objects.names import ObjectNames
from aqueduct_core.spool.objects.owner import Change, ManifestOwner
from aqueduct_core.spool.objects.reading import LogView, ObjectIndex, ObjectLocation
from aqueduct_core.spool.objects.rows import SpoolRows
from aqueduct_core.spool.objects.store import ObjectStore, Steps
from aqueduct_core.spool.objects.takeover import TakenOver, TakeoverRequest, take_over
from aqueduct_core.spool.objects.workers import Maintenance, StepRunner
from aqueduct_core.spool.ownership import check_schema
from aqueduct_core.spool.retention import LogPositions, check_reads, lowered, raised
from aqueduct_core.spool.sync import wait_readable

log = logging.getLogger(__name__)


class ObjectSpool:
    """One prefix of an object store, owned by whoever took it over last; the same promises as
    `aqueduct_core.spool.Spool`, and the same way to use it.

    `flush` never waits for the store: while `window` groups are in flight, the open one grows until
    there is room. Changes of cursors wait for the store. What takes long (sealing, trimming) is
    done by a thread.
    """

    def __init__(
        self,
        store: ObjectStore,
        request: TakeoverRequest,
        taken: TakenOver,
        runner: StepRunner,
        settings: SpoolSettings,
        bounds: ObjectSettings,
        place: str,
    ) -> None:
        """Use `open`."""
        self.on_durable: Callable[[int], None] = lambda group: None
        self._settings = settings
        self._bounds = bounds
        self._runner = runner
        self._place = place
        self._codec = request.codec
        self._log = ObjectAppender(store, request, taken, settings, bounds, time.monotonic)
        self._owner = ManifestOwner(
            request.names,
            Codec(request.codec.schema),  # another one: the thread encodes, as the appender does
            taken.manifest,
            taken.tag,
            request.nonce,
        )
        self._owner.note = self._note
        self._cursors = {name: list(ends) for name, ends in taken.manifest.cursors.items()}
        self._failure: SpoolFailed | None = None
        self._closed = False
        self._rows = SpoolRows(
            ObjectIndex(request.names, place), request.codec, self.view, runner.run, place
        )
        self._maintenance = Maintenance(runner, self._log.uploads.notify)
        self._maintenance.submit("sweep", self._owner.sweep)
        self._seal()

    @classmethod
    def open(
        cls,
        store: ObjectStore,
        *,
        schema: pa.Schema,
        partitions: int,
        prefix: str = "",
        spool_id: str | None = None,
        settings: SpoolSettings | None = None,
        bounds: ObjectSettings | None = None,
        place: str = "the object store",
    ) -> ObjectSpool:
        """Take the spool over, whoever owned it, and recover what it holds.

        Args:
            prefix: of its keys; empty, or ends with a slash.
            spool_id: of the spool that must be there; None: it may be a new one, which is made.
            place: what users call it.

        Raises:
            DataLoss: SPOOL_REPLACED.
            SpoolFailed: LOCKED when somebody else takes it over at this time; VERSION, CORRUPT,
            FORBIDDEN, or IO when the store does not answer in time.
            InvalidOption: BAD_VALUE, CONFLICT.
        """
        check_schema(schema)
        bounds = bounds or ObjectSettings()
        request = TakeoverRequest(
            *(ObjectNames(prefix), Codec(schema), partitions, secrets.token_hex(8)),
            *(bounds.window, str(uuid.uuid4())),
            nonce=lambda: secrets.token_hex(8),
            spool=spool_id,
        )
        runner = StepRunner(store, bounds.deadline, place)
        try:
            taken = runner.run(take_over(request))
            return cls(store, request, taken, runner, settings or SpoolSettings(), bounds, place)
        except BaseException:
            runner.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ObjectSpool {self.id} epoch {self.epoch} in {self._place}, ends {self.ends()}>"

    # What it is

    @property
    def id(self) -> str:
        """A UUID that never changes."""
        return self._owner.manifest.spool

    @property
    def epoch(self) -> int:
        return self._owner.manifest.epoch

    @property
    def partitions(self) -> int:
        return self._owner.manifest.partitions

    @property
    def schema(self) -> pa.Schema:
        return self._codec.schema

    @property
    def group(self) -> int:
        """The number of the open group: what is appended now is durable when it is."""
        return self._log.group

    @property
    def open_bytes(self) -> int:
        return self._log.open_bytes

    @property
    def bytes(self) -> int:
        """Bytes stored, and in the open group."""
        stored = sum(each.size for each in self.view().objects)
        return self._owner.manifest.size + stored + self._log.buffered

    @property
    def full(self) -> bool:
        """Over ``max_bytes``, or the store is too slow or refuses: do not append."""
        return self.stalled or self.bytes >= self._settings.max_bytes

    @property
    def stalled(self) -> bool:
        """The store does not take what comes: too much waits for it, or something for too long."""
        log = self._log
        return log.buffered >= self._bounds.buffer_bytes or log.waited > self._bounds.stall_after

    @property
    def failed(self) -> bool:
        return self._failure is not None

    @property
    def forgotten(self) -> int:
        return self._log.sequences.forgotten

    @property
    def sequences(self) -> Sequences:
        """Those of the open group included. Read it, do not change it."""
        return self._log.sequences

    def check_owner(self) -> None:
        """Return while no other owner is known of. Asks nobody: of what another owner fences, the
        store takes nothing.

        Raises:
            SpoolFailed: LOCKED.
        """
        self._check()

    # Appending

    def append(
        self,
        partition: int,
        batch: pa.RecordBatch,
        marks: Sequence[SequenceMark] = (),
        sums: Sequence[ContentSum] = (),
    ) -> tuple[int, int]:
        """Put rows into the open group; their offsets ``[first, end)``.

        Raises:
            SpoolFailed: LOCKED and others after a failure.
        """
        self._check()
        if not 0 <= partition < self.partitions:
            raise ValueError(f"partition {partition} of {self.partitions}")
        if not batch.schema.equals(self.schema):
            raise ValueError(f"columns {batch.schema.names} are not those of the spool")
        return self._log.append(partition, batch, marks, sums)

    def flush(self) -> bool:
        """Send the open group on its way, now or as soon as there is room in the window; true when
        that is so.

        Raises:
            SpoolFailed: after a failure.
        """
        self._check()
        self._log.flush()
        return True

    def fileno(self) -> int:
        """Readable when `pump` has something to do."""
        return self._log.uploads.fileno()

    def pump(self) -> None:
        """Take the news of the store; calls ``on_durable`` when a newer group is durable. Never
        blocks.

        Raises:
            SpoolFailed: LOCKED: another owner has come; FORBIDDEN, CORRUPT of the maintenance.
        """
        self._check()
        advanced = self._log.collect()
        if self._log.writer.fenced:
            raise self._fail(SpoolFailed("LOCKED", f"{self._place} has a later owner", _REMEDY))
        if self._maintenance.failure is not None:
            raise self._fail(self._maintenance.failure)
        if advanced:
            self._seal()
            self.on_durable(self._log.writer.reported)

    def settle(self, timeout: float | None = None) -> bool:
        """Flush, then block until all that was appended is durable; false after ``timeout``
        seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self.flush()
        while self._log.unsettled:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            wait_readable(self.fileno(), left)
            self.pump()
        return True

    # Cursors and space

    def cursors(self) -> dict[str, list[int | None]]:
        """What each reader is done with, per partition, exclusive; None where it does not read."""
        return {name: list(ends) for name, ends in self._cursors.items()}

    def commit(self, cursor: str, ends: LogPositions) -> None:
        """A reader is done with all before ``ends``. Durable when this returns; never falls back.

        Raises:
            DataLoss: OFFSET_AHEAD.
            InvalidOption: BAD_VALUE when the cursor reads other partitions, or would read none.
            SpoolFailed: LOCKED; IO when the store does not answer in time: it may be noted later.
        """
        self._check()
        if len(ends) != self.partitions:
            raise ValueError(f"{len(ends)} ends for {self.partitions} partitions")
        old = self._cursors.get(cursor)
        check_reads(cursor, [end is not None for end in ends], old)
        for partition, (asked, end) in enumerate(zip(ends, self.ends(), strict=True)):
            if asked is not None and asked > end:
                raise offset_ahead(self._place, partition, asked, end)
        position = raised(old, ends)
        if position != old or self._owner.manifest.cursors.get(cursor) != tuple(position):
            self._place_cursor(cursor, position)

    def enter_cursor(self, cursor: str, reads: Sequence[bool]) -> None:
        """Have a cursor for these partitions: a new one begins at the present starts. Durable when
        this returns; no effect when it exists.

        Raises:
            InvalidOption: BAD_VALUE. SpoolFailed: as of `commit`.
        """
        if len(reads) != self.partitions:
            raise ValueError(f"{len(reads)} partitions of {self.partitions}")
        old = self._cursors.get(cursor)
        check_reads(cursor, reads, old)
        starts = zip(self.starts(), reads, strict=True)
        self.commit(cursor, old or [at if read else None for at, read in starts])

    def lower(self, cursor: str, ends: LogPositions) -> None:
        """Have a reader fall back to ``ends`` where it is beyond.

        Raises: KeyError: there is no such cursor; as of `commit`.
        """
        self._check()
        position = lowered(self._cursors[cursor], ends)
        if position != self._cursors[cursor]:
            self._place_cursor(cursor, position)

    def drop(self, cursor: str) -> None:
        """Forget a reader: it holds nothing back any more. Durable when this returns.

        Raises: as of `commit`.
        """
        self._check()
        if self._cursors.pop(cursor, None) is not None:
            self._change(lambda manifest: replace(manifest, cursors=_without(manifest, cursor)))

    def trim(self, now: float | None = None) -> bool:
        """Have the thread delete the segments that every cursor has passed. False: nothing is to
        be asked again at once.
        """
        self._check()
        now = time.time() if now is None else now
        before = now - (0.0 if self.full else self._settings.retention)
        cursors, owed = self.cursors(), self._settings.owed_partitions
        if cursors:
            self._maintenance.submit("trim", lambda: self._owner.trim(cursors, owed, before))
        return False

    def finish_maintenance(self, timeout: float | None = None) -> bool:
        """Wait until the thread has nothing to do; false after ``timeout`` seconds."""
        return self._maintenance.wait(timeout)

    # Reading: any thread

    def view(self) -> LogView:
        """The durable part, as it is now."""
        objects, ends = self._log.durable_tail
        manifest = self._owner.manifest
        return LogView(manifest, tuple(e for e in objects if e.sequence >= manifest.floor), ends)

    def ends(self) -> list[int]:
        """The durable end of each partition, exclusive."""
        return list(self._log.durable_tail[1])

    def starts(self) -> list[int]:
        """The earliest offset of each partition that is still stored."""
        return self.view().starts

    @property
    def segments(self) -> tuple[SegmentEntry, ...]:
        """The newest ones, oldest first; older ones stand in pages."""
        return self._owner.manifest.segments

    def read(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Exactly the rows ``[start, end)``, in order, checksums verified.

        Raises:
            DataLoss: RANGE_GONE or OFFSET_AHEAD. SpoolFailed: CORRUPT, FORBIDDEN, IO.
        """
        return self._rows.read(partition, start, end)

    def locations(self, partition: int, start: int, end: int) -> list[ObjectLocation]:
        """Where the rows ``[start, end)`` lie, for another process. What is not in a segment may
        become part of one, and is then found in the manifest.

        Raises: as of `read`.
        """
        return self._rows.locations(partition, start, end)

    # The end

    def close(self, timeout: float = 30.0) -> None:
        """Flush, wait until all is durable, let go of everything.

        Raises:
            SpoolFailed: IO: rows that were appended but never reported durable may not be stored.
        """
        if self._closed:
            return
        try:
            if not self.failed and not self.settle(timeout):
                raise SpoolFailed(
                    "IO",
                    f"{self._place} was closed with groups that the store has not taken",
                    "They were not acknowledged: their producers send them again",
                )
        finally:
            self._closed = True
            self._maintenance.close()
            self._log.uploads.close()
            self._runner.close()

    def abandon(self, reason: str) -> None:
        """Another owner has come: store nothing any more, not even to close."""
        self._failure = self._failure or SpoolFailed("LOCKED", reason, _REMEDY)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise ValueError("the spool is closed")

    def _fail(self, error: SpoolFailed) -> SpoolFailed:
        log.error("%s", error.what)
        self._failure = error
        return error

    def _note(self, manifest: Manifest) -> Manifest:
        return replace(manifest, durable=max(manifest.durable, self._log.writer.reported))

    def _place_cursor(self, cursor: str, position: list[int | None]) -> None:
        self._cursors[cursor] = position
        ends = tuple(position)
        self._change(lambda manifest: replace(manifest, cursors={**manifest.cursors, cursor: ends}))

    def _change(self, change: Change) -> None:
        try:
            self._runner.run(self._owner.change(change))
        except SpoolFailed as error:
            if error.subclass == "LOCKED":
                self._fail(error)
            raise

    def _seal(self) -> None:
        """Have the thread make a segment of what is due."""
        manifest = self._owner.manifest
        self._log.forget_sealed(manifest.floor)
        if self._log.sealable(manifest) is not None:
            self._maintenance.submit("seal", self._sealing)

    def _sealing(self) -> Steps[None]:
        while (due := self._log.sealable(self._owner.manifest)) is not None:
            yield from self._owner.seal(due, time.time())


_REMEDY = "Nothing more is stored or acked here: use the later owner, or stop it"


def _without(manifest: Manifest, cursor: str) -> dict[str, tuple[int | None, ...]]:
    return {name: ends for name, ends in manifest.cursors.items() if name != cursor}
