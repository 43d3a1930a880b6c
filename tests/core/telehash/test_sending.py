"""The half that sends: numbers, what is kept, and what goes again when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.telehash.config import MAX_SEQ
from aqueduct_core.telehash.faults import SequenceExhausted
from aqueduct_core.telehash.sending import SendingHalf, UnreliableQueue
from tests.support.rules import rule


def half(packets: int, *, sent: int | None = None, window: int = 32) -> SendingHalf:
    made = SendingHalf(window, 10.0)
    for _ in range(packets):
        made.add(b"", b"x", 50, end=False)
    for _ in range(packets if sent is None else sent):
        made.take(0.0)
    return made


def taken(half: SendingHalf, now: float) -> list[int]:
    out = []
    while (packet := half.take(now)) is not None:
        out.append(packet.seq)
    return out


@rule("T-3", "T-4")
def test_numbers_rise_by_one_and_all_are_kept_until_acked() -> None:
    sending = half(5, sent=0)
    assert taken(sending, 0.0) == [0, 1, 2, 3, 4]
    assert (sending.unacked, sending.room) == (5, 27)
    assert sending.on_ack(2, 1.0)
    assert (sending.unacked, sending.acked) == (2, 3)
    assert sending.on_ack(4, 1.0)
    assert (sending.unacked, sending.size, sending.due) == (0, 0, None)


@rule("T-6", "T-9")
def test_an_older_ack_changes_nothing() -> None:
    sending = half(5)
    sending.on_ack(3, 1.0)
    assert not sending.on_ack(3, 2.0)
    assert not sending.on_ack(1, 2.0)
    assert (sending.acked, sending.unacked) == (4, 1)


@rule("T-13")
def test_what_is_missed_goes_at_once_and_then_once_a_second() -> None:
    sending = half(5)
    sending.on_miss([1, 3], 0.1)
    assert taken(sending, 0.1) == [1, 3]
    sending.on_miss([1, 3], 0.5)
    assert not sending.ready
    sending.on_miss([3], 1.0)
    assert sending.due == pytest.approx(1.1)
    assert sending.tick(1.0)
    assert not sending.ready
    assert sending.tick(1.1)
    assert taken(sending, 1.1) == [1, 3]


@rule("T-13")
def test_what_is_acked_meanwhile_does_not_go_again() -> None:
    sending = half(5)
    sending.on_miss([1], 0.1)
    assert taken(sending, 0.1) == [1]
    sending.on_miss([1], 0.2)
    sending.on_ack(3, 0.3)
    assert sending.tick(1.5)
    assert not sending.ready


@rule("T-16")
def test_the_last_packet_and_the_first_that_is_missing_go_every_two_seconds() -> None:
    sending = half(4)
    sending.on_ack(0, 0.5)
    times = []
    now = 0.0
    while (due := sending.due) is not None:
        now = due
        if not sending.tick(now):
            break
        times.append((now, taken(sending, now)))
    assert times == [(2.0, [1, 3]), (4.0, [1, 3]), (6.0, [1, 3]), (8.0, [1, 3]), (10.0, [1, 3])]
    assert now == pytest.approx(10.5)


@rule("T-16", "P-7")
def test_it_is_given_up_when_nothing_was_acked_for_the_timeout() -> None:
    sending = half(4)
    assert sending.tick(9.9)
    sending.on_ack(1, 9.9)
    assert sending.tick(19.8)
    assert not sending.tick(19.9)


def test_the_time_begins_with_the_first_packet_that_is_under_way() -> None:
    sending = half(1)
    sending.on_ack(0, 1.0)
    sending.add(b"", b"x", 50, end=False)
    assert sending.due is None
    assert taken(sending, 100.0) == [1]
    assert sending.due == 102.0


@rule("T-3")
def test_only_an_end_has_the_highest_number() -> None:
    sending = half(0)
    sending.next_seq = sending.sent = sending.acked = MAX_SEQ
    with pytest.raises(SequenceExhausted):
        sending.check(end=False)
    sending.check(end=True)
    assert sending.add(b"", b"", 50, end=True) == MAX_SEQ
    assert sending.room == 0


@rule("T-14")
def test_what_a_miss_passes_over_does_not_go_again_and_is_kept() -> None:
    """It may have been received; that it was processed, only an ack says."""
    sending = half(5)
    sending.on_miss([1, 4], 0.1)
    assert taken(sending, 0.1) == [1, 4]
    assert sending.unacked == 5


@given(st.lists(st.tuples(st.sampled_from("smat"), st.integers(0, 40)), max_size=60))
def test_counters_hold_whatever_happens(steps: list[tuple[str, int]]) -> None:
    sending = SendingHalf(8, 10.0)
    now = 0.0
    resent: dict[int, float] = {}
    for kind, number in steps:
        now += number / 20
        match kind:
            case "s" if sending.room:
                sending.add(b"", b"x", 50, end=False)
            case "m":
                sending.on_miss([number, number + 2], now)
            case "a" if number < sending.sent:
                sending.on_ack(number, now)
            case "t":
                sending.tick(now)
        before = sending.sent
        for seq in taken(sending, now):
            if seq < before:
                assert now >= resent.get(seq, -1.0) + 1.0
                resent[seq] = now
        assert sending.acked <= sending.sent == sending.next_seq
        assert sending.unacked == sending.next_seq - sending.acked <= 8
        assert (sending.size == 0) == (sending.unacked == 0)


def test_an_unreliable_packet_is_gone_when_it_was_taken() -> None:
    queue = UnreliableQueue(2)
    queue.add(b"", b"a", 50, end=False)
    queue.add(b"", b"b", 50, end=True)
    assert (queue.room, queue.complete, queue.unacked) == (0, False, 2)
    assert [packet.body for packet in (queue.take(0), queue.take(0)) if packet] == [b"a", b"b"]
    assert (queue.take(0), queue.peek(), queue.size, queue.complete) == (None, None, 0, True)
