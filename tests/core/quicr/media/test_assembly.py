"""Objects out of fragments: any pieces in any order, and what does not go together."""

from __future__ import annotations

import tracemalloc
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.primitives.reassembly import TooScattered
from aqueduct_core.quicr.media import assembly
from aqueduct_core.quicr.media.assembly import Assembler, Contradiction, MediaObject
from aqueduct_core.quicr.media.fragment import Fragment, hole
from aqueduct_core.quicr.media.position import Position
from tests.core.quicr.media.pieces import deliveries, media_of, pieces, stretch
from tests.support.rules import rule

WHOLE = Fragment(3, 4, 0, b"0123456789", True, 0x81, 7)


def whole_of(fragments: list[Fragment]) -> MediaObject | None:
    """Of the object that is complete with the last of them, and not before."""
    assembler = Assembler()
    *before, last = fragments
    for now, fragment in enumerate(before):
        assert assembler.add(fragment, now) is None
        assert assembler.oldest == fragment.position
    whole = assembler.add(last, len(before))
    if whole is not None:
        assert assembler.oldest is None
        assert assembler.size == 0
    return whole


@rule("Q-12")
@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_pieces_in_any_order_are_the_object(order: tuple[int, ...]) -> None:
    parts = pieces(WHOLE, 2, 3, 7)
    whole = whole_of([parts[i] for i in order])
    assert whole == MediaObject(3, 4, b"0123456789", 0x81, 7, 3)
    assert whole.position == (3, 4)
    assert whole.size == 10


def test_an_object_of_one_fragment_is_there_at_once() -> None:
    assert whole_of([WHOLE]) == MediaObject(3, 4, WHOLE.data, 0x81, 7, 0)


@rule("Q-12")
@given(deliveries(media_of(3, 2)))
def test_objects_are_put_together_side_by_side(fragments: list[Fragment]) -> None:
    """With repeats and overlaps."""
    assembler = Assembler()
    done: dict[Position, MediaObject] = {}
    for fragment in fragments:
        if fragment.position not in done:
            whole = assembler.add(fragment, 0.0)
            if whole is not None:
                done[whole.position] = whole
    assert assembler.size == 0
    for whole in media_of(3, 2):
        found = done[whole.position]
        assert found.payload in (whole.data, None)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=20), st.integers(20, 40)
)
def test_what_a_partial_object_holds_is_counted(
    stretches: list[tuple[int, int]], size: int
) -> None:
    """And let go."""
    data = bytes(range(size))
    assembler = Assembler()
    for start, length in stretches:
        part = Fragment(0, 0, start, data[start : start + length], False)
        if assembler.add(part, 0.0) is not None or not part.data:
            continue
        assert assembler.size >= assembly.PARTIAL_BYTES
    if assembler.oldest is not None:
        assembler.give_up_oldest()
    assert assembler.size == 0


@rule("K-3")
def test_the_first_flags_that_are_not_0_count() -> None:
    """The prototype sends 0 with what it repeats."""
    first, second, third = pieces(WHOLE, 2, 7)
    for flags in ((0, 0x81, 0x83), (0x81, 0, 0), (0x81, 0x83, 0), (0, 0, 0x81)):
        parts = [
            each._replace(flags=each_flags)
            for each, each_flags in zip((first, second, third), flags, strict=True)
        ]
        whole = whole_of(parts)
        assert whole is not None
        assert whole.flags == 0x81


def test_the_longest_delay_counts() -> None:
    first, second, third = pieces(WHOLE, 2, 7)
    whole = whole_of([first, second._replace(queue_delay=90), third._replace(queue_delay=30)])
    assert whole is not None
    assert whole.queue_delay == 90


@rule("Q-36")
def test_a_hole_is_an_object_without_payload() -> None:
    """Also of one that has begun, of which no more will come then."""
    missing = hole(WHOLE.position)
    for before in ([], [stretch(WHOLE, 0, 4)], [stretch(WHOLE, 6, 10)]):
        whole = whole_of([*before, missing])
        assert whole is not None
        assert (whole.payload, whole.flags, whole.size) == (None, 0xFF, 0)


def test_an_end_may_come_alone() -> None:
    first = WHOLE._replace(last=False)
    end = WHOLE._replace(offset=10, data=b"")
    for parts in ([first, end], [end, first]):
        whole = whole_of(parts)
        assert whole is not None
        assert whole.payload == WHOLE.data


def test_a_fragment_that_says_nothing_begins_nothing() -> None:
    assembler = Assembler()
    assert assembler.add(WHOLE._replace(data=b"", last=False), 0.0) is None
    assert assembler.oldest is None


@pytest.mark.parametrize(
    ("before", "other", "text"),
    [
        (stretch(WHOLE, 6, 10), Fragment(3, 4, 6, b"abcdef", False), "at byte 12, and had 10"),
        (stretch(WHOLE, 6, 10), Fragment(3, 4, 11, b"", True), "at byte 11, and had 10"),
        (stretch(WHOLE, 6, 10), Fragment(3, 4, 5, b"", True), "at byte 5, and had 10"),
        (stretch(WHOLE, 5, 9), Fragment(3, 4, 2, b"ab", True), "at byte 4, and had 9 or more"),
        (stretch(WHOLE, 0, 9), Fragment(3, 4, 2, b"ab", True), "at byte 4, and had 9 or more"),
    ],
)
def test_a_fragment_that_contradicts_is_left_out(
    before: Fragment, other: Fragment, text: str
) -> None:
    """The first stays, and becomes whole."""
    assembler = Assembler()
    assembler.add(before, 0.0)
    size = assembler.size
    with pytest.raises(Contradiction, match=text):
        assembler.add(other, 0.0)
    assert assembler.add(other, 0.0) is None
    assert assembler.size == size
    rest = [stretch(WHOLE, 0, before.offset), stretch(WHOLE, before.stop, 10)]
    found = [assembler.add(each, 0.0) for each in rest if each.data]
    assert [each.payload for each in found if each is not None] == [WHOLE.data]


def test_the_object_that_was_begun_first_is_the_oldest() -> None:
    assembler = Assembler()
    for object in (5, 2, 9):
        assembler.add(Fragment(0, object, 0, b"a", False), 0.0)
    assembler.add(Fragment(0, 5, 1, b"b", False), 1.0)
    for object in (5, 2, 9):
        assert assembler.oldest == (0, object)
        assembler.give_up_oldest()
    assert assembler.oldest is None
    assert assembler.size == 0


def test_too_many_stretches_end_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "STRETCHES", 3)
    assembler = Assembler()
    for offset in (2, 4, 6):
        assembler.add(Fragment(0, 0, offset, b"a", False), 0.0)
    with pytest.raises(TooScattered):
        assembler.add(Fragment(0, 0, 8, b"a", False), 0.0)
    assert assembler.oldest is None
    assert assembler.size == 0


@pytest.mark.parametrize(
    "offsets",
    [[0], [5], [*range(200)], [*range(199, 0, -1)], [*range(1, 400, 2)], [*range(0, 90_000, 1000)]],
    ids=["start", "middle", "in order", "backwards", "holes", "scattered"],
)
@pytest.mark.parametrize("length", [1, 1000])
def test_the_size_is_what_python_holds(offsets: list[int], length: int) -> None:
    """At least; and no more than three times as much."""
    objects = max(20, 2000 // len(offsets))
    tracemalloc.start()
    try:
        assembler = Assembler()
        for object in range(objects):
            for offset in offsets:
                assembler.add(Fragment(0, 300 + object, offset, bytes(length), False), 0.0)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used <= assembler.size <= 3 * used
