"""Actions on their way out."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.faults import Code, PeerFault, ResetCode
from aqueduct_core.aqueduct.outbox import Outbox, Rank
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.actions import (
    Admit,
    CloseLink,
    Consumed,
    ResetStream,
    SendDatagram,
    WriteStream,
)
from tests.support.rules import rule


def outbox(side: Side = Side.CLIENT, prefix: bytes = b"") -> Outbox:
    return Outbox(side, lambda: prefix)


@pytest.mark.parametrize(("side", "first"), [(Side.CLIENT, 2), (Side.SERVER, 3)])
def test_streams_of_each_side_are_unidirectional_and_in_order(side: Side, first: int) -> None:
    box = outbox(side)
    assert [box.open(Rank.SENDER) for _ in range(3)] == [first, first + 4, first + 8]


@rule("AQ-VER-1")
def test_what_is_owed_in_front_comes_first_on_each_stream_and_datagram() -> None:
    box = outbox(prefix=b"V")
    box.write(box.open(Rank.SENDER), b"a", Rank.SENDER, end=True)
    box.open(Rank.SENDER)
    assert box.datagram(box.prefixed(b"d")) == 0
    assert box.take() == [
        WriteStream(2, b"Va", True),
        WriteStream(6, b"V", False),
        SendDatagram(b"Vd", 0),
    ]


def test_a_burst_leaves_as_one_order_for_a_stream_each_byte_once() -> None:
    box = outbox()
    stream = box.open(Rank.SENDER)
    for part in (b"a", b"", b"bc"):
        box.write(stream, part, Rank.SENDER)
    assert box.take() == [WriteStream(stream, b"abc", False)]
    assert box.take() == []
    box.write(stream, b"", Rank.SENDER, end=True)
    assert box.take() == [WriteStream(stream, b"", True)]
    box.write(stream, b"late", Rank.SENDER)
    assert box.take() == []


def test_a_stream_leaves_with_the_first_of_what_is_on_it() -> None:
    box = outbox()
    messages, acks, both = (
        box.open(rank) for rank in (Rank.MESSAGE, Rank.RECEIVER, Rank.MESSAGE)
    )  # fmt: skip
    box.write(both, b"message", Rank.MESSAGE)
    box.write(both, b"end", Rank.SENDER)
    box.write(both, b"", Rank.MESSAGE)
    box.write(messages, b"message", Rank.MESSAGE)
    box.write(acks, b"ack", Rank.RECEIVER)
    assert box.take() == [
        WriteStream(acks, b"ack", False, urgent=True),
        WriteStream(both, b"messageend", False),
        WriteStream(messages, b"message", False),
    ]
    box.write(messages, b"m", Rank.MESSAGE)
    box.write(both, b"m", Rank.MESSAGE)
    assert [action.stream_id for action in box.take()] == [messages, both]  # type: ignore[union-attr]


@pytest.mark.parametrize("rank", list(Rank))
def test_what_is_on_streams_without_messages_is_urgent(rank: Rank) -> None:
    """It leaves ahead of the messages of earlier bursts, which the transport has already."""
    box = outbox()
    stream = box.open(rank)
    for urgent in (False, True, False):
        box.write(stream, b"x", rank, urgent=urgent)
        (action,) = box.take()
        assert action == WriteStream(stream, b"x", False, urgent or rank <= Rank.FORGET)


@rule("AQ-SEND-15")
def test_a_stream_that_the_peer_stops_is_reset_and_takes_nothing_more() -> None:
    box = outbox()
    first, second = box.open(Rank.SENDER), box.open(Rank.SENDER)
    box.write(first, b"never leaves", Rank.SENDER)
    for stream in (first, second + 4, 3):  # one of ours, one to come, one of the peer
        box.stopped(stream)
    assert box.take() == [WriteStream(second, b"", False), ResetStream(first, ResetCode.NONE)]
    box.write(first, b"late", Rank.SENDER)
    assert box.take() == []
    box.reset(second, ResetCode.LOST)
    assert box.take() == [ResetStream(second, ResetCode.LOST)]


def test_credit_is_told_once_for_all_bytes_of_a_stream() -> None:
    box = outbox()
    for stream, count in ((3, 5), (7, 1), (3, 2), (11, 0)):
        box.consumed(stream, count)
    assert box.take() == [Consumed(3, 7), Consumed(7, 1)]
    assert box.take() == []


def test_the_peer_is_admitted_before_anything_is_written_to_it() -> None:
    box = outbox()
    stream = box.open(Rank.SENDER)
    box.admit()
    assert box.take() == [Admit(), WriteStream(stream, b"", False)]
    assert box.take() == []


def all_kinds(box: Outbox) -> None:
    box.open(Rank.SENDER)
    box.reset(box.open(Rank.SENDER), ResetCode.LOST)
    box.datagram(b"d")
    box.consumed(3, 1)


def test_a_link_ends_behind_all_else_or_instead_of_it() -> None:
    box = outbox()
    all_kinds(box)
    box.close(0, "done", drop=False)
    *others, last = box.take()
    assert len(others) == 4
    assert last == CloseLink(0, "done")
    all_kinds(box)
    box.close(1, "fault", drop=True)
    assert box.take() == [CloseLink(1, "fault")]
    assert box.take() == []


def test_nothing_leaves_where_the_link_is_gone() -> None:
    box = outbox()
    all_kinds(box)
    box.close(0, "done", drop=False)
    box.abandon()
    assert box.take() == []


def test_as_many_streams_may_wait_as_the_bound_says() -> None:
    box = outbox()
    box.stream_limit = 2
    for _ in range(2 + 5):
        box.open(Rank.SENDER)
        box.check_waiting(5)
    assert box.streams_left == -5
    box.open(Rank.SENDER)
    with pytest.raises(PeerFault, match=r"6 streams wait .* allows 2 in all") as caught:
        box.check_waiting(5)
    assert caught.value.code == Code.RESOURCE_LIMIT
