"""Target: `MediaProgress`, `Assembler` and `Reception`, beside the plainest models of them.

Invariant: what is here, and up to where, is what one position after the other gives; objects have
the bytes that came, each at its place, and are whole exactly when all of them have come; a fragment
is left out exactly when it contradicts. An application gets each object once, in media order with
each gap told before what is behind it; what came whole is given on, waits or was told as a gap, and
at the end so is everything up to the final point. Memory stays below its bound all the time.
"""

from __future__ import annotations

from collections.abc import Callable

from aqueduct_core.primitives.reassembly import TooScattered
from aqueduct_core.quicr.media import assembly, progress
from aqueduct_core.quicr.media.assembly import Assembler, Contradiction, MediaObject
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.media.progress import MediaProgress
from aqueduct_core.quicr.media.reception import GapReason, Reception
from tests.core.quicr.media.naive_progress import GROUPS, OBJECTS, NaiveProgress
from tests.fuzz.byte_source import ByteSource

LONGEST = 12
"""Bytes of an object."""
ALL = [Position(group, object) for group in range(GROUPS) for object in range(OBJECTS)]


def run(data: bytes) -> None:
    """The first byte names what is tried."""
    source = ByteSource(data)
    KINDS[source.byte() % len(KINDS)](source)


def _position(source: ByteSource) -> Position:
    return Position(source.below(GROUPS), source.below(OBJECTS))


# which objects are here


def _progress(source: ByteSource) -> None:
    begin = _position(source)
    ours, model = MediaProgress(begin), NaiveProgress(begin)
    while source.left:
        step, position, front = source.byte() % 8, _position(source), ours.front
        if step == 0:
            holes = ours.skip_to(position)
            missing = [each for each in ALL if each < position and model.misses(each)]
            assert [e for e in ALL if any(a <= e < b for a, b in holes)] == missing
            model.skip_to(position)
        elif step < 3:
            count = None if step == 1 else position.object
            assert ours.note_previous(position.group, count) is None
            model.note_previous(position.group, count)
        else:
            assert ours.add(position) is None
            model.add(position)
        assert ours.front == model.front >= front
        assert [each in ours for each in ALL] == [each in model for each in ALL]
    model.final = _position(source)
    ours.finish(model.final)
    assert ours.complete == model.complete


# objects out of fragments


class _NaiveObject:
    """The forms of each byte that came, as bits, and where it ends."""

    def __init__(self) -> None:
        self.bytes: dict[int, int] = {}
        self.end: int | None = None
        self.reach = 0
        self.contradicted = False

    def contradicts(self, stop: int, last: bool) -> bool:
        if self.end is not None:
            return stop > self.end or (last and stop < self.end)
        return last and stop < self.reach

    def add(self, offset: int, stop: int, form: int, last: bool) -> None:
        for at in range(offset, stop):
            self.bytes[at] = self.bytes.get(at, 0) | 1 << form
        self.reach = max(self.reach, stop)
        if last:
            self.end = stop

    @property
    def whole(self) -> bool:
        return self.end is not None and all(at in self.bytes for at in range(self.end))

    def check(self, payload: bytes | None) -> None:
        assert len(payload or b"") == self.end
        for at, byte in enumerate(payload or b""):
            assert byte & 0x7F == at, "a byte of another place"
            assert self.bytes[at] >> (byte >> 7) & 1, "a byte that never came"


def _fragment(source: ByteSource) -> tuple[Fragment, int]:
    """And the form of its bytes."""
    group, object = _position(source)
    shape, what = source.byte(), source.byte()
    offset, size, last, form = shape % LONGEST, shape // LONGEST % 5, what & 1 == 1, what >> 1 & 1
    if what & 4:
        offset = 0
    size = min(size, LONGEST - offset)
    data = bytes(form << 7 | at for at in range(offset, offset + size))
    previous = None
    if what & 8 and not object and not offset:
        previous = what >> 4 & OBJECTS - 1
    return Fragment(group, object, offset, data, last, what >> 4, what, previous), form


def _assembler(source: ByteSource) -> None:
    stretches = assembly.STRETCHES
    assembly.STRETCHES = 1 + source.below(4)
    try:
        _assemble(source)
    finally:
        assembly.STRETCHES = stretches


def _assemble(source: ByteSource) -> None:
    assembler = Assembler()
    model: dict[Position, _NaiveObject] = {}
    while source.left:
        fragment, form = _fragment(source)
        position = fragment.position
        before = model.get(position, _NaiveObject())
        contradicts = before.contradicts(fragment.stop, fragment.last) and not fragment.is_hole
        first = contradicts and not before.contradicted
        try:
            whole = assembler.add(fragment, 1.0)
        except Contradiction:
            assert first
            before.contradicted = True
        except TooScattered:
            del model[position]
        else:
            if fragment.is_hole:
                assert whole is not None
                assert whole.payload is None
                model.pop(position, None)
            elif contradicts and not fragment.is_void:
                assert not first
                assert whole is None
            elif not fragment.is_void:
                before.add(fragment.offset, fragment.stop, form, fragment.last)
                assert (whole is not None) == before.whole
                model[position] = before
                if whole is not None:
                    before.check(whole.payload)
                    del model[position]
            else:
                assert whole is None
        assert assembler.oldest == next(iter(model), None)
        assert assembler.size == sum(each.size for each in assembler._partials.values())
    for position in list(model):
        assert assembler.oldest == position
        assembler.give_up_oldest()
    assert assembler.size == 0


# what an application gets


class _Application:
    """What it got and was told, and what came whole as far as a plain reading tells."""

    def __init__(self, reception: Reception, in_order: bool) -> None:
        self.reception = reception
        self.in_order = in_order
        self.taken: set[Position] = set()
        self.given_up: set[Position] = set()
        self.conflicts: set[Position] = set()

    def hear(self, bound: int) -> None:
        reception = self.reception
        assert reception._assembler.size + reception._waiting_bytes <= bound
        assert len(reception._progress._ahead) <= progress.RANGES
        assert len(reception._progress._beyond) <= progress.RANGES
        for missing, reason in reception.gaps():
            assert missing.start < missing.stop
            positions = {each for each in ALL if missing.start <= each < missing.stop}
            assert not positions & self.taken, "given on, and then a gap"
            assert reason is not GapReason.LATE or self.in_order
            self.given_up |= positions
        self.conflicts |= {each.position for each in reception.conflicts()}
        for whole in reception.take():
            self._take(whole)

    def _take(self, whole: MediaObject) -> None:
        position = whole.position
        assert position not in self.taken, "given on twice"
        assert position not in self.given_up, "a gap, and then given on"
        if self.in_order:
            assert not self.taken or position > max(self.taken)
        for at, byte in enumerate(whole.payload or b""):
            assert byte & 0x7F == at
        self.taken.add(position)

    def knows(self, position: Position) -> bool:
        return position in self.taken | self.given_up

    def knows_of(self, position: Position) -> bool:
        """Or that something of it did not go with what came before."""
        return self.knows(position) or position in self.conflicts


def _reception(source: ByteSource) -> None:
    ranges, stretches = progress.RANGES, assembly.STRETCHES
    progress.RANGES, assembly.STRETCHES = 1 + source.below(6), 1 + source.below(4)
    try:
        _receive(source)
    finally:
        progress.RANGES, assembly.STRETCHES = ranges, stretches


def _receive(source: ByteSource) -> None:
    in_order, begin = source.flag(), _position(source)
    bound = 1000 * (1 + source.below(20))
    reception = Reception(
        order="media" if in_order else "arrival", hole_timeout=3.0, max_bytes=bound, begin=begin
    )
    application = _Application(reception, in_order)
    now = 0.0
    final = None
    while source.left:
        step = source.byte()
        if step < 16:
            now += step % 8
        elif step < 24:
            reception.start_at(_position(source), now)
        elif step == 24 and final is None:
            final = _position(source)
            reception.finish(final, now)
        else:
            fragment, _ = _fragment(source)
            if final is None or fragment.position < final:
                reception.handle([fragment], now)
                application.hear(bound)
                position = fragment.position
                if position >= begin and position not in reception._waiting:
                    whole = fragment.offset == 0 and fragment.last
                    assert not whole or application.knows_of(position)
        if reception.wake_at is not None and reception.wake_at <= now:
            reception.tick(now)
            assert reception.wake_at is None or reception.wake_at > now
        application.hear(bound)
    if final is None:
        final = Position(GROUPS, 0)
        reception.finish(final, now)
    if reception.wake_at is not None:
        reception.tick(now + 3.0)
    application.hear(bound)
    assert reception.complete
    assert reception.wake_at is None
    sizes = reception._progress._sizes
    for position in ALL:
        exists = position.object < sizes.get(position.group, OBJECTS)
        if begin <= position < final and exists:
            assert application.knows(position), f"{position} is lost in silence"


KINDS: tuple[Callable[[ByteSource], None], ...] = (_progress, _assembler, _reception)
