"""One media on its way into the spool: which objects become rows, and what never will.

Rows of a URL are marked as stored by the number of their position. With ``order=media`` that is
one range: up to the last object everything is a row, or was told of as gone. So what comes again,
as all of it does on each new connection, is known; and so is what is missing between what is stored
and where the media begins this time. Behind a final point nothing is missing: a later post under
the URL is a range of its own, unless it begins with the next group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from aqueduct_core.intake.quicr.media import MediaIntake
from aqueduct_core.intake.quicr.rows import ObjectBatch
from aqueduct_core.primitives.ranges import Numbers, Range, RangeSet
from aqueduct_core.quicr.media.assembly import MediaObject
from aqueduct_core.quicr.media.fragment import HOLE, Fragment
from aqueduct_core.quicr.media.position import BEGIN, ID_BITS, Position, at_number
from aqueduct_core.quicr.media.reception import GapReason, Reception

LARGE = 16 * 1024
"""Bytes of an object above which it is a batch of its own, so that it is not copied to be joined
with others: that is done once, when its group is written."""

SPARE_BYTES = 16 << 20
"""Of memory, beside those of one object of the largest size, for objects that are not whole, or
wait behind others; above it the oldest hole is given up."""

MEDIA_BYTES = 4_000
"""What a media takes beside its objects, about."""


class Missing(NamedTuple):
    """Positions that will be no rows, as numbers ``[first, stop)``. ``lost``: the sender began
    behind what is stored; otherwise they were given up here."""

    first: int
    stop: int
    lost: bool


class Arrived(NamedTuple):
    """What is to be stored now, of one batch. ``numbers`` are those of its objects; ``covered`` as
    of `rows.UrlSource`."""

    batch: ObjectBatch
    numbers: Numbers
    covered: Range
    holes: int


class IncomingMedia:
    """One transaction that brings a media. Pure.

    Args:
        stream: its number on the connection.
        datagram: it comes in datagrams.
        known: the numbers of its URL that are stored, or were told of as missing.
        ended: the numbers at which a sender has ended it, behind all of it.
        max_object: bytes of an object.
    """

    def __init__(
        self,
        stream: int,
        *,
        datagram: bool,
        settings: MediaIntake,
        known: Callable[[], RangeSet],
        ended: RangeSet,
        max_object: int,
    ) -> None:
        self.datagram = datagram
        self.final: Position | None = None
        self._stream = stream
        self._known = known
        self._ended = ended
        self._wanted = settings.start.number
        self._ordered = settings.order == "media"
        self._reception = Reception(
            order=settings.order,
            hole_timeout=settings.hole_timeout,
            max_bytes=max_object + SPARE_BYTES,
        )
        stored = known()
        self._stored_to = stored.lowest_missing(stored.first) if stored else None
        self._covered_from = 0
        self.start: Position | None = None
        """Where it begins, once that is known."""
        self._judged = False
        self._held: int | None = None
        """A gap from the beginning up to this number: whether it is one, the start point says."""
        self._group_sizes: dict[int, int] = {}
        self._gaps: set[Position] = set()
        self._owed = 0

    @property
    def size(self) -> int:
        """Bytes that it holds, about."""
        return MEDIA_BYTES + self._reception.size

    @property
    def wake_at(self) -> float | None:
        return self._reception.wake_at

    @property
    def complete(self) -> bool:
        """Everything up to the final point was taken, or given up."""
        return self._reception.complete

    def handle(self, fragments: Sequence[Fragment], size: int, now: float) -> None:
        """Take in what came, of ``size`` bytes on its stream."""
        self._owed += size
        if not self._judged:
            self._look_at_start(fragments, now)
        self._reception.handle(fragments, now)

    def start_at(self, start: Position, now: float) -> None:
        """The sender says where it begins (Q15), however late."""
        self.start = start
        self._reception.start_at(start, now)

    def finish(self, final: Position, now: float) -> None:
        if self.start is None:
            self.start = BEGIN
        self.final = final
        self._reception.finish(final, now)

    def tick(self, now: float) -> None:
        self._reception.tick(now)

    def missing(self, *, over: bool = False) -> list[Missing]:
        """Take what was found not to come; to be recorded before what `arrived` gives then.

        Args:
            over: the transaction is, and with it nothing of the start comes any more.
        """
        if over and self.start is None and self._held is not None:
            self.start = BEGIN
        found: list[Missing] = []
        self._gaps.clear()
        for (first, stop), reason in self._reception.gaps():
            self._gaps.add(first)
            if reason is GapReason.START:
                continue  # what is missing there is judged by what is stored
            if reason is GapReason.LATE:
                # its position counts as one that is no object, so it is among those that are known
                found.append(Missing(first.number, stop.number, False))
            elif self.start is None and first == BEGIN:
                self._held = stop.number
            else:
                found += self._not_known(first.number, stop.number)
        # the first object says how many its sender counts in the group before
        start = self.start
        known = start is not None and (self.complete or self._reception.front > start)
        if start is not None and known and not self._judged:
            return [*self._judge(start), *found]
        return found

    def conflicts(self) -> list[Position]:
        """Take the positions of which other bytes came than those that came before (the first
        stay)."""
        return [each.position for each in self._reception.conflicts()]

    def owed(self) -> int:
        """Take the bytes for which there may be credit now: of what is in no batch of `arrived`."""
        owed, self._owed = self._owed, 0
        return owed

    def arrived(self) -> list[Arrived]:
        """Take the objects that are rows now, but for those that are not wanted. The size of the
        batches is that of all that came since there were some; of datagrams that of the payload."""
        objects = self._reception.take()
        if self._wanted:
            objects = [each for each in objects if _number(each) >= self._wanted]
        if not objects:
            return []
        covered = self._covered()
        last = self._last_of_groups(objects)
        if sum(each.size for each in objects) < LARGE * len(objects):
            return [self._batch(objects, last, covered, self.owed())]
        return [
            *(
                self._batch([each], [known], (0, 0), 0)
                for each, known in zip(objects[:-1], last, strict=False)
            ),
            self._batch(objects[-1:], last[-1:], covered, self.owed()),
        ]

    # where it begins

    def _look_at_start(self, fragments: Sequence[Fragment], now: float) -> None:
        if self.start is None and not self.datagram:
            # a stream is in order, so it begins with what comes first (Q11)
            self.start_at(fragments[0].position, now)
        if self._stored_to is None:
            return
        group = at_number(self._stored_to).group + 1
        for each in fragments:
            if each.group == group and not each.object and each.previous is not None:
                self._group_sizes = {group: each.previous}

    def _judge(self, start: Position) -> list[Missing]:
        """What lies between what is stored and where the media begins is lost, but for what is
        behind an end of it: there was nothing more then. What a gap that was held back leaves
        behind that is a gap."""
        self._judged = True
        self._covered_from = start.number
        found: list[Missing] = []
        stored_to = self._stored_to
        if stored_to is not None and stored_to < start.number:
            holes = self._known().missing(stored_to, start.number)
            lost = [hole for hole in holes if hole[0] not in self._ended]
            if self._follows(start, stored_to):
                self._covered_from = stored_to
            elif lost:
                self._covered_from = lost[0][0]
                wanted = self._wanted
                found += [Missing(max(a, wanted), b, True) for a, b in lost if b > wanted]
            elif holes and self._ends_group(*holes[-1], start):
                self._covered_from = holes[-1][0]
        if self._held is not None:
            found += self._not_known(start.number, self._held)
        return found

    def _follows(self, start: Position, stored_to: int) -> bool:
        """Whether the media goes on with the group behind the last one that is stored wholly."""
        group, number = at_number(stored_to)
        return start == (group + 1, 0) and self._group_sizes.get(group + 1) == number

    def _ends_group(self, first: int, stop: int, start: Position) -> bool:
        """Whether the media goes on with the group behind the one that ended before this hole."""
        return stop == start.number and start == (at_number(first).group + 1, 0)

    def _not_known(self, first: int, stop: int) -> list[Missing]:
        missing = self._known().missing(max(first, self._wanted), stop)
        return [Missing(low, high, False) for low, high in missing]

    # objects as columns

    def _covered(self) -> Range:
        """All positions of which nothing more will be a row, of what came here."""
        if self.start is None or not self._judged:
            return 0, 0
        first = max(self._covered_from, self._wanted)
        stop = self._reception.front.number
        return (first, stop) if first < stop else (0, 0)

    def _last_of_groups(self, objects: Sequence[MediaObject]) -> list[bool | None]:
        """Of each object, whether its group ends with it, as far as the next one says. Behind a
        hole there may have been more, which the hop that dropped them did not know of."""
        last: list[bool | None] = []
        for each, following in zip(objects, [*objects[1:], None], strict=True):
            behind = Position(each.group, each.object + 1)
            if following is not None and following.group == each.group:
                last.append(False if following.object > each.object else None)
                continue
            next_group = following is not None and self._ordered and behind not in self._gaps
            known = each.payload is not None and (next_group or self.final == behind)
            last.append(True if known else None)
        return last

    def _batch(
        self,
        objects: Sequence[MediaObject],
        last: Sequence[bool | None],
        covered: Range,
        size: int,
    ) -> Arrived:
        payloads = [each.payload or b"" for each in objects]
        offsets = np.zeros(len(objects) + 1, np.int64)
        np.cumsum([len(payload) for payload in payloads], out=offsets[1:])
        numbers = np.array([_number(each) for each in objects], np.int64)
        holes = tuple(at for at, each in enumerate(objects) if each.payload is None)
        flags = [HOLE if each.payload is None else each.flags for each in objects]
        delays = None
        if self.datagram:
            delays = np.array([each.queue_delay for each in objects], np.int64)
        batch = ObjectBatch(
            channel=self._stream,
            reliable=True,
            first=0,
            count=len(objects),
            payload=payloads[0] if len(payloads) == 1 else b"".join(payloads),
            offsets=offsets,
            size=sum(map(len, payloads)) if self.datagram else size,
            absent=holes,
            flags=np.array(flags, np.uint8),
            delays=delays,
            last=last,
        )
        return Arrived(batch, numbers, covered, len(holes))


def _number(each: MediaObject) -> int:
    return each.group << ID_BITS | each.object
