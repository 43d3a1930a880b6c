"""The appending side of a spool on object storage: the open group, those in flight, and what
follows the floor of the manifest. Used by one thread, but for `durable_tail` and `sealable`."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from aqueduct_core.primitives.backoff import Backoff
from aqueduct_core.spool.format.record import Codec
from aqueduct_core.spool.format.sequences import Sequences
from aqueduct_core.spool.format.settings import ContentSum, SequenceMark, SpoolSettings
from aqueduct_core.spool.objects.compaction import SealedRange
from aqueduct_core.spool.objects.group import GroupDraft, LogObject
from aqueduct_core.spool.objects.manifest import Manifest
from aqueduct_core.spool.objects.store import ObjectStore
from aqueduct_core.spool.objects.takeover import TakenOver, TakeoverRequest
from aqueduct_core.spool.objects.uploads import Uploads
from aqueduct_core.spool.objects.writing import LogWriter

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 5.0
"""Seconds before a group is tried again."""


@dataclass(frozen=True, slots=True)
class ObjectSettings:
    """Bounds of a spool on object storage, each with its reason.

    window: groups in flight: with 100 ms a request and groups of 20 ms, 5 keep up with time.
    buffer_bytes: of groups in flight and the open one; beyond it the spool is ``full``.
    seal_groups, seal_bytes: at which what follows the floor becomes a segment; bounds what a
        successor has to read.
    stall_after: seconds that a group may take; then the spool is ``full`` until it is stored.
    deadline: seconds for a change of the manifest, or a read; then it fails.
    """

    window: int = 8
    buffer_bytes: int = 64 << 20
    seal_groups: int = 256
    seal_bytes: int = 64 << 20
    stall_after: float = 30.0
    deadline: float = 30.0


@dataclass(frozen=True, slots=True)
class SealPoint:
    """Before ``floor``, with the offsets and the state there: a range may end here."""

    floor: int
    ends: tuple[int, ...]
    state: dict[str, Any]


class ObjectAppender:
    """Numbers rows, encodes groups and sends them on their way.

    Holds: a group is sent as it was when there was room for it; a seal point has the state of
    exactly the groups before it.
    """

    def __init__(
        self,
        store: ObjectStore,
        request: TakeoverRequest,
        taken: TakenOver,
        settings: SpoolSettings,
        bounds: ObjectSettings,
        clock: Callable[[], float],
    ) -> None:
        self._bounds = bounds
        self._codec: Codec = request.codec
        self._life = request.life
        self._clock = clock
        self.sequences = Sequences(settings)
        if taken.state is not None:
            self.sequences.load(taken.state["marks"], taken.state["sums"])
        for each in taken.objects:
            for record in each.records:
                self.sequences.add(record.marks, record.sums)
        self.writer = LogWriter(
            request.names,
            request.life,
            taken.sequence,
            bounds.window,
            lambda: Backoff(_FIRST_WAIT, _LONGEST_WAIT, random.random),
        )
        self._next = list(taken.ends)
        self._in_flight: deque[tuple[LogObject, tuple[int, ...]]] = deque()
        self.durable_tail = taken.objects, taken.ends
        """What stands from the floor on, as far as it is durable, and the ends behind it."""
        self._seal_points: deque[SealPoint] = deque()
        self._unsealed, self._unsealed_bytes = len(taken.objects), _size(taken.objects)
        self._open = self._draft()
        self._wanted = False
        self._note_seal_point()
        self.uploads = Uploads(store, bounds.window)

    @property
    def group(self) -> int:
        """The number of the open group."""
        return self._open.sequence

    @property
    def open_bytes(self) -> int:
        return self._open.size

    @property
    def buffered(self) -> int:
        """Bytes that wait for the store, or for room in the window."""
        return self.writer.buffered + self._open.size

    @property
    def unsettled(self) -> bool:
        """Whether anything that was flushed is not durable."""
        return bool(self.writer.in_flight) or self._wanted

    @property
    def waited(self) -> float:
        """Seconds since the oldest group in flight was sent."""
        return self.writer.waited(self._clock())

    def append(
        self,
        partition: int,
        batch: pa.RecordBatch,
        marks: Sequence[SequenceMark],
        sums: Sequence[ContentSum],
    ) -> tuple[int, int]:
        """Put a batch into the open group; its offsets."""
        first = self._next[partition]
        self._open.add(partition, batch, first, marks, sums)
        self._next[partition] = first + batch.num_rows
        self.sequences.add(marks, sums)
        return first, self._next[partition]

    def flush(self) -> None:
        """Send the open group as soon as there is room."""
        self._wanted = self._wanted or bool(self._open.size)
        self._send()

    def collect(self) -> bool:
        """Take the news of the store; whether more is durable."""
        before = self.writer.reported
        now = self._clock()
        for number, outcome in self.uploads.ended():
            self.writer.handle(number, outcome, now)
        advanced = self.writer.reported > before
        if advanced:
            objects, ends = self.durable_tail
            more = []
            while self._in_flight and self._in_flight[0][0].sequence <= self.writer.reported:
                each, ends = self._in_flight.popleft()
                more.append(each)
            self.durable_tail = (*objects, *more), ends
        self._send()
        return advanced

    def forget_sealed(self, floor: int) -> None:
        """What is below is in segments."""
        objects, ends = self.durable_tail
        if objects and objects[0].sequence < floor:
            self.durable_tail = tuple(each for each in objects if each.sequence >= floor), ends
        while self._seal_points and self._seal_points[0].floor <= floor:
            self._seal_points.popleft()

    def sealable(self, manifest: Manifest) -> SealedRange | None:
        """What may become a segment now. Any thread may ask: what it looks at is replaced, or read,
        at once, and what is durable stays so."""
        for point in tuple(self._seal_points):
            reported = self.writer.reported
            objects, _ = self.durable_tail
            if not objects or objects[-1].sequence < point.floor - 1:
                continue  # is reported, and not published yet
            if manifest.floor < point.floor <= reported + 1:
                found = (e for e in objects if manifest.floor <= e.sequence < point.floor)
                return SealedRange(
                    tuple(found),
                    point.floor,
                    self._bounds.window,
                    tuple(manifest.ends),
                    point.ends,
                    point.state,
                )
        return None

    def _send(self) -> None:
        writer = self.writer
        now = self._clock()
        if self._wanted and writer.room:
            writer.begin(self._open.data(), now)
            self._in_flight.append((self._open.finished(), tuple(self._next)))
            self._unsealed += 1
            self._unsealed_bytes += self._open.size
            self._open = self._draft()
            self._wanted = False
            self._note_seal_point()
        for number, operation in writer.operations(now):
            self.uploads.submit(number, operation)
        wake = writer.wake_at()
        if wake is not None:
            self.uploads.wake(wake)

    def _draft(self) -> GroupDraft:
        writer = self.writer
        return GroupDraft(self._codec, writer.sequence, self._life, writer.reported)

    def _note_seal_point(self) -> None:
        """Nothing is in the open group: the state is that of what was sent."""
        bounds = self._bounds
        if self._unsealed < bounds.seal_groups and self._unsealed_bytes < bounds.seal_bytes:
            return
        state = {"marks": self.sequences.snapshot(), "sums": self.sequences.sums()}
        self._seal_points.append(SealPoint(self.writer.sequence, tuple(self._next), state))
        self._unsealed = self._unsealed_bytes = 0


def _size(objects: Sequence[LogObject]) -> int:
    return sum(each.size for each in objects)
