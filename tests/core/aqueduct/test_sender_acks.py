"""What the peer's acks and CLOSE_RECEIVER do to a sender."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import Attach, Config, Mode
from aqueduct_core.aqueduct.events import Counts, Delivered, End, Ended
from aqueduct_core.aqueduct.faults import (
    Code,
    ResetCode,
)
from aqueduct_core.engine.actions import ResetStream
from tests.support.rules import rule
from tests.support.wire import Wire, ends


@rule("AQ-ACK-3")
def test_a_repeated_ack_has_no_effect() -> None:
    client = Wire.client()
    client.engine.send_many(0, [b"x"] * 10, now=0)
    stream = client.stream("030008020103")
    assert client.events(Delivered) == [Delivered(0, True, 1, 4, True)]
    client.stream("08020005", stream)
    assert client.events(Delivered) == [
        Delivered(0, True, 0, 1, True),
        Delivered(0, True, 4, 5, True),
    ]
    client.stream("08020005", stream)
    assert client.events(Delivered) == []


@rule("AQ-ACK-3", "AQ-ACK-8")
@pytest.mark.parametrize("ack", ["08020002", "08020101", "090103", "09020002"])
def test_an_ack_of_what_was_never_sent(ack: str) -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, mode=Mode.UNRELIABLE)
    client.stream("0300" + ack)
    assert client.code == Code.ACK


@rule("AQ-ACK-13")
def test_a_huge_range_costs_nothing() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0)
    client.stream("0300080a" + "00" + "808080808080808020")
    assert client.code == Code.ACK


@rule("AQ-ACK-3")
def test_holes_in_the_acks_are_bounded() -> None:
    client = Wire.client(Config(max_ranges_per_space=2))
    client.engine.send_many(0, [b"x"] * 10, now=0)
    control = client.stream("0300" + "080400010101")
    assert client.code is None
    client.stream("08020401", control)
    assert client.code == Code.RESOURCE_LIMIT


def test_holes_in_the_acks_are_charged_until_they_are_filled() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(True)])
    client.engine.send_many(8, [b"x"] * 10, now=0)
    client.stream("030008020001")
    control = client.stream("0308")
    sizes = [client.engine.footprint.size]
    for ack in ("0806000101010101", "08020101", "08020601"):
        client.stream(ack, control)
        sizes.append(client.engine.footprint.size)
    one = sizes[1] - sizes[2]
    assert one > 0
    assert [size - sizes[0] for size in sizes] == [0, 3 * one, 2 * one, 3 * one]
    client.stream("0a", control, end=True)
    other = Wire.client()
    other.engine.send(0, b"", now=0)
    other.stream("030008020001")
    assert client.engine.footprint == other.engine.footprint


@rule("AQ-ACK-9")
@pytest.mark.parametrize("second", ["08020001", "090101", "0a"])
def test_acks_on_two_streams(second: str) -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0)
    client.stream("030008020001")
    client.stream("0300" + second)
    assert client.code == Code.STATE


@rule("AQ-LIFE-13")
def test_close_receiver_nacks_the_rest() -> None:
    client = Wire.client()
    client.engine.send_many(0, [b"x"] * 5, now=0)
    client.stream("0300080201020a")
    assert client.events(Delivered) == [
        Delivered(0, True, 1, 3, True),
        Delivered(0, True, 0, 1, False),
        Delivered(0, True, 3, 5, False),
    ]
    (ended,) = client.events(Ended)
    assert ended.end is End.CLOSED
    assert ended.counts == Counts(reliable_sent=5, acked=2, nacked=3)
    assert ResetStream(10, ResetCode.NONE) in client.actions


@rule("AQ-LIFE-13")
def test_close_receiver_nacks_datagrams_by_their_own_numbers() -> None:
    client = Wire.client()
    for size in (1, 1, 1, 2000, 2000):
        client.engine.send(0, b"u" * size, now=0, mode=Mode.UNRELIABLE)
    client.stream("0300" + "08020001" + "090101" + "0a")
    assert client.events(Delivered) == [
        Delivered(0, True, 0, 1, True),
        Delivered(0, False, 0, 1, True),
        Delivered(0, True, 1, 2, False),
        Delivered(0, False, 1, 3, False),
    ]
    (ended,) = client.events(Ended)
    assert ended.counts == Counts(reliable_sent=2, unreliable_sent=3, acked=2, nacked=3)
    assert client.engine.wake_at is None


@rule("AQ-LIFE-13")
def test_a_finish_that_was_not_acked_in_full_is_closed() -> None:
    for acked in ("0001", "0101"):
        client = Wire.client()
        client.engine.send_many(0, [b"x"] * 2, now=0)
        client.engine.finish(0, 0)
        client.stream(f"03000802{acked}0a")
        assert ends(client) == [(0, End.CLOSED)]


@rule("AQ-FLOW-2")
def test_dequeued_without_flow_control() -> None:
    client = Wire.client()
    client.stream("03000c64")
    assert client.code is None
    assert client.all_events() == []
