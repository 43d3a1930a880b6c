"""Flow control on the wire: the header, the rule for senders, credit and its errors."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.config import AckMode, Config, Mode
from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Side
from aqueduct_core.aqueduct.events import (
    Delivered,
    Dropped,
    End,
    Ended,
    Ignored,
    Nacked,
    Numbered,
    Opened,
    Rerouted,
    Writable,
)
from aqueduct_core.aqueduct.faults import BadArgument, Code, NotAllowed, QueueFull
from aqueduct_core.aqueduct.flow import (
    FLOW_CONTROL,
    BadFlowHeader,
    Buffers,
    channel_header,
    connection_header,
    read_channel_header,
    read_connection_header,
)
from aqueduct_core.aqueduct.wire import codec
from aqueduct_core.engine.actions import SendDatagram
from aqueduct_core.engine.inputs import DatagramOutcome, Outcome, StreamLimit
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.rules import rule
from tests.support.wire import Wire

HI = "0400000002"  # MESSAGE 0 with a payload of two bytes: 7 bytes in all


def announced(per_channel: int, all_channels: int = 0) -> str:
    """The peer's CONNECTION_HEADERS with the flow control header."""
    pair = connection_header(Buffers(per_channel, all_channels))
    return codec.encode_connection_headers((pair,)).hex()


def client(per_channel: int, all_channels: int = 0, **options: object) -> Wire:
    """A client whose server announced these buffers."""
    config = Config(flow_per_channel=0, **options)  # type: ignore[arg-type]
    wire = Wire(AqueductEngine(Side.CLIENT, (), config))
    wire.pump()
    wire.stream("V" + announced(per_channel, all_channels) + "01", end=True)
    return wire.fresh()


def server(
    per_channel: int, all_channels: int = 0, *, peer: str | None = None, **options: object
) -> Wire:
    """A server that announces these buffers to a client that knows flow control as well."""
    config = Config(
        auto_accept=True,
        flow_per_channel=per_channel,
        flow_all_channels=all_channels,
        **options,  # type: ignore[arg-type]
    )
    wire = Wire(AqueductEngine(Side.SERVER, (), config))
    wire.stream("V" + (announced(0) if peer is None else peer), end=True)
    wire.pump()
    wire.stream("01", end=True)
    return wire.fresh()


@rule("AQ-FLOW-1")
def test_t98_the_header_as_bytes() -> None:
    config = Config(flow_per_channel=65536, flow_all_channels=1048576)
    wire = Wire(AqueductEngine(Side.CLIENT, (), config))
    value = "13666c6f772d636f6e74726f6c2d356133633139" + "06808004808040"
    assert wire.sent() == [f"2: V021b{value} FIN"]
    frame = bytes.fromhex("1b" + value)
    assert read_connection_header(((FLOW_CONTROL, frame[-6:]),)) == Buffers(65536, 1048576)


@rule("AQ-FLOW-1")
@pytest.mark.parametrize(
    "value", [b"", b"\x01", b"\x80", b"\x01\x80", b"\x01\x02\x03", b"\x80\x00\x01", b"\xff" * 11]
)
def test_a_header_that_does_not_parse_is_as_if_absent(value: bytes) -> None:
    with pytest.raises(BadFlowHeader):
        read_connection_header(((FLOW_CONTROL, value),))
    headers = codec.encode_connection_headers(((FLOW_CONTROL, value), (b"k", b"v"))).hex()
    wire = Wire(AqueductEngine(Side.SERVER, (), Config(auto_accept=True, flow_per_channel=100)))
    wire.stream("V" + headers, end=True)
    (ignored,) = wire.events(Ignored)
    assert "flow control" in ignored.reason
    assert wire.events(Opened) == [Opened(((b"k", b"v"),))]
    wire.stream("0300" + HI + "6869")
    (batch,) = wire.events(MessageBatch)
    wire.engine.consumed(0, batch.size, wire.now)
    wire.advance(1)
    assert not any("0c07" in text for text in wire.sent())


@rule("AQ-FLOW-1")
def test_a_header_that_is_repeated_is_as_if_absent() -> None:
    pair = connection_header(Buffers(1, 1))
    with pytest.raises(BadFlowHeader):
        read_connection_header((pair, pair))
    assert read_connection_header(((b"other", b""),)) is None
    assert read_channel_header(()) is None


@rule("AQ-FLOW-1")
def test_only_the_configuration_announces() -> None:
    headers = (connection_header(Buffers(1, 1)),)
    with pytest.raises(BadArgument):
        AqueductEngine(Side.CLIENT, headers, Config())
    with pytest.raises(ValueError, match="2\\^62"):
        Config(flow_per_channel=1 << 62)
    with pytest.raises(ValueError, match="2\\^62"):
        Config(flow_all_channels=-1)


@rule("AQ-FLOW-2")
def test_a_peer_that_knows_only_the_specification() -> None:
    """It announces nothing: it is sent no DEQUEUED, is never limited, and its DEQUEUED is checked
    and ignored."""
    config = Config(flow_per_channel=10, flow_all_channels=10, auto_accept=True)
    wire = Wire(AqueductEngine(Side.SERVER, (), config))
    wire.stream("V0200", end=True)
    wire.pump()
    wire.stream("01", end=True)
    wire.fresh()
    for number in range(20):
        wire.stream(f"030004{number:02x}00000568656c6c6f")
    for batch in wire.events(MessageBatch):
        wire.engine.consumed(0, batch.size, wire.now)
    wire.advance(1)
    assert wire.sent() == ["7: 0300" + "08020014"]
    assert wire.code is None

    wire = Wire(AqueductEngine(Side.CLIENT, (), Config(flow_per_channel=10)))
    wire.pump()
    wire.stream("V020001", end=True)
    wire.fresh()
    for _ in range(200):
        assert wire.engine.send(0, b"x" * 1000, now=0).number is not None
    wire.stream("03000c64")
    assert wire.code is None
    wire.stream("03020c64")  # a channel that we never made: FORGET_CHANNEL, as ever
    assert wire.code is None
    assert wire.engine.statistics.outstanding == 0


@rule("AQ-FLOW-2")
def test_an_end_that_announces_nothing_is_not_limited() -> None:
    wire = Wire(AqueductEngine(Side.CLIENT))
    wire.pump()
    wire.stream("V" + announced(1, 1) + "01", end=True)
    assert wire.events(Opened)[0].headers == (connection_header(Buffers(1, 1)),)
    for _ in range(5):
        assert wire.engine.send(0, b"xx", now=0).number is not None
    wire.stream("03000c7f")
    assert wire.code is None


@rule("AQ-FLOW-3", "AQ-FLOW-4")
def test_s15_credit() -> None:
    wire = client(10)
    assert wire.engine.send(0, b"hi", now=0).number == 0
    assert wire.engine.statistics.outstanding == 7
    assert wire.engine.send(0, b"hi", now=0).number is None
    assert wire.engine.statistics.waiting == 1
    assert wire.sent() == ["10: 0300" + HI + "6869"]
    wire.stream("03000c07")
    assert wire.sent() == ["10: 0401000002" + "6869"]
    assert wire.events(Numbered) == [Numbered(0, True, 1, 2)]
    assert wire.engine.statistics.outstanding == 7


@rule("AQ-FLOW-4")
def test_one_message_of_any_size_always_goes() -> None:
    wire = client(10, 12)
    assert wire.engine.send(0, b"x" * 5000, now=0).number == 0
    assert wire.engine.send(0, b"", now=0).number is None
    wire.stream("03000c" + codec.encode_dequeued(5006)[1:].hex())
    assert wire.events(Numbered) == [Numbered(0, True, 1, 2)]


@rule("AQ-FLOW-4")
def test_the_sum_over_all_channels_binds_and_a_large_message_is_not_overtaken() -> None:
    wire = client(0, 20)
    first = wire.engine.send(0, b"", now=0, attach=[Attach(True), Attach(True)])
    a, b = first.attached
    assert wire.engine.statistics.outstanding == 9
    assert wire.engine.send(a, b"x" * 100, now=0).number is None  # the next one to go
    wire.pump()
    assert wire.engine.send(b, b"hi", now=0).number is None  # would fit, but must not overtake
    assert wire.engine.send(0, b"hi", now=0).number is None
    wire.stream("03000c09")
    assert wire.events(Numbered) == [Numbered(a, True, 0, 1)]
    wire.stream(f"03{a:02x}0c69")
    assert sorted(event.channel for event in wire.events(Numbered)) == [0, b]
    assert wire.engine.statistics.outstanding == 14


@rule("AQ-FLOW-4")
@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize(
    ("per_channel", "all_channels", "count"),
    [(21, 0, 3), (20, 0, 2), (0, 21, 3), (0, 20, 2), (21, 28, 3), (28, 21, 3), (0, 0, 5)],
)
def test_what_fills_a_buffer_to_its_last_byte_goes(
    per_channel: int, all_channels: int, count: int, bulk: bool
) -> None:
    wire = client(per_channel, all_channels)
    assert wire.engine.send(0, b"hi", now=0).number == 0
    if bulk:
        assert wire.engine.send_many(0, [b"hi"] * 4, now=0) == (1, count)
    else:
        numbers = [wire.engine.send(0, b"hi", now=0).number for _ in range(4)]
        assert numbers == [*range(1, count), *[None] * (5 - count)]


@rule("AQ-FLOW-4")
def test_a_bulk_send_does_not_overtake_what_waits_for_the_total() -> None:
    wire = client(0, 20)
    a, b = wire.engine.send(0, b"", now=0, attach=[Attach(True), Attach(True)]).attached
    assert wire.engine.send(a, b"x" * 100, now=0).number is None
    wire.pump()
    assert wire.engine.send_many(b, [b"hi"], now=0) == (0, 0)


@rule("AQ-FLOW-5")
def test_a_queue_that_is_full_refuses_until_there_is_room() -> None:
    wire = client(10, send_queue_messages=2)
    for number in (0, None, None):
        assert wire.engine.send(0, b"hi", now=0).number == number
    with pytest.raises(QueueFull):
        wire.engine.send(0, b"hi", now=0)
    assert wire.events(Writable) == []
    wire.stream("03000c07")
    assert wire.events(Writable) == [Writable(0)]
    assert wire.engine.send(0, b"hi", now=0).number is None
    assert wire.events(Writable) == []


@rule("AQ-FLOW-5")
@pytest.mark.parametrize(
    "limits", [{"send_queue_bytes": 150}, {"send_queue_connection_bytes": 150}]
)
def test_the_bytes_of_the_queues_are_bounded(limits: dict[str, int]) -> None:
    wire = client(10, **limits)
    wire.engine.send(0, b"hi", now=0)
    assert wire.engine.send(0, b"x" * 1000, now=0).number is None  # the first one always waits
    with pytest.raises(QueueFull):
        wire.engine.send(0, b"hi", now=0)
    wire.stream("03000c07")
    assert wire.events(Writable) == [Writable(0)]


@rule("AQ-FLOW-5", "AQ-SEND-12")
def test_a_blocked_unreliable_sender_drops_its_oldest() -> None:
    wire = client(10, send_queue_messages=2)
    wire.engine.send(0, b"aa", now=0, mode=Mode.UNRELIABLE)
    for text, attach in ((b"bb", [Attach(True)]), (b"cc", []), (b"dd", [])):
        sent = wire.engine.send(0, text, now=0, mode=Mode.UNRELIABLE, attach=attach)
        assert (sent.number, sent.attached) == (None, ())
    assert wire.events(Dropped) == [Dropped(0, 1)]  # with the channel that it would have carried
    assert wire.engine.open_channels == 1
    wire.sent()
    wire.stream("03000c07")
    assert wire.events(Numbered) == [Numbered(0, False, 1, 2)]
    assert wire.sent() == ["d: 0300" + "0401000002" + "6363"]


@rule("AQ-SEND-12", "AQ-CHANID-4")
def test_the_index_of_a_dropped_carrier_is_not_lost() -> None:
    wire = client(10, send_queue_messages=1)
    wire.engine.send(0, b"aa", now=0, mode=Mode.UNRELIABLE)
    wire.engine.send(0, b"", now=0, mode=Mode.UNRELIABLE, attach=[Attach(True)])
    wire.engine.send(0, b"", now=0, mode=Mode.UNRELIABLE, attach=[Attach(True)])
    assert wire.events(Dropped) == [Dropped(0, 1)]
    wire.sent()
    wire.stream("03000c07")
    assert wire.events(Numbered) == [Numbered(0, False, 1, 2, (8,))]
    assert not any("RESET" in text or text.endswith("0b FIN") for text in wire.sent())


@rule("AQ-SEND-11")
def test_a_channel_is_made_when_its_carrier_leaves() -> None:
    wire = client(10)
    wire.engine.send(0, b"hi", now=0)
    sent = wire.engine.send(0, b"hi", now=0, attach=[Attach(True)])
    assert sent.attached == ()
    assert not wire.engine.half_open(8)
    wire.sent()
    wire.stream("03000c07")
    assert wire.events(Numbered) == [Numbered(0, True, 1, 2, (8,))]
    assert wire.engine.half_open(8)


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
def test_credit_that_went_leaves_no_alarm() -> None:
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
    wire.engine.handle(DatagramOutcome(token, Outcome.REFUSED), 0)
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


@rule("AQ-FLOW-5", "AQ-SEND-11")
def test_a_message_with_attachments_that_waits_for_room_goes_when_a_channel_has_ended() -> None:
    wire = client(14, max_channels=3)
    (child,) = wire.engine.send(0, b"", now=0, attach=[Attach(True)]).attached
    wire.engine.send(0, b"hi", now=0)
    assert wire.engine.send(0, b"", now=0, attach=[Attach(True)]).number is None
    wire.engine.send(child, b"", now=0, attach=[Attach(False)])
    wire.stream("03000c0e")
    assert wire.events(Numbered) == []
    wire.stream("030207")
    assert [event.first for event in wire.events(Numbered)] == [2]


@rule("AQ-FLOW-9")
def test_a_client_sends_one_burst_before_it_knows_the_server() -> None:
    config = Config(flow_per_channel=10, initial_burst=20)
    wire = Wire(AqueductEngine(Side.CLIENT, (), config))
    numbers = [wire.engine.send(0, b"hi", now=0).number for _ in range(4)]
    assert numbers == [0, 1, None, None]
    wire.pump()
    wire.stream("V" + announced(5, 5) + "01", end=True)
    assert wire.engine.statistics.outstanding == 14  # over what was announced, and no fault
    wire.stream("03000c0e")
    assert wire.events(Numbered) == [Numbered(0, True, 2, 3)]


@rule("AQ-FLOW-9")
def test_a_client_whose_server_announces_nothing_goes_on() -> None:
    wire = Wire(AqueductEngine(Side.CLIENT, (), Config(flow_per_channel=10, initial_burst=20)))
    for _ in range(4):
        wire.engine.send(0, b"hi", now=0)
    wire.pump()
    wire.stream("V020001", end=True)
    assert wire.events(Numbered) == [Numbered(0, True, 2, 4)]
    assert wire.engine.statistics.outstanding == 0


@rule("AQ-FLOW-9", "AQ-FLOW-12")
def test_a_receiver_closes_on_its_own_limits_alone() -> None:
    wire = server(10, 10, max_channel_queue_bytes=100)
    for number in range(14):
        wire.stream(f"030004{number:02x}00000268" + "69")
        assert wire.code is None
        assert wire.engine.half_open(0)
    wire.stream("0300040e000002" + "6869")
    assert wire.events(Ended)[0].end is End.OVERFLOW
    assert wire.code is None


@rule("AQ-FLOW-10")
@pytest.mark.parametrize("bulk", [False, True])
def test_a_channel_has_a_buffer_of_its_own(bulk: bool) -> None:
    """The client made channel 2 and receives on it, with a buffer of 20 in place of 10."""
    config = Config(auto_accept=True, flow_per_channel=0)
    wire = Wire(AqueductEngine(Side.SERVER, (), config))
    wire.stream("V" + announced(10), end=True)
    head = codec.encode_headers((channel_header(20),)).hex()
    region = "02" + head
    wire.stream(f"0300040000{len(region) // 2:02x}{region}00", 6)
    assert wire.code is None
    if bulk:
        assert wire.engine.send_many(2, [b"hi"] * 4, now=0) == (0, 2)
    else:
        numbers = [wire.engine.send(2, b"hi", now=0).number for _ in range(4)]
        assert numbers == [0, 1, None, None]
    assert wire.events(Ignored) == []


@rule("AQ-FLOW-10")
def test_a_channel_header_that_does_not_parse_is_as_if_absent() -> None:
    config = Config(auto_accept=True, flow_per_channel=0)
    wire = Wire(AqueductEngine(Side.SERVER, (), config))
    wire.stream("V" + announced(10), end=True)
    head = codec.encode_headers(((FLOW_CONTROL, b"\x01\x02"),)).hex()
    region = "02" + head
    wire.stream(f"0300040000{len(region) // 2:02x}{region}00", 6)
    assert len(wire.events(Ignored)) == 1
    assert [wire.engine.send(2, b"hi", now=0).number for _ in range(2)] == [0, None]


@rule("AQ-FLOW-10", "AQ-FLOW-6")
def test_the_receiver_of_such_a_channel_gathers_by_its_own_buffer() -> None:
    wire = Wire(AqueductEngine(Side.CLIENT, (), Config(flow_per_channel=1000)))
    wire.pump()
    wire.stream("V" + announced(0) + "01", end=True)
    attach = [Attach(False, headers=(channel_header(20),))]
    (channel,) = wire.engine.send(0, b"", now=0, attach=attach).attached
    attach = [Attach(False, headers=((FLOW_CONTROL, b""),))]
    with pytest.raises(BadArgument):
        wire.engine.send(0, b"", now=0, attach=attach)
    wire.fresh()
    wire.stream(f"03{channel:02x}" + HI + "6869")
    wire.engine.consumed(channel, 7, wire.now)
    assert wire.sent() == [f"14: 03{channel:02x}" + "08020001" + "0c07"]


@rule("AQ-FLOW-11")
def test_a_finish_waits_for_what_is_queued_and_control_frames_never_wait() -> None:
    wire = client(10)
    for _ in range(3):
        wire.engine.send(0, b"hi", now=0)
    wire.engine.finish(0, now=0)
    for command in (wire.engine.finish, wire.engine.cancel):
        with pytest.raises(NotAllowed):
            command(0, 0)
    assert wire.sent() == ["10: 0300" + HI + "6869"]
    control = wire.stream("0300" + "0c07")
    assert wire.sent() == ["10: 0401000002" + "6869"]
    wire.stream("0c07", control)
    assert wire.sent() == ["10: 0402000002" + "6869" + "0603 FIN"]
    wire.stream("08020003" + "0a", control)
    assert wire.events(Ended)[0].end is End.FINISHED


@rule("AQ-FLOW-11")
def test_a_cancel_does_not_wait() -> None:
    wire = client(10)
    for _ in range(3):
        wire.engine.send(0, b"hi", now=0)
    wire.sent()
    wire.engine.cancel(0, now=0)
    assert wire.sent() == ["14: 030007 FIN", "RESET 10"]
    assert wire.events(Dropped) == [Dropped(0, 2)]


def test_a_close_before_the_queue_was_sent_is_no_good_end() -> None:
    wire = client(10)
    wire.engine.send(0, b"hi", now=0)
    wire.engine.send(0, b"hi", now=0)
    wire.engine.finish(0, now=0)
    wire.stream("0300" + "08020001" + "0a")
    assert wire.events(Dropped) == [Dropped(0, 1)]
    assert wire.events(Ended)[0].end is End.CLOSED


@rule("AQ-SEND-14", "AQ-FLOW-11")
def test_a_oneshot_that_waits_finishes_behind_its_message() -> None:
    wire = client(0, 10)
    (channel,) = wire.engine.send(0, b"hi", now=0, attach=[Attach(True, oneshot=True)]).attached
    assert wire.engine.send(channel, b"r", now=0).number is None
    with pytest.raises(NotAllowed):
        wire.engine.send(channel, b"r", now=0)
    wire.sent()
    wire.stream("0300" + "0c09")
    assert wire.sent() == [f"14: 03{channel:02x}" + "040000000172" + "0601 FIN"]


@rule("AQ-FLOW-4")
def test_bulk_sends_take_what_has_credit() -> None:
    wire = client(20)
    assert wire.engine.send_many(0, [b"hi"] * 5, now=0) == (0, 2)
    assert wire.events(Writable) == []
    assert wire.engine.send_many(0, [b"hi"], now=0) == (2, 2)
    control = wire.stream("0300" + "0c07")
    assert wire.events(Writable) == [Writable(0)]
    assert wire.engine.send_many(0, [b"hi"] * 5, now=0) == (2, 3)
    wire.stream("0c0e", control)
    assert wire.engine.send_many(0, [b"x" * 100] * 5, now=0) == (3, 4)
    assert wire.engine.statistics.outstanding == 105


@rule("AQ-FLOW-4")
@pytest.mark.parametrize("mode", [Mode.UNORDERED, Mode.UNRELIABLE])
def test_bulk_sends_in_other_modes(mode: Mode) -> None:
    wire = client(20)
    assert wire.engine.send_many(0, [b"hi"] * 5, now=0, mode=mode) == (0, 2)
    wire.engine.send(0, b"hi", now=0, mode=mode)
    assert wire.engine.send_many(0, [b"hi"], now=0, mode=mode) == (2, 2)
    wire.stream("0300" + "0c0e")
    assert wire.events(Numbered) == [Numbered(0, mode is Mode.UNORDERED, 2, 3)]
    assert wire.events(Writable) == [Writable(0)]


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
    found = buffers.batch(override)
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
    wire.engine.handle(DatagramOutcome(action.token, Outcome.REFUSED), wire.now)
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
    wire.engine.handle(DatagramOutcome(action.token, Outcome.REFUSED), wire.now)
    assert wire.events(Rerouted) == []
    assert wire.engine.statistics.outstanding == size > 0
    wire.advance(0.2)
    wire.stream("0300" + "09020001")
    assert wire.code is None
    assert wire.engine.statistics.outstanding == 0


@rule("AQ-FLOW-4", "AQ-SEND-10")
def test_a_cancelled_channel_gives_its_turn_for_the_total_to_others() -> None:
    wire = client(0, 60)
    attach = [Attach(True), Attach(True)]
    large, small = wire.engine.send(0, b"", now=0, attach=attach).attached
    wire.engine.send(0, b"x" * 20, now=0)
    assert wire.engine.send(large, b"x" * 30, now=0).number is None
    wire.stream("03000c01")  # too little for it, but it has the turn now
    wire.pump()
    assert wire.engine.send(small, b"x", now=0).number is None
    wire.fresh()
    wire.engine.cancel(large, 0)
    assert wire.events(Numbered) == [Numbered(small, True, 0, 1)]
    assert wire.engine.statistics.waiting == 0
