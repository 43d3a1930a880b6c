"""The half that receives: in order, each once, within its window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.telehash.faults import PacketFault
from aqueduct_core.telehash.receiving import BufferedBytes, ReceivingHalf
from aqueduct_core.telehash.wire.channel_packets import ChannelPacket
from tests.support.rules import rule


def half(window: int = 100, most: int = 1 << 20) -> ReceivingHalf:
    return ReceivingHalf(2, window, BufferedBytes(most))


def take(receiving: ReceivingHalf, seq: int, *, end: bool = False) -> PacketFault | None:
    return receiving.take(ChannelPacket(2, seq, body=b"%d" % seq, end=end, size=20), seq)


def given_out(receiving: ReceivingHalf) -> list[int]:
    batch = receiving.batch(reliable=True)
    if batch is None:
        return []
    bodies = [int(item.payload) for item in batch.messages()]
    assert bodies == list(range(batch.first, batch.first + batch.count))
    assert batch.size == 20 * batch.count
    return bodies


@rule("T-5")
def test_packets_come_out_in_order_and_once() -> None:
    receiving = half()
    for seq in (2, 0, 0, 1, 2, 4, 1, 3):
        assert take(receiving, seq) is None
    assert given_out(receiving) == [0, 1, 2, 3, 4]
    assert given_out(receiving) == []


@rule("T-11")
def test_what_is_missing_is_known_up_to_the_highest_that_came() -> None:
    receiving = half()
    take(receiving, 0)
    assert receiving.missing() == []
    take(receiving, 4)
    take(receiving, 2)
    assert receiving.missing() == [1, 3]
    take(receiving, 1)
    assert receiving.missing() == [3]
    take(receiving, 3)
    assert receiving.missing() == []
    assert not receiving.has_gap


@rule("T-12")
def test_no_more_than_a_hundred_are_named_as_missing() -> None:
    receiving = half(1_000)
    take(receiving, 999)
    assert receiving.missing() == [*range(100)]


@rule("T-5")
def test_the_window_begins_behind_what_was_processed() -> None:
    receiving = half(4)
    for seq in range(4):
        assert take(receiving, seq) is None
    assert take(receiving, 4) is PacketFault.BEYOND_WINDOW
    receiving.process(0, 1)
    assert take(receiving, 4) is None
    assert take(receiving, 5) is PacketFault.BEYOND_WINDOW


@rule("T-6", "T-7")
def test_what_was_processed_counts_in_order() -> None:
    receiving = half()
    for seq in range(6):
        take(receiving, seq)
    assert not receiving.process(2, 4)
    assert receiving.done == 0
    assert receiving.process(0, 2)
    assert receiving.done == 4
    assert not receiving.process(0, 3)
    assert receiving.process(3, 99)
    assert receiving.done == 6


@rule("T-18", "P-5")
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 3, 0, 1), (0, 2, 3, 1)])
def test_nothing_comes_out_behind_the_end(order: tuple[int, ...]) -> None:
    receiving = half()
    faults = [take(receiving, seq, end=seq == 1) for seq in order]
    assert given_out(receiving) == [0, 1]
    assert receiving.ended
    assert not receiving.has_gap
    assert faults.count(PacketFault.BEHIND_END) == sum(seq > 1 for seq in order[order.index(1) :])


def test_the_first_of_two_ends_counts() -> None:
    receiving = half()
    take(receiving, 3, end=True)
    take(receiving, 1, end=True)
    take(receiving, 2)
    take(receiving, 0)
    assert given_out(receiving) == [0, 1]
    assert receiving.end_seq == 1


def test_bytes_that_wait_are_bounded_and_given_back() -> None:
    receiving = half(most=1_000)
    buffered = receiving._buffered
    assert take(receiving, 2) is None
    assert take(receiving, 4) is None
    assert take(receiving, 6) is PacketFault.NO_ROOM
    assert buffered.waiting == 840
    for seq in (0, 1, 3):
        assert take(receiving, seq) is None
    assert buffered.waiting == 0
    assert given_out(receiving) == [0, 1, 2, 3, 4]
    assert buffered.delivering == 0


@rule("T-5", "T-11")
@given(st.lists(st.integers(0, 25), max_size=80), st.integers(0, 20))
def test_any_order_with_repeats_gives_a_prefix_once(order: list[int], end: int) -> None:
    receiving = half(20)
    came: set[int] = set()
    out: list[int] = []
    for seq in order:
        if take(receiving, seq, end=seq == end) is None:
            came.add(seq)
        if end in came:
            came = {each for each in came if each <= end}
        out += given_out(receiving)
        receiving.process(0, len(out))
        here = next(each for each in range(30) if each not in came)
        assert out == list(range(min(here, end + 1)))
        gaps = [each for each in range(len(out), max(came, default=0)) if each not in came]
        assert receiving.missing() == gaps
    assert (receiving._buffered.waiting == 0) == (not receiving.has_gap)
