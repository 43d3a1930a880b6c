"""One media as an application gets it: whole objects in an order, and what is missing."""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Sequence
from enum import Enum
from typing import Literal, NamedTuple

from aqueduct_core.primitives.reassembly import TooScattered
from aqueduct_core.quicr.media.assembly import Assembler, Contradiction, MediaObject
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import BEGIN, Position, PositionRange, range_of
from aqueduct_core.quicr.media.progress import MediaProgress
from aqueduct_core.quicr.media.recent_objects import RecentObjects

ObjectOrder = Literal["media", "arrival"]

OBJECT_BYTES = 500
"""What an object that is complete costs until it is taken, without its payload."""


class GapReason(Enum):
    """Why objects are not waited for any more."""

    START = "start"
    """Their sender begins behind them (Q15)."""
    TIME = "time"
    """They did not come while others had to wait for them, or before the end."""
    MEMORY = "memory"
    """What had come of them, or what waited for them, was too much."""
    LATE = "late"
    """They came when what is behind them had been given on: their group was said to have fewer
    (K4)."""


class Gap(NamedTuple):
    """Objects that are given up; what comes of them after that is ignored."""

    missing: PositionRange
    reason: GapReason


class Conflict(NamedTuple):
    """An object came in two forms; the first stays. ``what``: in which way the other differs."""

    position: Position
    what: str


class Reception:
    """Puts one media together, out of one transaction or of several after each other.

    Give it what comes, by `handle`, `start_at` and `finish`, and `tick` when ``wake_at`` is due.
    After each of them `take` has the objects that are next, and `gaps` and `conflicts` what there
    is to tell. When it is `complete`, that was all.

    What a sender makes it hold is ``max_bytes`` and some 500 KB for which it counts positions
    (`MediaProgress`, `RecentObjects`), however fragments come; what is not taken comes to that.

    Args:
        order: ``media``: objects come in the order of their positions, and what is missing between
            them is told as a gap; ``arrival``: each comes as soon as it is whole.
        hole_timeout: seconds that an object waits in media order for those before it; and that
            nothing may come, in either order, when some are missing up to the final point.
            Infinity: until memory is short.
        max_bytes: of memory for objects that are not whole, or wait. Above it the oldest hole is
            given up, or, where none waits, the object that was begun first. A larger object is
            never received.
        begin: what is before is ignored: the application has it.
    """

    def __init__(
        self,
        *,
        order: ObjectOrder = "media",
        hole_timeout: float = 1.0,
        max_bytes: int = 16 << 20,
        begin: Position = BEGIN,
    ) -> None:
        self._in_media_order = order == "media"
        self._hole_timeout = hole_timeout
        self._max_bytes = max_bytes
        self._progress = MediaProgress(begin)
        self._assembler = Assembler()
        self._recent = RecentObjects()
        self._waiting: OrderedDict[Position, MediaObject] = OrderedDict()
        """Those behind a hole, by the time at which they were whole."""
        self._heap: list[Position] = []
        """Theirs, the lowest first."""
        self._waiting_bytes = 0
        self._ready: list[MediaObject] = []
        self._ready_bytes = 0
        self._gaps: list[Gap] = []
        self._conflicts: list[Conflict] = []
        self._changed = 0.0
        """When something came last."""

    @property
    def front(self) -> Position:
        """All before it is whole, or told as a gap (`MediaProgress.front`)."""
        return self._progress.front

    @property
    def complete(self) -> bool:
        """All up to the final point is here, or told as a gap: nothing follows what `take`, `gaps`
        and `conflicts` have now."""
        return self._progress.complete

    @property
    def size(self) -> int:
        """Bytes of memory, about, with what is not taken yet."""
        parts = self._assembler.size + self._progress.size + self._recent.size
        return parts + self._waiting_bytes + self._ready_bytes

    @property
    def wake_at(self) -> float | None:
        """When `tick` is wanted next; None: never, unless something comes."""
        since = self._waits_since
        if since is None or self._hole_timeout == math.inf:
            return None
        return since + self._hole_timeout

    # what comes

    def handle(self, fragments: Sequence[Fragment], now: float) -> None:
        """Take in fragments, in whatever pieces and order, with repeats."""
        progress, assembler = self._progress, self._assembler
        self._changed = now
        for fragment in fragments:
            position = Position(fragment.group, fragment.object)
            if fragment.previous is not None:
                self._note_hole(progress.note_previous(position.group, fragment.previous))
            if position in progress:
                difference = self._recent.difference(fragment)
                if difference is not None:
                    self._conflicts.append(Conflict(position, difference))
                continue
            try:
                whole = assembler.add(fragment, now)
            except Contradiction as found:
                self._conflicts.append(Conflict(position, str(found)))
                continue
            except TooScattered:
                self._give_up(position)
                continue
            if whole is not None:
                self._complete(position, whole)
            if assembler.size + self._waiting_bytes > self._max_bytes:
                self._make_room()
        self._release()

    def start_at(self, start: Position, now: float) -> None:
        """The sender begins here (Q15): what is missing before does not come."""
        self._changed = now
        self._skip_to(start, GapReason.START)

    def finish(self, final: Position, now: float) -> None:
        """The sender ends here (Q9, Q19); of datagrams some may still come."""
        self._changed = now
        self._progress.finish(final)

    def tick(self, now: float) -> None:
        """Give up what was missing for too long."""
        while (since := self._waits_since) is not None and since + self._hole_timeout <= now:
            end = next(iter(self._waiting), self._progress.final)
            assert end is not None, "something waits for the end"
            self._skip_to(end, GapReason.TIME)

    # what has come of it

    def take(self) -> list[MediaObject]:
        """The objects that are next, holes among them (Q36)."""
        ready, self._ready = self._ready, []
        self._ready_bytes = 0
        return ready

    def gaps(self) -> list[Gap]:
        """Take what was given up since the last call."""
        gaps, self._gaps = self._gaps, []
        return gaps

    def conflicts(self) -> list[Conflict]:
        """Take what came in two forms since the last call: of objects that are not whole, and of
        the last `recent_objects.RECENT_OBJECTS` that were."""
        conflicts, self._conflicts = self._conflicts, []
        return conflicts

    @property
    def _waits_since(self) -> float | None:
        for oldest in self._waiting.values():
            return oldest.received
        progress = self._progress
        return self._changed if progress.final is not None and not progress.complete else None

    def _complete(self, position: Position, whole: MediaObject) -> None:
        progress = self._progress
        if whole.payload is not None:
            self._recent.add(position, whole.payload)
        if not self._in_media_order:
            self._note_hole(progress.add(position))
            self._hand_over(whole)
        elif progress.is_before_front(position):
            self._note_hole(progress.add(position))
            self._add_gap(_only(position), GapReason.LATE)
        else:
            self._note_hole(progress.add(position))
            if not self._heap and progress.is_before_front(position):
                self._hand_over(whole)
                return
            self._waiting[position] = whole
            heapq.heappush(self._heap, position)
            self._waiting_bytes += OBJECT_BYTES + whole.size
            self._release()

    def _hand_over(self, whole: MediaObject) -> None:
        self._ready.append(whole)
        self._ready_bytes += OBJECT_BYTES + whole.size

    def _release(self) -> None:
        """Hand over what does not wait for anything any more."""
        heap = self._heap
        if heap:
            front = self._progress.front
            while heap and heap[0] < front:
                whole = self._waiting.pop(heapq.heappop(heap))
                self._waiting_bytes -= OBJECT_BYTES + whole.size
                self._hand_over(whole)

    def _make_room(self) -> None:
        assembler, heap = self._assembler, self._heap
        while assembler.size + self._waiting_bytes > self._max_bytes:
            oldest = assembler.oldest
            if oldest is not None and oldest in self._progress:
                assembler.give_up_oldest()  # before the front, where all was given up
            elif heap:
                self._skip_to(heap[0], GapReason.MEMORY)
            else:
                assert oldest is not None, "nothing else has a size"
                assembler.give_up_oldest()
                self._give_up(oldest)

    def _give_up(self, position: Position) -> None:
        hole = self._progress.add(position)
        self._add_gap(_only(position), GapReason.MEMORY)
        self._note_hole(hole)
        self._release()

    def _skip_to(self, position: Position, reason: GapReason) -> None:
        for hole in self._progress.skip_to(position):
            self._add_gap(hole, reason)
        self._release()

    def _note_hole(self, hole: PositionRange | None) -> None:
        """That was given up because positions are too scattered."""
        if hole is not None:
            self._add_gap(hole, GapReason.MEMORY)
            self._release()

    def _add_gap(self, missing: PositionRange, reason: GapReason) -> None:
        if self._gaps:
            last = self._gaps[-1]
            if last.reason is reason and last.missing.stop == missing.start:
                missing = PositionRange(last.missing.start, missing.stop)
                self._gaps.pop()
        self._gaps.append(Gap(missing, reason))


def _only(position: Position) -> PositionRange:
    return range_of(position.number, position.number + 1)
