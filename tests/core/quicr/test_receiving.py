"""What a peer may send of a media, and in which order."""

from __future__ import annotations

import pytest

from aqueduct_core.quicr.faults import ProtocolFault
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.receiving import MediaReceiver
from tests.support.rules import rule


def piece(group: int, number: int, offset: int = 0, size: int = 2, last: bool = True) -> Fragment:
    return Fragment(group, number, offset, bytes(size), last)


def stream(*fragments: Fragment, start: tuple[int, int] | None = None) -> MediaReceiver:
    receiver = MediaReceiver(None, 1_000)
    if start is not None:
        receiver.start_point(Position(*start))
    receiver.on_stream(fragments)
    return receiver


@rule("Q-11")
def test_a_stream_is_in_order_and_says_how_many_objects_a_group_had() -> None:
    receiver = MediaReceiver(None, 1_000)
    told = receiver.on_stream(
        [piece(0, 0), piece(0, 1, 0, 2, False), piece(0, 1, 2), piece(1, 0), piece(2, 0)]
    )
    assert [each.previous for each in told] == [None, None, None, 2, 1]
    assert [each.previous for each in receiver.on_stream([piece(2, 1), piece(3, 0)])] == [None, 2]


@rule("Q-11")
@pytest.mark.parametrize(
    ("before", "fragment", "text"),
    [
        ([piece(0, 0)], piece(0, 2), r"of object \(0, 2\) comes where byte 0 of object \(0, 1"),
        ([piece(0, 0)], piece(0, 0), r"where .* \(0, 1\), or object \(1, 0\) is next"),
        ([piece(0, 0)], piece(2, 0), r"object \(2, 0\) comes where"),
        ([piece(0, 0)], piece(1, 1), r"object \(1, 1\) comes where"),
        ([piece(0, 0, 0, 2, False)], piece(0, 0, 3), r"byte 3 of .* comes where byte 2"),
        ([piece(0, 0, 0, 2, False)], piece(1, 0), r"where byte 2 of object \(0, 0\) is next"),
        ([], piece(0, 0, 3), "byte 3 of object"),
    ],
)  # fmt: skip
def test_a_gap_on_a_stream_is_a_fault(
    before: list[Fragment], fragment: Fragment, text: str
) -> None:
    for together in (True, False):
        receiver = MediaReceiver(None, 1_000)
        if not together and before:
            receiver.on_stream(before)
        with pytest.raises(ProtocolFault, match=text):
            receiver.on_stream([*before, fragment] if together else [fragment])


@rule("Q-15")
def test_a_stream_begins_at_its_start_point_or_with_what_comes_first() -> None:
    receiver = stream(piece(3, 2), start=(3, 2))
    assert receiver.start == (3, 2)
    assert stream(piece(3, 2)).start == (3, 2)
    with pytest.raises(ProtocolFault, match=r"\(3, 3\) comes where byte 0 of object \(3, 2\)"):
        stream(piece(3, 3), start=(3, 2))


@rule("Q-15")
def test_a_start_point_that_contradicts_is_a_fault() -> None:
    receiver = MediaReceiver(None, 1_000)
    assert receiver.start_point(Position(3, 2))
    assert not receiver.start_point(Position(3, 2))
    with pytest.raises(ProtocolFault, match=r"START_POINT \(4, 0\) comes behind the start point"):
        receiver.start_point(Position(4, 0))
    with pytest.raises(ProtocolFault, match=r"START_POINT \(4, 0\) comes behind fragments"):
        stream(piece(0, 0)).start_point(Position(4, 0))
    assert not stream(piece(0, 0)).start_point(Position(0, 0))


@rule("Q-15")
def test_of_datagrams_the_start_point_may_come_late() -> None:
    receiver = MediaReceiver(7, 1_000)
    receiver.in_datagram(piece(5, 1))
    receiver.finish(Position(5, 2))
    assert receiver.start_point(Position(5, 1))


@rule("Q-8", "Q-19")
def test_the_final_point_of_a_stream_is_where_it_stands() -> None:
    receiver = stream(piece(0, 0), piece(0, 1))
    assert receiver.stream_final == (0, 2)
    receiver.finish(Position(0, 2))
    with pytest.raises(ProtocolFault, match=r"FIN \(0, 2\) comes behind the final point \(0, 2\)"):
        receiver.finish(Position(0, 2))
    with pytest.raises(ProtocolFault, match=r"\(1, 0\) comes behind the final point \(0, 2\)"):
        receiver.on_stream([piece(1, 0)])
    with pytest.raises(
        ProtocolFault, match=r"FIN \(0, 3\) comes where the stream stands at \(0, 1\)"
    ):
        stream(piece(0, 0)).finish(Position(0, 3))
    with pytest.raises(ProtocolFault, match=r"FIN \(0, 1\) comes where the stream stands"):
        stream(piece(0, 0, 0, 2, False)).finish(Position(0, 1))
    empty = MediaReceiver(None, 1_000)
    empty.finish(Position(0, 0))
    assert empty.final == (0, 0)


@rule("Q-9")
def test_no_datagram_lies_behind_the_final_point() -> None:
    receiver = MediaReceiver(7, 1_000)
    receiver.finish(Position(2, 3))
    assert receiver.in_datagram(piece(2, 2))
    assert not receiver.in_datagram(piece(2, 3, last=False))  # of a feed that broke off
    assert not receiver.in_datagram(piece(2, 3, 2))
    with pytest.raises(ProtocolFault, match=r"object \(2, 3\) lies behind"):
        receiver.in_datagram(piece(2, 3))


@rule("Q-30")
def test_a_final_point_before_what_was_passed_on_lies_behind_it() -> None:
    """As the prototype names it where its feed broke off."""
    receiver = stream(piece(0, 0), piece(0, 1, 0, 2, False))
    receiver.finish(Position(0, 1))
    assert receiver.final == (0, 2)
    receiver = MediaReceiver(7, 1_000)
    for each in (piece(2, 3), piece(2, 1), piece(1, 9)):
        assert receiver.in_datagram(each)
    receiver.finish(Position(2, 2))
    assert receiver.final == (2, 4)
    assert receiver.in_datagram(piece(2, 2, 2))
    assert not receiver.in_datagram(piece(2, 4))


@rule("Q-30")
def test_a_stream_that_just_ends_is_whole_behind_an_object() -> None:
    assert stream(piece(0, 0), piece(1, 0)).whole
    assert not stream(piece(0, 0), piece(0, 1, 0, 2, False)).whole
    assert not MediaReceiver(None, 1_000).whole
