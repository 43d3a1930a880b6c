"""The appending side of a spool: the open group, and the segment it goes to."""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.format.durable import Durable
from aqueduct_core.spool.format.record import Codec, RecordBatchDraft
from aqueduct_core.spool.format.segment import Segment, segment_path
from aqueduct_core.spool.format.settings import ContentSum, SequenceMark
from aqueduct_core.spool.health import NO_SPACE
from aqueduct_core.spool.sync import Sync

_SMALL = 1024 * 1024

HeadState = dict[str, Any]


@dataclass(slots=True)
class ActiveSegment:
    """The segment that is written to. Its file is made when its first group is written."""

    segment: Segment
    head: list[bytes | memoryview]
    head_size: int
    state: HeadState
    limit: int
    fd: int = -1
    last_group: int = 0

    @property
    def next_position(self) -> int:
        return self.segment.size or self.head_size

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@dataclass(slots=True)
class RecordGroup:
    """Records that are written together and become durable together, or not at all."""

    number: int
    drafts: list[RecordBatchDraft] = field(default_factory=list)
    entries: list[tuple[int, int, int, int]] = field(default_factory=list)
    size: int = 0


class Settled:
    """What became durable, the segments that are now closed, and the ``state`` after the last of
    them."""

    __slots__ = ("closed", "durable", "state")

    def __init__(self, durable: Durable) -> None:
        self.durable = durable
        self.closed: list[ActiveSegment] = []
        self.state: HeadState | None = None

    @property
    def group(self) -> int:
        return self.durable.group

    @property
    def ends(self) -> Sequence[int]:
        return self.durable.ends


class Writer:
    """Numbers rows, encodes them, writes groups and asks for their sync. Used by one thread.

    Holds: what is written is written in order; a group that could not be written whole is undone
    and stays open. ``ends`` are the next offsets, counting the open group.
    """

    def __init__(
        self,
        directory: Path,
        codec: Codec,
        disk: Disk,
        sync: Sync,
        *,
        segment: int,
        previous: tuple[int, str],
        group: int,
        ends: Sequence[int],
        roll_bytes: int,
        state: Callable[[Sequence[int]], HeadState],
    ) -> None:
        self._directory = directory
        self._codec = codec
        self._disk = disk
        self._sync = sync
        self._next_segment = segment
        self._previous = previous
        self._roll_bytes = roll_bytes
        self._state = state
        self._open = RecordGroup(group + 1)
        self._active: ActiveSegment | None = None
        self._closing: deque[ActiveSegment] = deque()
        self._in_flight: deque[Durable] = deque()
        self._directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.ends = list(ends)
        self.durable = group
        self.no_space = False

    @property
    def group(self) -> int:
        """The number of the open group."""
        return self._open.number

    @property
    def open_bytes(self) -> int:
        return self._open.size

    @property
    def unsettled(self) -> bool:
        """Whether written groups wait for the disk."""
        return bool(self._in_flight)

    @property
    def active(self) -> Segment | None:
        return self._active.segment if self._active else None

    def append(
        self,
        partition: int,
        batch: pa.RecordBatch,
        marks: Sequence[SequenceMark],
        sums: Sequence[ContentSum],
    ) -> tuple[int, int]:
        """Put a batch into the open group; its offsets. Nothing is written yet."""
        group = self._open
        active = self._active
        if active is None or (not group.drafts and active.segment.size >= active.limit):
            active = self._begin_segment()
        at = active.next_position + group.size
        first = self.ends[partition]
        stop = first + batch.num_rows
        draft = self._codec.rows(
            batch,
            segment=active.segment.number,
            stamp=active.segment.stamp,
            at=at,
            group=group.number,
            durable=self.durable,
            part=len(group.drafts),
            partition=partition,
            first=first,
            marks=marks,
            sums=sums,
        )
        group.drafts.append(draft)
        group.entries.append((partition, first, stop, at))
        group.size += draft.size
        self.ends[partition] = stop
        return first, stop

    def flush(self) -> Segment | None:
        """Write the open group and ask for its sync; the segment when it was started by this.

        When there is no space the group stays open and ``no_space`` is set until a flush succeeds.

        Raises:
            OSError: the disk failed otherwise.
        """
        group, active = self._open, self._active
        if not group.drafts or active is None:
            return None
        pieces = [
            piece
            for i, draft in enumerate(group.drafts)
            for piece in draft.pieces(last=i == len(group.drafts) - 1)
        ]
        fresh = not active.segment.size
        if not self._write(active, pieces):
            return None
        active.segment.add(group.entries, active.next_position + group.size)
        active.last_group = group.number
        if fresh:
            self._sync.start(active.fd, self._directory_fd)
        segment = active.segment
        self._in_flight.append(
            Durable(segment.number, group.number, tuple(self.ends), segment.stamp)
        )
        self._sync.request(group.number)
        self._open = RecordGroup(group.number + 1)
        return active.segment if fresh else None

    def synced(self) -> Durable | None:
        """The newest group that is on the disk and not settled yet. None: there is no newer one.

        Raises:
            OSError: the disk failed.
        """
        group = self._sync.answered()
        return max((each for each in self._in_flight if each.group <= group), default=None)

    def settle(self, durable: Durable) -> Settled:
        """What was ``synced`` is durable from now on, with all before it."""
        while self._in_flight and self._in_flight[0].group <= durable.group:
            self._in_flight.popleft()
        settled = Settled(durable)
        self.durable = durable.group
        while self._closing and self._closing[0].last_group <= self.durable:
            closed = self._closing.popleft()
            settled.closed.append(closed)
            newer = self._closing[0] if self._closing else self._active
            settled.state = newer.state if newer else None
        return settled

    def roll(
        self, ends: Sequence[int] | None = None
    ) -> tuple[ActiveSegment | None, ActiveSegment | None]:
        """Start a segment without rows, durable at once, so that the present one can go; or so
        that rows are numbered from ``ends`` on, which lie behind the present ones.

        Only with no open and no unsettled group. Gives the closed segment, if there is one, and the
        new one; neither when there is nothing to close or no space.
        """
        old, before = self._active, self.ends
        if self._open.drafts or self._in_flight or (ends is None and old is None):
            return None, None
        if ends is not None:
            self.ends = list(ends)
        fresh = self._begin_segment()
        if old is not None:
            self._closing.pop()
        if not self._write(fresh, []):
            if fresh.fd >= 0:
                # the next try makes it anew
                fresh.close()
                self._disk.unlink(fresh.segment.path)
            self._active = old
            self._next_segment -= 1
            self.ends = before
            return None, None
        fresh.segment.add((), fresh.head_size)
        self._disk.sync(fresh.fd)
        self._disk.sync_directory(self._directory)
        self._sync.start(fresh.fd, self._directory_fd)
        return old, fresh

    def finish(self) -> tuple[ActiveSegment, HeadState] | None:
        """Close the present segment for good, once all is settled: the segment, if there is one,
        and the state after it."""
        active, self._active = self._active, None
        if active is None or not active.segment.size:
            return None
        return active, self._state(self.ends)

    def close(self) -> None:
        """Let go of the files."""
        active = [self._active] if self._active else []
        for each in (*self._closing, *active):
            each.close()
        os.close(self._directory_fd)

    def _begin_segment(self) -> ActiveSegment:
        if self._active is not None:
            self._closing.append(self._active)
            self._previous = self._active.segment.number, self._active.segment.stamp
        number = self._next_segment
        self._next_segment += 1
        state = self._state(self.ends)
        stamp = secrets.token_hex(8)
        head = self._codec.head(
            segment=number,
            stamp=stamp,
            group=self._open.number - 1,
            durable=self.durable,
            previous=self._previous,
            state=state,
        )
        pieces: list[bytes | memoryview] = [self._codec.preamble, *head.pieces(last=False)]
        path = segment_path(self._directory, number)
        segment = Segment(path, number, list(self.ends), list(self.ends), stamp)
        # On a disk that is nearly full segments are small, so that what was read gives its space
        # back.
        limit = min(self._roll_bytes, max(_SMALL, self._disk.free(self._directory) // 4))
        self._active = ActiveSegment(segment, pieces, sum(map(len, pieces)), state, limit)
        return self._active

    def _write(self, active: ActiveSegment, pieces: list[bytes | memoryview]) -> bool:
        """Write behind what is there, with the head where nothing is; false when there is no
        space."""
        at = active.segment.size
        if not at:
            pieces = [*active.head, *pieces]
        try:
            if active.fd < 0:
                active.fd = self._disk.create(active.segment.path)
            self._disk.write(active.fd, pieces, at)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            if active.fd >= 0:
                # what was written of it is no record: the next try starts at the same place
                self._disk.truncate(active.fd, at)
            self.no_space = True
            return False
        self.no_space = False
        return True
