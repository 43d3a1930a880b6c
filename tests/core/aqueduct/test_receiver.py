"""The receiving half: numbers, acks, ends."""

from __future__ import annotations

import itertools

import pytest

from aqueduct_core.aqueduct.acks import ReliableAcks
from aqueduct_core.aqueduct.engine import Attach, Config, Mode
from aqueduct_core.aqueduct.events import Complete, End, Ended
from aqueduct_core.aqueduct.faults import Code, ResetCode
from aqueduct_core.aqueduct.receiver import (
    RECEIVER_TABLE,
    VIOLATION,
    ReceiverInput,
    ReceiverState,
)
from aqueduct_core.engine.actions import ResetStream
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.receiving import STORED, carrier, known, message
from tests.support.rules import rule
from tests.support.wire import Wire, ends


def in_state(state: ReceiverState) -> tuple[Wire, int]:
    wire = known()
    stream = wire.stream("0308" + message(0))
    if state is ReceiverState.FINISHING:
        wire.stream("0609", stream)
    return wire.fresh(), stream


@rule("AQ-LIFE-16", "AQ-LIFE-14", "AQ-LIFE-11")
@pytest.mark.parametrize(
    ("state", "given"),
    [
        pair
        for pair in itertools.product(RECEIVER_TABLE, ReceiverInput)
        if pair[1] not in (ReceiverInput.LOST, ReceiverInput.COMPLETE)
    ],
    ids=lambda value: value.name,
)
def test_the_table(state: ReceiverState, given: ReceiverInput) -> None:
    wire, stream = in_state(state)
    match given:
        case ReceiverInput.MESSAGE:
            wire.stream("0308" + message(1), end=True)
        case ReceiverInput.SENT_UNRELIABLE:
            wire.stream("0501", stream)
        case ReceiverInput.FINISH_SENDER:
            wire.stream("0609", stream)
        case ReceiverInput.CANCEL_SENDER:
            wire.stream("030807")
        case ReceiverInput.CLOSE:
            wire.engine.close(8, wire.now)
        case ReceiverInput.FORGET:
            wire.stream("03080b")
    after = RECEIVER_TABLE[state][given]
    if after is VIOLATION:
        assert wire.code == Code.STATE
    else:
        assert wire.code is None
        assert wire.engine.half_open(8) == (after is not ReceiverState.GONE)


@rule("AQ-LIFE-15")
def test_complete() -> None:
    wire, _ = in_state(ReceiverState.FINISHING)
    for number in range(1, 9):
        assert wire.engine.half_open(8)
        wire.stream("0308" + message(number))
    assert not wire.engine.half_open(8)
    assert ends(wire) == [(8, End.FINISHED)]
    assert wire.sent() == ["7: 080200090a FIN"]


def test_the_table_is_whole() -> None:
    assert set(RECEIVER_TABLE) == set(ReceiverState) - {ReceiverState.GONE}
    for row in RECEIVER_TABLE.values():
        assert set(row) == set(ReceiverInput)


@rule("AQ-LIFE-16")
@pytest.mark.parametrize(
    ("first", "then"),
    [
        (message(0) + message(1), "0601"),
        ("0601", message(1)),
        ("0605", "0605"),
        ("0605", "0501"),
        ("0605", "07"),
    ],
)
def test_what_contradicts_a_finish(first: str, then: str) -> None:
    server = known()
    stream = server.stream("0308" + first)
    assert server.code is None
    server.stream(then, stream)
    assert server.code == Code.STATE


@rule("AQ-LIFE-16")
@pytest.mark.parametrize(("received", "finish"), [((0, 2), 2), ((5,), 1), ((0, 1, 9), 9)])
def test_a_finish_below_a_message_behind_a_hole(received: tuple[int, ...], finish: int) -> None:
    """What counts is the highest number that came, not how many did."""
    for least in (finish, received[-1] + 1):
        server = known()
        stream = server.stream("0308" + "".join(map(message, received)))
        server.stream(f"06{least:02x}", stream)
        assert server.code == (Code.STATE if least == finish else None)


@rule("AQ-LIFE-16")
def test_a_datagram_beyond_what_was_declared_at_the_finish() -> None:
    server = known()
    server.stream("030805010605")
    server.datagram("0308" + message(1))
    assert server.code == Code.STATE
    server = known()
    server.datagram("0308" + message(1))
    server.stream("030805010605")
    assert server.code == Code.STATE


@rule("AQ-SEND-14")
@pytest.mark.parametrize(
    "frames", [message(0) + message(1), message(1), "05010601", "0602", "0502"]
)
def test_more_than_one_message_on_a_oneshot_channel(frames: str) -> None:
    server = known(4)
    server.stream("0304" + frames)
    assert server.code == Code.STATE


@rule("AQ-SEND-14")
def test_one_message_in_each_space_of_a_oneshot_channel() -> None:
    for stream_first in (True, False):
        server = known(4)
        if stream_first:
            server.stream("0304" + message(0))
        server.datagram("0304" + message(0))
        if not stream_first:
            server.stream("0304" + message(0))
        assert server.code == Code.STATE


@rule("AQ-SEND-14")
def test_the_one_message_may_be_a_datagram() -> None:
    server = known(4)
    server.datagram("0304" + message(0))
    server.stream("0304" + "0501" + "0600", end=True)
    assert server.code is None
    assert ends(server) == [(4, End.FINISHED)]


@rule("AQ-SEND-14", "AQ-SEQ-9")
@pytest.mark.parametrize("step", [2, 1000])
def test_the_one_message_counts_however_its_successor_came(step: int) -> None:
    server = known(4)
    stream = server.stream("0304")
    frames = message(0) + message(1)
    for i in range(0, len(frames), step):
        server.stream(frames[i : i + step], stream)
    assert [batch.count for batch in server.events(MessageBatch)] == [1]
    assert server.code == Code.STATE


@rule("AQ-SEND-13")
def test_any_mix_of_carriers_is_accepted() -> None:
    server = known()
    server.stream("0308" + message(0))
    server.datagram("0308" + message(0))
    assert [(batch.reliable, batch.first) for batch in server.events(MessageBatch)] == [
        (True, 0),
        (False, 0),
    ]


@rule("AQ-SEQ-10")
def test_two_messages_in_a_datagram() -> None:
    server = known()
    server.datagram("0308" + message(0) + message(1) + message(3))
    assert [(batch.first, batch.count) for batch in server.events(MessageBatch)] == [(0, 2), (3, 1)]
    assert server.code is None


@rule("AQ-SEQ-9")
@pytest.mark.parametrize(
    ("before", "count"),
    [(message(3), 3), ("0604", 4), ("0605", 5)],
    ids=["seen before", "finish", "later finish"],
)
def test_what_is_before_a_fault_counts_however_the_bytes_are_split(before: str, count: int) -> None:
    frames = "".join(message(n) for n in range(6))
    for step in (2, 1000):
        server = known()
        server.stream("0308" + before)
        stream = server.stream("0308")
        server.pump()
        server.seen.clear()
        for i in range(0, len(frames), step):
            server.stream(frames[i : i + step], stream)
        assert sum(batch.count for batch in server.events(MessageBatch)) == count
        # a finish that is reached ends the machine, and what follows is ignored (AQ-ERR-4)
        assert server.code == (Code.STATE if before == message(3) else None)


@rule("AQ-ACK-14")
def test_a_block_longer_than_the_window() -> None:
    server = Wire.server(Config(auto_accept=True, max_reliable_window=10))
    server.stream("0300" + "".join(message(n) for n in range(100)))
    assert [batch.count for batch in server.events(MessageBatch)] == [100]
    server.stream("0300" + "".join(message(n) for n in range(101, 120)))
    assert server.code == Code.RESOURCE_LIMIT
    assert [batch.count for batch in server.events(MessageBatch)] == [10]


@rule("AQ-SEND-4", "AQ-SEND-13")
def test_what_waits_for_its_carrier_stays_in_its_number_space() -> None:
    server = Wire.server()
    stream = server.stream("0308" + message(0) + message(1))
    for number in (2, 3):
        server.stream(message(number), stream)
    server.datagram("0308" + message(4))
    server.datagram("0308" + message(5))
    server.stream(message(6), stream)
    assert server.engine._context.credit.pieces == 3
    server.stream("030004000002080000")
    assert [
        (batch.reliable, batch.first, batch.count)
        for batch in server.events(MessageBatch)
        if batch.channel == 8
    ] == [(True, 0, 4), (False, 4, 2), (True, 6, 1)]


@rule("AQ-LOST-2", "AQ-LOST-3")
def test_each_datagram_that_carries_a_channel_decides_over_its_own() -> None:
    """Of five datagrams the second is missing and the fourth was not stored."""
    server = known(config=STORED)
    for number, channel in ((0, 16), (2, 24), (3, 32), (4, 40)):
        server.datagram("0308" + carrier(number, channel))
    server.stream("03080505")
    server.pump()
    for number in (0, 2, 4):
        server.engine.stored(8, number, number + 1, reliable=False, now=server.now)
    server.engine.refused(8, 3, 4, now=server.now)
    server.advance(1)
    assert "7: 09050101010101" in server.sent()
    assert ends(server) == [(32, End.LOST)]
    server.engine.close(8, server.now)
    assert ends(server) == [(8, End.CLOSED)]
    assert [server.engine.half_open(channel) for channel in (16, 24, 40)] == [True] * 3


@rule("AQ-LIFE-22", "AQ-LOST-2")
@pytest.mark.parametrize("declared", [1, 2])
def test_a_datagram_that_was_acked_before_its_channel_was_known(declared: int) -> None:
    server = Wire.server()
    server.datagram("0308" + carrier(0, 16))
    server.stream(f"030805{declared:02x}")
    server.advance(1)
    server.datagram("0308" + carrier(declared, 24))  # not answered yet
    server.stream("0300" + carrier(0, 8))
    server.engine.close(8, server.now)
    server.pump()
    assert ends(server) == [(8, End.CLOSED)]
    assert server.engine.half_open(16)
    assert server.engine.half_open(24)  # the close has acked it


@rule("AQ-LIFE-15")
def test_nothing_is_complete_while_something_is_missing_or_nobody_knows_the_channel() -> None:
    config = Config(auto_accept=True, confirm_finish=True)
    server = known(config=config)
    server.stream("0308" + message(1) + "0602")
    assert server.events(Complete) == []
    server.stream("0308" + message(0))
    (seen,) = server.events(Complete)
    assert seen.channel == 8
    unknown = Wire.server(config)
    unknown.stream("0308" + message(0) + "0601")
    assert unknown.events(Complete) == []
    unknown.stream("0300" + carrier(0, 8))
    (seen,) = unknown.events(Complete)
    assert seen.channel == 8


@rule("AQ-LOST-4")
def test_a_receiver_of_ours_that_was_routed_is_forgotten_when_it_is_lost() -> None:
    for routed in (True, False):
        client = Wire.client()
        (channel,) = client.engine.send(
            0, b"", now=0, mode=Mode.UNRELIABLE, attach=[Attach(False)]
        ).attached
        client.advance(0.2)
        control = client.stream("0300")
        if routed:
            client.stream(f"03{channel:02x}" + message(0))
            client.advance(0.1)
        client.sent()
        client.stream("09020001", control)
        client.advance(0.1)
        assert (f"03{channel:02x}0b" in " ".join(client.sent())) is routed


@rule("AQ-LIFE-11")
def test_after_a_close_nothing_is_due() -> None:
    server = known()
    server.stream("0308" + message(0) + "0501")
    assert server.engine.wake_at is not None
    server.engine.close(8, server.now)
    server.pump()
    (ended,) = server.events(Ended)
    assert (ended.counts.reliable_sent, ended.counts.reliable_received) == (0, 1)
    assert server.engine.wake_at is None


@rule("AQ-ERR-2", "AQ-LIFE-6")
def test_the_stream_of_a_lost_channel_is_reset_as_lost() -> None:
    server = known()
    server.stream("03080b")
    server.pump()
    resets = [action for action in server.actions if isinstance(action, ResetStream)]
    assert resets == [ResetStream(7, ResetCode.LOST)]


@rule("AQ-FLOW-6")
@pytest.mark.parametrize("end", ["07", "0b"])
def test_credit_that_waits_when_a_channel_ends_is_not_looked_for(end: str) -> None:
    server = known(config=Config(auto_accept=True, flow_per_channel=1000))
    server.engine._context.flow.active = True
    server.stream("0308" + message(0))
    (batch,) = server.events(MessageBatch)
    server.advance(0.1)
    server.engine.consumed(8, batch.size, server.now)
    assert server.engine.wake_at is not None
    server.stream("0308" + end)
    server.fresh()
    assert server.engine.wake_at is None


@rule("AQ-ACK-12", "AQ-LIFE-15")
def test_a_finish_to_be_confirmed_is_told_with_its_datagrams_answered() -> None:
    server = known(config=Config(auto_accept=True, confirm_finish=True))
    server.datagram("0308" + message(0))
    server.stream("030805010600")
    (seen,) = server.events(Complete)
    assert (seen.counts.unreliable_sent, seen.counts.unreliable_acked) == (1, 1)
    assert server.sent() == ["7: 090101"]


@rule("AQ-ACK-14")
def test_a_run_that_begins_at_the_lowest_missing_number_is_never_too_far_ahead() -> None:
    acks = ReliableAcks(Config(max_reliable_window=2))
    assert acks.admits(0, 9)
    assert acks.admits(1, 3)
    assert not acks.admits(1, 4)
