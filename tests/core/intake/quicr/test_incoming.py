"""What becomes rows of a media, and what is told of as missing, whatever comes again or late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aqueduct_core.intake.quicr.incoming import LARGE, Arrived, IncomingMedia, Missing
from aqueduct_core.intake.quicr.media import MediaIntake
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.quicr.media.fragment import Fragment, hole
from aqueduct_core.quicr.media.position import BEGIN, Position, at_number
from tests.support.rules import rule

TIMEOUT = 5.0


class Spool:
    """What is marked as stored, as a group commit marks it."""

    def __init__(self) -> None:
        self.known = RangeSet()
        self.ended = RangeSet()
        self.rows: list[tuple[int, int]] = []

    def store(self, arrived: list[Arrived]) -> list[tuple[int, int]]:
        """The positions of these that are new rows."""
        new = []
        for each in arrived:
            for number in each.numbers.tolist():
                if self.known.add(number, number + 1):
                    new.append(tuple(at_number(number)))
            self.known.add(*each.covered)
        self.rows += new
        return new


def incoming(spool: Spool, *, datagram: bool = True, **given: Any) -> IncomingMedia:
    return IncomingMedia(
        4,
        datagram=datagram,
        settings=MediaIntake(**{"hole_timeout": TIMEOUT, **given}),
        known=lambda: RangeSet(spool.known),
        ended=RangeSet(spool.ended),
        max_object=1 << 20,
    )


def piece(group: int, number: int, previous: int | None = None, data: bytes = b"x") -> Fragment:
    if number == 0 and group == 0:
        previous = 0
    return Fragment(group, number, 0, data, True, 0, 7, previous)


def missing(first: tuple[int, int], stop: tuple[int, int], *, lost: bool) -> Missing:
    return Missing(Position(*first).number, Position(*stop).number, lost)


@rule("Q-11")
def test_a_stream_is_one_range_of_marks() -> None:
    spool, now = Spool(), 0.0
    media = incoming(spool, datagram=False)
    for group in range(20):
        come = [piece(group, number, 3 if group else 0) for number in range(3)]
        media.handle(come, 10, now)
        assert media.missing() == []
        assert len(spool.store(media.arrived())) == 3
    assert len(spool.known) == 1
    assert spool.known.first == 0
    media.finish(Position(19, 3), now)
    assert media.complete


@rule("Q-13")
@pytest.mark.parametrize("order", ["media", "arrival"])
def test_datagrams_out_of_order_are_one_range_in_the_end(order: str) -> None:
    spool = Spool()
    media = incoming(spool, order=order)
    for at in [(0, 1), (1, 1), (0, 0), (2, 0), (1, 0)]:
        media.handle([piece(*at, 2)], 0, 0.0)
        assert media.missing() == []
        spool.store(media.arrived())
    media.finish(Position(2, 1), 0.0)
    assert media.complete
    assert media.missing() == []
    assert media.arrived() == []
    came = [(0, 1), (1, 1), (0, 0), (2, 0), (1, 0)]
    assert spool.rows == (sorted(came) if order == "media" else came)
    again = incoming(spool, order=order)  # as after a restart
    again.start_at(BEGIN, 1.0)
    again.handle([piece(*at, 2) for at in sorted(came)], 0, 1.0)
    again.handle([piece(3, 0, 1)], 0, 1.0)
    assert again.missing() == []
    assert spool.store(again.arrived()) == [(3, 0)]
    assert len(spool.known) == 1


def test_what_does_not_come_is_a_gap_and_stays_one() -> None:
    spool = Spool()
    media = incoming(spool)
    media.start_at(BEGIN, 0.0)
    media.handle([piece(0, 0), piece(0, 2)], 0, 0.0)
    assert spool.store(media.arrived()) == [(0, 0)]
    assert media.wake_at == TIMEOUT
    media.tick(TIMEOUT)
    assert media.missing() == [missing((0, 1), (0, 2), lost=False)]
    assert spool.store(media.arrived()) == [(0, 2)]
    assert list(spool.known) == [(0, 3)]
    again = incoming(spool)  # all comes again, and this time all of it
    again.handle([piece(0, number) for number in range(4)], 0, 9.0)
    again.start_at(BEGIN, 9.0)
    assert again.missing() == []
    assert spool.store(again.arrived()) == [(0, 3)]


@rule("Q-15")
def test_a_start_that_is_told_late_makes_no_gap() -> None:
    """A relay tells it behind the objects; only then it is known what is missing before."""
    spool = Spool()
    media = incoming(spool)
    media.handle([piece(5, 0, 4), piece(5, 1)], 0, 0.0)
    assert media.missing() == []
    assert media.arrived() == []
    media.tick(TIMEOUT)
    assert media.missing() == []  # it is not known whether one
    assert spool.store(media.arrived()) == [(5, 0), (5, 1)]
    media.start_at(Position(5, 0), TIMEOUT)
    assert media.missing() == []
    media.handle([piece(5, 2)], 0, TIMEOUT)
    assert spool.store(media.arrived()) == [(5, 2)]
    assert list(spool.known) == [(Position(5, 0).number, Position(5, 3).number)]


@rule("Q-15")
@pytest.mark.parametrize("how", ["finish", "over"])
def test_without_a_start_point_it_was_the_beginning(how: str) -> None:
    spool = Spool()
    media = incoming(spool)
    media.handle([piece(0, 3)], 0, 0.0)
    media.tick(TIMEOUT)
    assert media.missing() == []
    assert spool.store(media.arrived()) == [(0, 3)]
    if how == "finish":
        media.finish(Position(0, 4), TIMEOUT)
    assert media.missing(over=how == "over") == [missing((0, 0), (0, 3), lost=False)]


@pytest.mark.parametrize("datagram", [True, False])
def test_a_start_behind_what_is_stored_is_a_loss(datagram: bool) -> None:
    spool = Spool()
    spool.known.add(0, Position(2, 3).number)
    media = incoming(spool, datagram=datagram)
    media.start_at(Position(4, 1), 0.0)
    assert media.missing() == []  # not before its first object
    media.handle([piece(4, 1)], 5, 0.0)
    assert media.missing() == [missing((2, 3), (4, 1), lost=True)]
    assert spool.store(media.arrived()) == [(4, 1)]
    assert len(spool.known) == 1
    assert incoming(spool).missing() == []


@pytest.mark.parametrize(("previous", "lost"), [(3, []), (4, [missing((2, 3), (3, 0), lost=True)])])
def test_a_start_with_the_next_group_is_none_where_the_last_one_was_whole(
    previous: int, lost: list[Missing]
) -> None:
    """What is stored ends with object 2 of group 2, of which the sender counts so many (Q13)."""
    spool = Spool()
    spool.known.add(0, Position(2, 3).number)
    media = incoming(spool)
    media.start_at(Position(3, 0), 0.0)
    media.handle([piece(3, 1)], 0, 0.0)
    assert media.missing() == []
    media.handle([piece(3, 0, previous)], 0, 0.0)
    assert media.missing() == lost
    assert spool.store(media.arrived()) == [(3, 0), (3, 1)]
    assert len(spool.known) == 1


@rule("Q-19")
@pytest.mark.parametrize("datagram", [True, False])
def test_behind_an_end_the_next_post_begins_where_it_likes(datagram: bool) -> None:
    """As of micro-batches, each a group of its own, that post under one URL; of groups in which
    there was nothing for it something may still come."""
    spool = Spool()
    for group in (0, 1, 4, 3):
        media = incoming(spool, datagram=datagram)
        media.start_at(Position(group, 0), 0.0)
        media.handle([piece(group, 0, 0), piece(group, 1)], 9, 0.0)
        assert media.missing() == []
        assert spool.store(media.arrived()) == [(group, 0), (group, 1)]
        media.finish(Position(group, 2), 0.0)
        assert media.missing() == []
        assert media.complete
        end = Position(group, 2).number
        spool.ended.add(end, end + 1)
    first = (0, Position(1, 2).number)
    assert list(spool.known) == [
        first,
        (Position(3, 0).number, Position(3, 2).number),
        (Position(4, 0).number, Position(4, 2).number),
    ]
    broken = incoming(spool, datagram=datagram)
    broken.start_at(Position(6, 0), 0.0)
    broken.handle([piece(6, 0, 0)], 5, 0.0)
    assert broken.missing() == []
    spool.store(broken.arrived())  # and its end does not come
    late = incoming(spool, datagram=datagram)
    late.start_at(Position(7, 0), 0.0)
    late.handle([piece(7, 0, 1)] if not datagram else [piece(7, 0, 3)], 5, 0.0)
    assert late.missing() == [missing((6, 1), (7, 0), lost=True)]


def test_what_another_post_stores_meanwhile_is_not_missing() -> None:
    """Of one URL, at the same time."""
    spool = Spool()
    spool.known.add(0, 2)
    one, other = incoming(spool), incoming(spool)
    for media in (one, other):
        media.start_at(BEGIN, 0.0)
        media.handle([piece(0, number) for number in range(4)], 0, 0.0)
    behind = incoming(spool)
    behind.start_at(Position(0, 4), 0.0)
    for media in (one, other):
        assert media.missing() == []
        spool.store(media.arrived())
    behind.handle([piece(0, 4)], 0, 0.0)
    assert behind.missing() == []
    assert spool.store(behind.arrived()) == [(0, 4)]
    assert list(spool.known) == [(0, 5)]


def test_a_first_read_misses_nothing_wherever_it_begins() -> None:
    spool = Spool()
    media = incoming(spool, datagram=False)
    media.handle([piece(7, 2)], 5, 0.0)
    assert media.start == (7, 2)
    assert media.missing() == []
    assert spool.store(media.arrived()) == [(7, 2)]
    assert list(spool.known) == [(Position(7, 2).number, Position(7, 3).number)]


@rule("Q-16")
def test_what_is_not_wanted_is_neither_a_row_nor_missing() -> None:
    spool = Spool()
    media = incoming(spool, datagram=False, start_group=1, start_object=1)
    media.handle([piece(0, 0), piece(1, 0, 1), piece(1, 1), piece(1, 2)], 40, 0.0)
    assert media.missing() == []
    assert spool.store(media.arrived()) == [(1, 1), (1, 2)]
    assert media.owed() == 0
    assert list(spool.known) == [(Position(1, 1).number, Position(1, 3).number)]
    below = incoming(spool, datagram=False)
    below.handle([piece(0, 0), piece(1, 0, 1), piece(1, 1)], 30, 0.0)
    assert below.missing() == []
    assert spool.store(below.arrived()) == [(0, 0), (1, 0)]
    assert len(spool.known) == 1


@rule("Q-36")
def test_holes_are_rows_without_content() -> None:
    media = incoming(Spool(), datagram=False)
    media.handle([piece(0, 0), hole(Position(0, 1)), piece(0, 2, data=b"yz")], 30, 0.0)
    media.finish(Position(0, 3), 0.0)
    media.missing()
    [arrived] = media.arrived()
    batch = arrived.batch
    assert (batch.count, batch.payload, batch.absent, arrived.holes) == (3, b"xyz", (1,), 1)
    assert batch.offsets.tolist() == [0, 1, 1, 3]
    assert batch.flags.tolist() == [0, 0xFF, 0]
    assert batch.delays is None
    assert batch.last == [False, False, True]
    assert batch.size == 30


def test_the_end_of_a_group_is_known_by_the_next_one() -> None:
    media = incoming(Spool(), datagram=False)
    media.handle([piece(0, 0), piece(0, 1), piece(1, 0, 2)], 3, 0.0)
    [arrived] = media.arrived()
    assert arrived.batch.last == [False, True, None]
    other = incoming(Spool())
    other.start_at(BEGIN, 0.0)
    other.handle([piece(0, 0), piece(1, 0, None)], 0, 0.0)
    other.tick(TIMEOUT)
    other.missing()
    assert [known for each in other.arrived() for known in each.batch.last] == [None, None]


def test_large_objects_are_not_joined() -> None:
    payloads = [bytes([n]) * LARGE for n in range(3)]
    media = incoming(Spool(), datagram=False)
    media.handle([piece(0, n, data=data) for n, data in enumerate(payloads)], 50_000, 0.0)
    media.missing()
    arrived = media.arrived()
    assert [each.batch.payload for each in arrived] == payloads
    assert all(each.batch.payload is data for each, data in zip(arrived, payloads, strict=True))
    assert [each.batch.size for each in arrived] == [0, 0, 50_000]
    assert arrived[-1].covered == (0, 3)


def test_credit_of_what_is_not_whole_is_owed_at_once() -> None:
    media = incoming(Spool(), datagram=False)
    media.handle([Fragment(0, 0, 0, b"a" * 100, False)], 120, 0.0)
    before = media.size
    assert media.arrived() == []
    assert (media.owed(), media.owed()) == (120, 0)
    media.handle([Fragment(0, 0, 100, b"b", True)], 20, 0.0)
    media.missing()
    [arrived] = media.arrived()
    assert (arrived.batch.size, media.owed()) == (20, 0)
    assert media.size < before


def test_of_datagrams_payloads_count_and_delays_are_kept() -> None:
    media = incoming(Spool())
    media.start_at(BEGIN, 0.0)
    media.handle([piece(0, 0, data=b"abc"), piece(0, 1)], 0, 0.0)
    media.missing()
    [arrived] = media.arrived()
    assert arrived.batch.size == 4
    assert arrived.batch.delays is not None
    assert arrived.batch.delays.tolist() == [7, 7]
    assert arrived.numbers.dtype == np.int64


def test_other_content_is_told_by_position() -> None:
    media = incoming(Spool())
    media.handle([piece(0, 0), piece(0, 1)], 0, 0.0)
    media.handle([piece(0, 1, data=b"y")], 0, 0.0)
    assert media.conflicts() == [(0, 1)]
    assert media.conflicts() == []
