"""Target: every set of ranges against a plain set of numbers, and a receiving stream against the
library's own.

Invariant: behind every step both hold the same numbers and give the same answers, ranges are in
their order, apart, and never touch; and both receivers give the same bytes, the same end and
the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aioquic.quic.packet import QuicStreamFrame
from aioquic.quic.rangeset import RangeSet as LibraryRanges
from aioquic.quic.stream import FinalSizeError, QuicStreamReceiver

from aqueduct_core.primitives import number_set
from aqueduct_core.primitives.number_set import NumberSet
from aqueduct_core.primitives.ranges import Range, RangeSet
from aqueduct_core.transport.aioquic.sent_ranges import SentRanges
from aqueduct_core.transport.aioquic.streams import StreamReceiver
from tests.fuzz.byte_source import ByteSource

SPAN = 80
CONTENT = bytes(range(256))
BLOCK = 8


def _numbers(pieces: Iterable[Range]) -> set[int]:
    return {number for first, stop in pieces for number in range(first, stop)}


def _apart(pieces: list[Range]) -> None:
    edges = [edge for pair in pieces for edge in pair]
    assert edges == sorted(set(edges)), "out of order, or touching"


def _sent(source: ByteSource) -> None:
    ours, theirs, model = SentRanges(), LibraryRanges(), set[int]()
    while source.left:
        step, first, size = source.byte() % 4, source.below(SPAN), 1 + source.below(20)
        piece = range(first, first + size)
        if step == 0 and model:
            lowest = ours.shift()
            assert lowest == theirs.shift()
            model -= set(lowest)
        elif step == 1:
            ours.subtract(piece.start, piece.stop)
            theirs.subtract(piece.start, piece.stop)
            model -= set(piece)
        else:
            ours.add(piece.start, piece.stop)
            theirs.add(piece.start, piece.stop)
            model |= set(piece)
        assert list(ours) == list(theirs)
        assert _numbers((r.start, r.stop) for r in ours) == model
        assert (first in ours) == (first in model)
        if model:
            assert ours.bounds() == theirs.bounds() == range(min(model), max(model) + 1)


def _ranges(source: ByteSource) -> None:
    ranges, model = RangeSet(), set[int]()
    while source.left:
        step, first, size = source.byte() % 4, source.below(SPAN), source.below(20)
        stop = first + size
        piece = set(range(first, stop))
        assert _numbers(ranges.within(first, stop)) == piece & model
        assert _numbers(ranges.missing(first, stop)) == piece - model
        assert ranges.covers(first, stop) == (piece <= model)
        assert ranges.overlaps(first, stop) == bool(piece & model)
        if step:
            assert _numbers(ranges.add(first, stop)) == piece - model
            model |= piece
        else:
            assert _numbers(ranges.remove(first, stop)) == piece & model
            model -= piece
        pieces = list(ranges)
        _apart(pieces)
        assert _numbers(pieces) == model
        assert ranges.count == len(model)
        assert (ranges.first, ranges.stop) == (min(model, default=0), max(model, default=-1) + 1)
        lowest = ranges.lowest_missing(first)
        assert lowest not in model
        assert model >= set(range(first, lowest))


def _number_set(source: ByteSource) -> None:
    block, full = number_set.BLOCK, number_set._FULL
    number_set.BLOCK, number_set._FULL = BLOCK, (1 << BLOCK) - 1
    try:
        _number_set_of_small_blocks(source)
    finally:
        number_set.BLOCK, number_set._FULL = block, full


def _number_set_of_small_blocks(source: ByteSource) -> None:
    numbers, model = NumberSet(), set[int]()
    while source.left:
        step, first, size = source.byte() % 8, source.below(SPAN), source.below(24)
        piece = set(range(first, first + size))
        pieces = numbers.missing(first, first + size)
        _apart(pieces)
        assert _numbers(pieces) == piece - model
        if step == 0 and len(numbers):
            behind = numbers.drop_lowest(1 + first % len(numbers))
            model = {number for number in model if number >= behind}
        elif step < 4:
            numbers.add(first, first + size)
            model |= piece
        elif size:
            numbers.merge(first, first + size)
            model |= piece
        assert {number for number in range(2 * SPAN) if number in numbers} == model
        assert numbers.stop == max(model, default=-1) + 1
        again = NumberSet()
        for entry in numbers.entries():
            again.merge(*entry)
        assert again == numbers
        assert len(list(numbers.entries())) == len(numbers)


class _Owner:
    """The connection of a receiver: what it is told."""

    def __init__(self) -> None:
        self.unacknowledged = self.released = self.ranges = 0

    def wake(self, stream_id: int) -> None:
        pass

    def release(self, count: int) -> None:
        self.released += count

    def scatter(self, ranges: int, size: int) -> None:
        self.ranges += ranges


def _receiver(source: ByteSource) -> None:
    owner = _Owner()
    ours, theirs = StreamReceiver(owner, 3), QuicStreamReceiver(3, readable=True)
    given = 0
    while source.left:
        step, first, size = source.byte(), source.below(SPAN), source.below(20)
        stop = first + size

        def take(receiver: QuicStreamReceiver) -> object:
            try:
                if step % 16 == 0:  # noqa: B023
                    return receiver.handle_reset(final_size=stop, error_code=step)  # noqa: B023
                frame = QuicStreamFrame(CONTENT[first:stop], step % 8 == 1, first)  # noqa: B023
                return receiver.handle_frame(frame)
            except FinalSizeError as error:
                return str(error)

        if step % 8 > 5 and stop > first and ours.advance(first, stop):
            frame = QuicStreamFrame(CONTENT[first:stop], False, first)
            event = theirs.handle_frame(frame)
            assert event is not None
            assert event.data == CONTENT[first:stop]
            assert not event.end_stream
            given += size
            continue
        event = take(ours)
        assert event == take(theirs)
        if isinstance(event, str):
            return  # closes the connection
        given += len(getattr(event, "data", b""))
        assert ours.is_finished == theirs.is_finished
        assert ours.highest_offset == theirs.highest_offset
        if not ours.is_finished:
            assert ours.starting_offset() == theirs.starting_offset() == given
        assert owner.ranges == ours._waiting.ranges
        if ours.is_finished:
            assert owner.ranges == 0
            assert owner.released == ours.highest_offset - given


KINDS: tuple[Callable[[ByteSource], None], ...] = (_sent, _ranges, _number_set, _receiver)


def run(data: bytes) -> None:
    """The first byte names the structure."""
    source = ByteSource(data)
    KINDS[source.byte() % len(KINDS)](source)
