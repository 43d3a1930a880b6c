"""Numbers that were used, and channels that ended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.telehash.known_channels import (
    MAX_SKIPPED,
    EndedChannels,
    OpenedNumbers,
    QuietChannels,
)
from tests.support.rules import rule


@rule("P-3")
@given(st.lists(st.integers(1, 200).map(lambda n: 2 * n)))
def test_each_number_is_used_once_in_any_order(numbers: list[int]) -> None:
    opened = OpenedNumbers(odd=False)
    used: set[int] = set()
    for number in numbers:
        assert opened.is_peers(number)
        assert (number in opened) == (number in used)
        opened.add(number)
        used.add(number)


@rule("P-3")
def test_numbers_skipped_long_ago_count_as_used() -> None:
    opened = OpenedNumbers(odd=True)
    for number in range(1, 4 * MAX_SKIPPED + 5, 4):
        opened.add(number)
    assert 3 in opened
    assert 4 * MAX_SKIPPED - 1 not in opened
    assert not opened.is_peers(2)


@rule("T-17")
def test_a_channel_that_ended_acks_again_until_it_was_idle() -> None:
    ended = EndedChannels(10, 10.0)
    ended.add(2, b"ack", None, 0.0)
    ended.expire(9.9)
    assert ended.answer(2, 9.9) == b"ack"
    ended.heard(2, 9.9)
    assert ended.next == 19.9
    ended.expire(19.8)
    assert 2 in ended
    ended.expire(19.9)
    assert 2 not in ended
    assert ended.answer(2, 20.0) is None


@rule("P-6")
def test_one_that_failed_says_so_again_once_a_second() -> None:
    ended = EndedChannels(10, 10.0)
    ended.add(2, b"ack", b"failure", 0.0)
    assert [ended.answer(2, at) for at in (1.0, 1.5, 2.0)] == [b"failure", None, b"failure"]


def test_one_that_has_processed_nothing_says_nothing() -> None:
    ended = EndedChannels(10, 10.0)
    ended.add(2, None, None, 0.0)
    assert ended.answer(2, 1.0) is None


def test_the_oldest_are_forgotten_first() -> None:
    ended = EndedChannels(3, 10.0)
    for number in (2, 4, 6):
        ended.add(number, b"ack", None, 0.0)
    ended.heard(2, 1.0)
    ended.add(8, b"ack", None, 1.0)
    assert [number in ended for number in (2, 4, 6, 8)] == [True, False, True, True]
    assert len(ended) == 3


def test_who_is_silent_for_longest_gives_way() -> None:
    quiet = QuietChannels(10.0)
    for number, at in ((2, 0.0), (4, 1.0), (2, 5.0)):
        quiet.heard(number, at)
    assert quiet.idlest(10.9) is None
    assert quiet.idlest(11.0) == 4
    quiet.forget(4)
    assert quiet.idlest(14.0) is None
    assert quiet.idlest(15.0) == 2
