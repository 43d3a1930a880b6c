"""Which piece of a media is next, and what of it is given up."""

from __future__ import annotations

import pytest

from aqueduct_core.quicr.media.drop_level import DropLevel
from aqueduct_core.quicr.media.fragment import Fragment, hole
from aqueduct_core.quicr.media.position import BEGIN, Position
from aqueduct_core.quicr.media.source import NextFragment
from aqueduct_core.quicr.sending import REMEMBERED, MediaSender, SendRank
from tests.support.rules import rule

LOW, HIGH = 0x81, 0x83


class Given:
    """A source of these fragments. ``live``: they came behind the reader."""

    def __init__(self, *fragments: Fragment, live: bool = True) -> None:
        self.start = BEGIN
        self.final: Position | None = None
        self._live = live
        self._left = list(fragments)

    def peek(self) -> NextFragment | None:
        return NextFragment(self._left[0], 1.5, self._live) if self._left else None

    def advance(self) -> None:
        del self._left[0]


def whole(group: int, number: int, flags: int = 0, data: bytes = b"data") -> Fragment:
    return Fragment(group, number, 0, data, True, flags, 0, None if number else 0)


def halves(group: int, number: int, flags: int = 0) -> list[Fragment]:
    return [
        Fragment(group, number, 0, b"da", False, flags, 0, None if number else 0),
        Fragment(group, number, 2, b"ta", True, flags),
    ]


def level(at: int | None) -> DropLevel:
    made = DropLevel("low", 0.1, 0.05)
    made.level = at
    return made


def pieces(sender: MediaSender, most: int = 1_000) -> list[Fragment]:
    taken = []
    while (piece := sender.piece(most)) is not None:
        taken.append(piece)
    return taken


@rule("Q-12", "Q-32")
@pytest.mark.parametrize("most", range(1, 12))
def test_pieces_are_no_longer_than_asked_for(most: int) -> None:
    fragment = Fragment(1, 0, 5, bytes(range(10)), True, LOW, 7, 3)
    taken = pieces(MediaSender(0, Given(fragment), None, None), most)
    assert b"".join(piece.data for piece in taken) == fragment.data
    assert [piece.offset for piece in taken] == list(range(5, 15, most))
    assert max(len(piece.data) for piece in taken) == min(most, 10)
    assert [piece.last for piece in taken] == [False] * (len(taken) - 1) + [True]
    assert [piece.previous for piece in taken] == [3] + [None] * (len(taken) - 1)
    assert {(piece.flags, piece.queue_delay) for piece in taken} == {(LOW, 7)}


@rule("Q-34", "Q-36")
def test_an_object_that_is_dropped_is_a_hole_and_its_rest_is_left_out() -> None:
    source = Given(whole(0, 0), *halves(0, 1, HIGH), *halves(0, 2, LOW), whole(0, 3, HIGH))
    sender = MediaSender(0, source, None, level(0x41))
    assert pieces(sender) == [
        whole(0, 0),
        hole(Position(0, 1)),
        *halves(0, 2, LOW),
        hole(Position(0, 3)),
    ]
    assert sender.dropped == [(0, 1), (0, 3)]


@rule("Q-34")
def test_what_has_begun_is_sent_to_its_end() -> None:
    source = Given(*halves(0, 0, HIGH), whole(0, 1, HIGH))
    drops = level(None)
    sender = MediaSender(0, source, None, drops)
    assert sender.piece(9) == halves(0, 0, HIGH)[0]
    drops.level = 0
    assert pieces(sender) == [halves(0, 0, HIGH)[1], hole(Position(0, 1))]


@rule("Q-34")
def test_a_fragment_that_was_cut_goes_to_its_end() -> None:
    drops = level(None)
    sender = MediaSender(0, Given(whole(0, 0, HIGH, b"abcd")), None, drops)
    assert sender.piece(2) == Fragment(0, 0, 0, b"ab", False, HIGH, 0, 0)
    drops.level = 0
    assert sender.piece(2) == Fragment(0, 0, 2, b"cd", True, HIGH)


@rule("Q-34")
def test_decided_by_the_piece_that_comes_first_in_any_order() -> None:
    first, second = halves(0, 1, HIGH)
    drops = level(0x41)
    sender = MediaSender(0, Given(second, first), 0, drops)
    assert sender.piece(9) == hole(Position(0, 1))
    drops.level = None
    assert sender.piece(9) is None
    drops = level(None)
    sender = MediaSender(0, Given(second, first), 0, drops)
    assert sender.piece(9) == second
    drops.level = 0x41
    assert sender.piece(9) == first


@rule("Q-34")
def test_a_group_goes_with_its_first_object() -> None:
    source = Given(
        whole(0, 0, HIGH), whole(0, 1, LOW), whole(0, 2, 0), whole(1, 0, LOW), whole(1, 1, LOW)
    )
    drops = level(0x41)
    sender = MediaSender(0, source, None, drops)
    taken = pieces(sender)
    assert [piece.is_hole for piece in taken] == [True, True, False, False, False]
    assert taken[0].previous == 0


@rule("Q-34")
def test_history_is_late_by_nature() -> None:
    source = Given(whole(0, 0, HIGH), whole(0, 1, HIGH), live=False)
    assert not any(piece.is_hole for piece in pieces(MediaSender(0, source, None, level(0))))


@rule("Q-36")
def test_a_hole_that_came_stays_one() -> None:
    came = hole(Position(0, 1), None)
    assert pieces(MediaSender(0, Given(whole(0, 0), came), None, level(0))) == [whole(0, 0), came]


def test_what_goes_first() -> None:
    def rank(flags: int, live: bool = True) -> SendRank | None:
        return MediaSender(0, Given(whole(0, 0, flags), live=live), None, level(None)).rank

    never, low, high, old = rank(0), rank(LOW), rank(HIGH), rank(0, live=False)
    assert never is not None
    assert low is not None
    assert high is not None
    assert old is not None
    assert never < old < low < high
    assert MediaSender(0, Given(), None, None).rank is None


def test_memory_of_decisions_is_bounded() -> None:
    parts = [halves(0, number, HIGH)[0] for number in range(1, 3 * REMEMBERED)]
    sender = MediaSender(0, Given(*parts), 0, level(0x41))
    assert len(pieces(sender)) == len(parts)
    assert len(sender._given_up) == REMEMBERED


def test_when_it_is_finished() -> None:
    source = Given(whole(0, 0))
    sender = MediaSender(0, source, 3, None)
    assert not sender.exhausted
    pieces(sender)
    assert not sender.exhausted
    source.final = Position(0, 1)
    assert sender.exhausted
    assert sender.finished
    sender.unconfirmed = 1
    assert not sender.finished
