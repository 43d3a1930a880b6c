"""What a relay keeps of one media, for readers that come and go (Q27-Q30)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from aqueduct_core.quicr.media.cache_memory import CacheMemory
from aqueduct_core.quicr.media.cached_object import PIECE_BYTES, CachedObject, CachedPiece
from aqueduct_core.quicr.media.fragment import Fragment, hole
from aqueduct_core.quicr.media.position import BEGIN, MAX_ID, Position, PositionRange
from aqueduct_core.quicr.media.progress import MediaProgress

LEAST_NOTES = 1_024
"""What is noted of objects and groups that have gone is not in `CacheMemory`, whose bound it shares
all the same: there are no more of these notes than of objects that are kept, or so many."""
MOST_SIZES = 1 << 16
"""Groups of which is noted how many objects they have, for readers that are far behind: of older
ones a single hole stands for all that is gone."""
MOST_PASSED = 1 << 14
"""Objects that went before all readers in the order of arrival had them, whose places are noted so
that these are told; a reader that is further behind is cut off."""
MOST_HOLES = 10_000
HOLES_PER_OBJECT = 16
"""Objects that are given up, each with a hole: so many, and for each that came whole so many more,
or a few bytes of a sender would cost us, and all readers, thousands of holes. Where there are more,
nothing connects what comes with what was there, and the cache begins anew."""


class ObjectTooLarge(Exception):
    """An object that cannot be kept, since it has more bytes than all objects may take together."""

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self.position = position


class CacheReader(Protocol):
    """What a cache needs to know of a reader."""

    cut_off: bool
    """It cannot go on: what it had begun, or all that it waits for, is gone."""

    def loses(self, position: Position) -> bool:
        """An object goes, or becomes a hole; whether the reader is in the middle of it."""

    @property
    def arrival(self) -> int | None:
        """The next piece that it reads in the order of arrival; None: it reads in media order."""


class MediaCache:
    """The objects of one media, whole or in pieces, in media order and in the order of arrival.

    An object is here, or was here, or was given up, or may still come. One that is given up is a
    hole from then on (Q36). Readers hold nothing but their place (`cache_readers`).

    Holds: what `progress` has is complete and kept, or was; all else is incomplete or absent.

    Args:
        memory: shared with other caches; an object may have to go whenever something comes.
        on_change: called when ``changed`` is set.

    ``objects`` counts those that came whole, ``late`` fragments of objects that are not awaited any
    more, ``given_up`` objects that never came whole.
    """

    def __init__(self, memory: CacheMemory, on_change: Callable[[], None] = lambda: None) -> None:
        self.objects = 0
        self.late = 0
        self.given_up = 0
        self.changed = False
        """There is something new for readers; whoever wakes them sets it back."""
        self.start = BEGIN
        """Where the media begins."""
        self.final: Position | None = None
        """Behind the last object, once that is known."""
        self.readers: list[CacheReader] = []
        self.next_number = 0
        """Of the piece that comes next."""
        self._memory = memory
        self._on_change = on_change
        self._progress = MediaProgress()
        self._objects: dict[Position, CachedObject] = {}
        self._arrived: dict[int, CachedPiece] = {}
        self._passed: OrderedDict[int, Position] = OrderedDict()
        self._sizes: OrderedDict[int, int] = OrderedDict()
        self._reach: OrderedDict[int, int] = OrderedDict()  # the highest object seen of each group
        self._lowest: Position | None = None  # that ever came
        self._highest: Position | None = None
        self._least: Position | None = None  # of those that are kept, where that is known
        self._gone: Position | None = None  # the furthest that is kept no more
        self._too_large: OrderedDict[Position, None] = OrderedDict()
        self._oldest = 0

    # what comes

    def add(self, fragment: Fragment, now: float) -> bool:
        """Keep a fragment; False: there is nothing new in it (Q12, Q28), or it is too late.

        Raises:
            ObjectTooLarge: its object will never be here, whoever brings it: it is a hole.
        """
        position = Position(fragment.group, fragment.object)
        if not fragment.offset and not position.object and fragment.previous is not None:
            unknown = self.size_of(position.group - 1) is None
            self._note_size(position.group, fragment.previous, now)
            if unknown and position.group:
                self._count_late(position, now)
        if position in self._too_large and not fragment.is_hole:
            raise ObjectTooLarge(position)
        object = self._objects.get(position)
        if object is None:
            if position in self._progress or (self.final is not None and position >= self.final):
                self.late += 1
                return False
            object = self._objects[position] = CachedObject()
            if self._least is not None and position < self._least:
                self._least = position
        elif object.complete:
            return False
        elif fragment.is_hole:
            self._give_up(position, now)
            return True
        fresh = object.fresh(fragment)
        if not fresh:
            return False
        size = object.size + sum(PIECE_BYTES + len(part.data) for part in fresh)
        if max(size, fragment.stop) > self._memory.most:
            self._too_large[position] = None
            self._trim(self._too_large, LEAST_NOTES)
            self._give_up(position, now)
            raise ObjectTooLarge(position)
        before = object.size if object.pieces else 0
        for part in fresh:
            self._keep(object, part, now)
        self._saw(position)
        self._memory.grew(object, object.size - before, now, self._forget)
        if object.complete:  # though it may not be kept any more
            self.objects += not object.is_hole
            self._here(position, now)
        return True

    def start_at(self, start: Position, now: float) -> None:
        """Nothing before comes any more (Q15): the media begins there, where nothing came of what
        is before; else what is missing before is given up."""
        if self._lowest is None or self._lowest >= start:
            self.start = max(self.start, start)
            self._progress.skip_to(start)
        else:
            self._fill(start, now)
        self._change()

    def finish(self, final: Position, now: float) -> None:
        """The final point, which counts once: no object behind it is taken any more."""
        if self.final is not None:
            return
        beyond = self._highest is not None and self._highest >= final
        self.final = self._highest.following if beyond and self._highest is not None else final
        self._progress.finish(self.final)
        self._change()

    def cut_short(self, now: float) -> None:
        """Nothing comes any more (Q30): what is missing up to the newest object is given up, that
        one too if it is not whole, and the final point lies behind. Where its sender has not told
        that point, a hole is the last of it, as there may have been more."""
        newest = self._highest
        end = BEGIN
        if self.final is None and newest is not None and newest in self._progress:
            object = self._objects.get(newest)
            if (object is None or not object.is_hole) and newest.object < MAX_ID:
                end = newest.following.following
        self.finish(end, now)
        assert self.final is not None
        self._fill(self.final, now)

    def discard(self) -> None:
        """Keep nothing any more."""
        for object in self._objects.values():
            self._memory.release(object)
        self._objects.clear()
        self._arrived.clear()
        self._passed.clear()
        self._least = None

    # what is here

    @property
    def complete(self) -> bool:
        """All up to the final point is here, was here, or was given up."""
        return self._progress.complete

    @property
    def empty(self) -> bool:
        """Nothing is kept."""
        return not self._objects

    @property
    def begun(self) -> bool:
        """Something has come of it."""
        return self._highest is not None

    @property
    def front(self) -> Position:
        """The next object in media order that may still come."""
        return self._progress.front

    @property
    def begin(self) -> Position:
        """Where a reader begins that comes now: behind all that has gone, so that it misses nothing
        of what follows."""
        if self._gone is None:
            return min(self._progress.front, self._first()) if self._objects else self.front
        size = self.size_of(self._gone.group)
        following = self._gone.following
        if size is not None and following.object >= size and following != self.final:
            return Position(following.group + 1, 0)
        return following

    @property
    def oldest_number(self) -> int:
        """No piece that is kept came before this one."""
        while self._oldest < self.next_number and self._oldest not in self._arrived:
            self._oldest += 1
        return self._oldest

    def object_at(self, position: Position) -> CachedObject | None:
        return self._objects.get(position)

    def arrived(self, number: int) -> CachedPiece | None:
        """The piece with this number; None: it has gone."""
        return self._arrived.get(number)

    def passed(self, number: int) -> Position | None:
        """The object whose last piece had this number, and has gone before all had it."""
        return self._passed.get(number)

    def was_here(self, position: Position) -> bool:
        """It will not come any more."""
        return position in self._progress

    def size_of(self, group: int) -> int | None:
        """How many objects a group has, where that is known (Q13)."""
        if self.final is not None and group == self.final.group:
            return self.final.object
        return self._sizes.get(group)

    # the inside

    def _keep(self, object: CachedObject, fragment: Fragment, now: float) -> None:
        piece = CachedPiece(fragment, now, self.next_number)
        self._arrived[self.next_number] = piece
        self.next_number += 1
        object.add(piece)

    def _change(self) -> None:
        if not self.changed:
            self.changed = True
            self._on_change()

    def _saw(self, position: Position) -> None:
        """There is something new of an object."""
        if self._highest is None or position > self._highest:
            self._highest = position
        if self._lowest is None or position < self._lowest:
            self._lowest = position
        group, number = position
        if number > self._reach.get(group, -1):
            self._reach[group] = number
            self._trim(self._reach, MOST_SIZES)
        self._change()

    def _here(self, position: Position, now: float) -> None:
        """An object is complete."""
        too_many = self._progress.add(position)
        if too_many is not None:
            self._give_up_all([too_many], now)

    def _note_size(self, group: int, previous: int, now: float) -> None:
        if not group or group - 1 in self._sizes:
            return
        self._set_size(group - 1, previous)
        too_many = self._progress.note_previous(group, previous)
        if too_many is not None:
            self._give_up_all([too_many], now)

    def _set_size(self, group: int, size: int) -> None:
        self._sizes[group] = size
        self._trim(self._sizes, MOST_SIZES)

    def _trim(self, notes: OrderedDict[Any, Any], most: int) -> int | None:
        """Forget the oldest notes where there are too many; the last of these."""
        allowed = min(most, max(LEAST_NOTES, len(self._objects)))
        forgotten = None
        while len(notes) > allowed:
            forgotten, _ = notes.popitem(last=False)
        return forgotten

    def _give_up(self, position: Position, now: float) -> None:
        """An object is a hole from now on."""
        object = self._objects.get(position)
        if object is not None:
            self._remove(position, object)
            self._memory.release(object)
        self.given_up += 1
        stand_in = self._objects[position] = CachedObject()
        if self._least is not None and position < self._least:
            self._least = position
        self._saw(position)
        previous = None if position.object else self.size_of(position.group - 1)
        self._keep(stand_in, hole(position, previous), now)
        self._memory.grew(stand_in, stand_in.size, now, self._forget)
        self._here(position, now)

    def _fill(self, stop: Position, now: float) -> None:
        """Give up all that is missing before ``stop``."""
        self._give_up_all(self._progress.missing(stop), now)
        self._progress.skip_to(stop)

    def _give_up_all(self, missing: Sequence[PositionRange], now: float) -> None:
        """Give up the objects of ranges, which are in media order, as far as there may be as many
        holes: those of the last ones. How many a group has is not known where a range goes on in
        the next one; a hole then says that there may have been more."""
        allowed = HOLES_PER_OBJECT * self.objects - self.given_up
        left = MOST_HOLES + min(0, allowed)
        holes: list[tuple[Position, list[Position]]] = []
        for start, stop in reversed(missing):
            given_up = list(_within(start, stop, self._reach, left))
            if len(given_up) > left:
                self._begin_anew(stop)
                break
            left -= len(given_up)
            holes.append((stop, given_up))
        for stop, given_up in reversed(holes):
            self._give_up_range(stop, given_up, now)

    def _give_up_range(self, stop: Position, holes: list[Position], now: float) -> None:
        before: Position | None = None
        for position in holes:
            if before is not None and position.group > before.group:
                self._note_size(position.group, before.object + 1, now)
            self._give_up(position, now)
            before = position
        if before is not None and stop == (before.group + 1, 0):
            self._note_size(stop.group, before.object + 1, now)
            self._count_late(stop, now)

    def _count_late(self, position: Position, now: float) -> None:
        """A hole in place of the first object of a group was passed on before anybody knew how many
        the group before has: it is passed on once more, with the number."""
        object = self._objects.get(position)
        if object is None and position in self._progress:
            self.given_up -= 1  # it counts already, and has gone since
            self._give_up(position, now)
            return
        if object is None or not object.is_hole or object.pieces[0].fragment.previous is not None:
            return
        before = object.size
        self._keep(object, hole(position, self.size_of(position.group - 1)), now)
        self._memory.grew(object, object.size - before, now, self._forget)
        self._change()

    def _begin_anew(self, start: Position) -> None:
        """Keep only what is behind ``start``, as if nothing had been before."""
        for reader in self.readers:
            reader.cut_off = True
        for position in [position for position in self._objects if position < start]:
            object = self._objects.pop(position)
            self._memory.release(object)
            for piece in object.pieces:
                del self._arrived[piece.number]
        self._passed.clear()
        self._least = self._gone = None
        self._progress.skip_to(start)
        self._change()

    def _forget(self, object: CachedObject, now: float) -> None:
        """It has to go, for its age or for want of memory."""
        fragment = object.pieces[0].fragment
        position = Position(fragment.group, fragment.object)
        received = object.pieces[-1].received
        if object.complete:
            self._remove(position, object)
            self._gone = position if self._gone is None else max(position, self._gone)
        else:
            self._give_up(position, now)
        if now - received >= self._memory.lifetime and self._progress.front < position:
            self._fill(position, now)  # what is still missing before it will not come
        self._trim(self._sizes, MOST_SIZES)
        self._trim(self._reach, MOST_SIZES)
        if not self._objects:
            self._change()

    def _remove(self, position: Position, object: CachedObject) -> None:
        del self._objects[position]
        if position == self._least:
            self._least = None
        for piece in object.pieces:
            del self._arrived[piece.number]
        for reader in self.readers:
            if reader.loses(position):
                reader.cut_off = True
                self._change()
        self._pass(position, object)

    def _pass(self, position: Position, object: CachedObject) -> None:
        """Have those who read in the order of arrival, and are not there yet, learn of it."""
        if not object.pieces:
            return  # nobody was told of it
        places = [reader.arrival for reader in self.readers if reader.arrival is not None]
        number = object.last_number
        slowest = min(places, default=number + 1)
        passed = self._passed
        while passed and next(iter(passed)) < slowest:
            passed.popitem(last=False)
        if slowest > number or not object.complete:
            return
        passed[number] = position
        if (oldest := self._trim(passed, MOST_PASSED)) is not None:
            for reader in self.readers:
                if reader.arrival is not None and reader.arrival <= oldest:
                    reader.cut_off = True

    def _first(self) -> Position:
        if self._least is None:
            self._least = min(self._objects)
        return self._least


def _within(
    start: Position, stop: Position, reach: Mapping[int, int], most: int
) -> Iterator[Position]:
    """Where holes stand for a range, at most one more than ``most``: for each object of the last
    group, and of each group before for those up to the one that it is known to ``reach``, and one
    for what may be behind that."""
    group, number = start
    count = 0
    while (group, number) < stop and count <= most:
        yield Position(group, number)
        count += 1
        if group < stop.group and number > reach.get(group, -1):
            group, number = group + 1, 0
        else:
            number += 1
