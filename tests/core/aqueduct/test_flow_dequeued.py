"""Credit that goes back to the sender: DEQUEUED, nacks and ends, and what claims too much."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.config import AckMode, Config, Mode
from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Side
from aqueduct_core.aqueduct.events import (
    Delivered,
    Dropped,
    End,
    Ended,
    Nacked,
    Rerouted,
)
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.aqueduct.flow import (
    Buffers,
)
from aqueduct_core.engine.actions import SendDatagram
from aqueduct_core.engine.inputs import DatagramFate, DatagramOutcome, StreamLimit
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.flow import HI, announced, client, server
from tests.support.rules import rule
from tests.support.wire import Wire


@rule("AQ-FLOW-6")
def test_credit_goes_at_a_quarter_of_the_buffer_or_after_a_while() -> None:
    wire = server(40)
    control = wire.stream("0300" + HI + "6869")
    (batch,) = wire.events(MessageBatch)
    wire.advance(0.02)
    assert wire.sent() == ["7: 0300" + "08020001"]
    wire.engine.consumed(0, 3, wire.now)
    assert wire.sent() == []
    wire.advance(0.02)
    assert wire.sent() == ["7: 0c03"]
    wire.stream("0401000006" + "68" * 6, control)
    wire.engine.consumed(0, 4, wire.now)
    assert wire.sent() == []
    wire.engine.consumed(0, 6, wire.now)
    assert wire.sent() == ["7: 08020101" + "0c0a"]
    wire.engine.consumed(0, 100, wire.now)
    wire.advance(1)
    assert wire.sent() == ["7: 0c05"]
    wire.engine.consumed(0, 100, wire.now)
    wire.advance(1)
    assert wire.sent() == []  # never 0
    assert batch.size == 7


@rule("AQ-FLOW-6")
def test_credit_that_went_leaves_no_timer() -> None:
    wire = server(40)
    wire.stream("0300" + HI + "6869" + "0401000006" + "68" * 6)
    wire.engine.consumed(0, 3, wire.now)
    assert wire.sent() == []
    assert wire.engine.wake_at == wire.now + 0.02
    wire.engine.consumed(0, 15, wire.now)
    assert wire.sent() == ["7: 0300" + "08020002" + "0c12"]
    assert wire.engine.wake_at is None


@rule("AQ-FLOW-6")
@pytest.mark.parametrize("mode", AckMode)
def test_credit_does_not_wait_for_datagrams_that_are_not_consumed_yet(mode: AckMode) -> None:
    wire = server(40, ack_mode=mode)
    wire.stream("0300" + HI + "6869")
    wire.datagram("0300" + HI + "6869")
    wire.engine.consumed(0, 7, wire.now)
    wire.advance(0.02)
    assert "0c07" in wire.sent()[0]
    if mode is AckMode.ON_RECEIPT:  # it is received, so it will be acked
        wire.engine.consumed(0, 7, wire.now)
        wire.advance(0.02)
        assert wire.sent() == ["7: 0c07"]


@rule("AQ-FLOW-6")
def test_no_credit_after_the_receiver_closed() -> None:
    wire = server(1000)
    wire.stream("0300" + HI + "6869")
    wire.engine.consumed(0, 7, wire.now)
    wire.engine.close(0, wire.now)
    assert wire.sent() == ["7: 0300" + "08020001" + "0a FIN"]
    wire.stream("0300" + HI + "6869")
    wire.engine.consumed(0, 7, wire.now)
    wire.advance(2)
    assert wire.sent() == []


@rule("AQ-FLOW-6")
def test_no_credit_for_what_is_nacked_or_ignored() -> None:
    wire = server(1000, ack_mode=AckMode.ON_STORED)
    wire.datagram("0300" + HI + "6869")
    wire.stream("03000503")
    (batch,) = wire.events(MessageBatch)
    wire.engine.refused(0, 0, 1, wire.now)
    wire.engine.consumed(0, batch.size, wire.now)
    wire.advance(2)
    assert [event[1:] for event in wire.events(Nacked)] == [(0, 3)]
    wire.datagram("0300" + "0401000002" + "6869")  # late: ignored
    wire.engine.consumed(0, 100, wire.now)
    wire.advance(2)
    assert wire.sent() == ["7: 0300" + "09020003"]
    assert wire.engine.statistics.queued_bytes == 0


@rule("AQ-FLOW-7")
@pytest.mark.parametrize("end", ["0a", "0b"])
def test_an_end_gives_the_share_of_the_channel_back(end: str) -> None:
    wire = client(0, 30)
    attach = [Attach(True)]
    (channel,) = wire.engine.send(0, b"", now=0, attach=attach).attached
    wire.engine.send(channel, b"x" * 15, now=0)
    assert wire.engine.statistics.outstanding == 7 + 20
    wire.pump()
    if end == "0a":
        wire.stream(f"03{channel:02x}0a")
    else:
        wire.stream("03000a")  # the carrier is nacked: the channel is lost
    (ended, *_) = wire.events(Ended)[::-1]
    assert ended.channel == channel
    assert ended.end is (End.CLOSED if end == "0a" else End.LOST)
    assert wire.engine.statistics.outstanding == (7 if end == "0a" else 0)


@rule("AQ-FLOW-7")
def test_a_forgotten_channel_gives_its_share_back() -> None:
    config = Config(auto_accept=True, flow_per_channel=0)
    wire = Wire(AqueductEngine(Side.SERVER, (), config))
    wire.stream("V" + announced(10, 100), end=True)
    wire.stream("0300" + "04000002020000", 6)  # attaches 2: the server sends on it
    wire.pump()
    wire.engine.send(2, b"hi", now=0)
    wire.engine.send(2, b"hi", now=0)
    assert (wire.engine.statistics.outstanding, wire.engine.statistics.waiting) == (7, 1)
    wire.pump()
    wire.seen.clear()
    wire.stream("03020b", 10)
    assert wire.engine.statistics.outstanding == 0
    assert wire.engine.statistics.waiting == 0
    assert wire.events(Dropped) == [Dropped(2, 1)]
    assert wire.events(Ended)[0].end is End.LOST


@rule("AQ-FLOW-8")
def test_more_credit_than_was_sent() -> None:
    wire = client(10)
    wire.engine.send(0, b"hi", now=0)
    wire.stream("03000c64")
    assert wire.code == Code.ACK


@rule("AQ-FLOW-8")
def test_one_byte_more_of_credit_than_was_sent() -> None:
    for credit, code in (("07", None), ("08", Code.ACK)):
        wire = client(10)
        wire.engine.send(0, b"hi", now=0)
        wire.stream("03000c" + credit)
        assert wire.code == code


@rule("AQ-FLOW-8")
def test_one_byte_of_credit_for_a_message_that_is_nacked() -> None:
    wire = client(10)
    wire.engine.send(0, b"hi", now=0, mode=Mode.UNRELIABLE)
    wire.advance(0.2)
    wire.stream("0300" + "0c01" + "09020001")
    assert wire.code == Code.ACK


@rule("AQ-FLOW-8")
def test_credit_and_nack_of_the_same_message() -> None:
    wire = client(10)
    wire.engine.send(0, b"hi", now=0, mode=Mode.UNRELIABLE)
    wire.advance(0.2)
    control = wire.stream("0300" + "0c07")
    assert wire.code is None
    wire.stream("09020001", control)
    assert wire.code == Code.ACK


@rule("AQ-FLOW-4", "AQ-FLOW-6")
def test_nacked_bytes_come_back_and_acked_ones_do_not() -> None:
    wire = client(16)
    for _ in range(3):
        wire.engine.send(0, b"hi", now=0, mode=Mode.UNRELIABLE)
    wire.advance(0.2)
    assert wire.engine.statistics.outstanding == 14
    control = wire.stream("0300" + "0901" + "01")
    assert (wire.engine.statistics.outstanding, wire.engine.statistics.waiting) == (14, 1)
    wire.stream("09020001", control)
    wire.pump()
    assert (wire.engine.statistics.outstanding, wire.engine.statistics.waiting) == (14, 0)
    assert [event.acked for event in wire.events(Delivered)] == [True, False]


@rule("AQ-FLOW-4")
def test_of_many_answers_the_bytes_that_were_nacked_come_back() -> None:
    wire = client(1000)
    for size in range(1, 6):  # frames of 6 to 10 bytes
        wire.engine.send(0, b"x" * size, now=0, mode=Mode.UNRELIABLE)
    wire.advance(0.2)
    wire.stream("0300" + "0904" + "01020101")
    assert wire.engine.statistics.outstanding == 6 + 9


@rule("AQ-SEND-5", "AQ-FLOW-4")
def test_a_datagram_that_goes_on_a_stream_counts_once() -> None:
    wire = client(1000)
    wire.engine.send(0, b"hi", now=0, mode=Mode.UNRELIABLE)
    (token,) = (
        action.token for action in wire.engine.actions() if isinstance(action, SendDatagram)
    )
    wire.engine.handle(DatagramOutcome(token, DatagramFate.REFUSED), 0)
    assert wire.engine.statistics.outstanding == 7
    wire.engine.send(0, b"x", now=0, mode=Mode.UNRELIABLE)
    assert wire.engine.statistics.outstanding == 7 + 6
    wire.advance(0.2)
    wire.stream("0300" + "0902" + "0001")
    assert wire.engine.statistics.outstanding == 7


@rule("AQ-ACK-9", "AQ-FLOW-6")
def test_credit_comes_on_the_stream_of_the_acks() -> None:
    wire = client(10)
    wire.engine.send(0, b"hi", now=0)
    control = wire.stream("0300" + "08020001")
    wire.stream("0c01", control)
    assert wire.code is None
    assert wire.engine.statistics.outstanding == 6
    wire.stream("0300" + "0c06")
    assert wire.code == Code.STATE


@rule("AQ-FLOW-6")
@pytest.mark.parametrize(
    ("buffers", "override", "batch"),
    [
        (Buffers(0, 0), None, None),
        (Buffers(20, 0), None, 5),
        (Buffers(19, 0), None, 4),
        (Buffers(7, 0), None, 1),
        (Buffers(1, 0), None, 1),
        (Buffers(0, 40), None, 10),
        (Buffers(20, 40), None, 5),
        (Buffers(20, 40), 100, 10),
        (Buffers(20, 0), 0, None),
    ],
)
def test_a_quarter_of_what_binds_gathers(
    buffers: Buffers, override: int | None, batch: int | None
) -> None:
    found = buffers.dequeue_threshold(override)
    assert found == batch
    assert not isinstance(found, float)


@rule("AQ-FLOW-2", "AQ-FLOW-9")
@pytest.mark.parametrize("answer", ["090102", "09020101"])
def test_datagrams_that_went_before_a_peer_without_flow_control_are_not_counted(
    answer: str,
) -> None:
    wire = Wire(AqueductEngine(Side.CLIENT, (), Config(flow_per_channel=0)))
    wire.pump()
    wire.engine.send(0, b"hi", now=0, mode=Mode.UNRELIABLE)
    wire.pump()
    assert wire.engine.statistics.outstanding > 0
    wire.stream("V020001", end=True)
    wire.engine.send(0, b"hi", now=0, mode=Mode.UNRELIABLE)
    wire.advance(0.2)
    wire.stream("0300" + answer)
    assert wire.code is None
    assert wire.engine.statistics.outstanding == 0
    assert not wire.engine.statistics.waiting


@rule("AQ-FLOW-2")
def test_a_datagram_that_went_before_and_is_refused_after_is_not_counted() -> None:
    wire = Wire(AqueductEngine(Side.CLIENT, (), Config(flow_per_channel=0)))
    wire.pump()
    wire.engine.send(0, b"hi", now=0, mode=Mode.UNRELIABLE)
    (action,) = [action for action in wire.engine.actions() if isinstance(action, SendDatagram)]
    wire.stream("V020001", end=True)
    wire.engine.handle(DatagramOutcome(action.token, DatagramFate.REFUSED), wire.now)
    wire.pump()
    assert wire.code is None
    assert wire.engine.statistics.outstanding == 0


@rule("AQ-FLOW-4", "AQ-SEND-5")
def test_a_refused_datagram_that_finds_no_stream_keeps_its_credit_until_it_is_nacked() -> None:
    wire = client(100, reserved_control_streams=0)
    wire.engine.handle(StreamLimit(2), wire.now)
    wire.engine.send(0, b"hi", now=0, mode=Mode.UNRELIABLE)
    size = wire.engine.statistics.outstanding
    wire.pump()
    (action,) = [action for action in wire.actions if isinstance(action, SendDatagram)]
    wire.engine.handle(DatagramOutcome(action.token, DatagramFate.REFUSED), wire.now)
    assert wire.events(Rerouted) == []
    assert wire.engine.statistics.outstanding == size > 0
    wire.advance(0.2)
    wire.stream("0300" + "09020001")
    assert wire.code is None
    assert wire.engine.statistics.outstanding == 0
