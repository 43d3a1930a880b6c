"""The sequences in time S01–S18: one side is the engine, the other raw bytes."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.events import Delivered, End, Nacked, Opened
from aqueduct_core.aqueduct.faults import Code, NotAllowed
from aqueduct_core.engine.inputs import LinkReady
from aqueduct_core.engine.message_batch import Attachment, MessageBatch
from tests.support.rules import rule
from tests.support.wire import Wire, ends, payloads


@rule("AQ-VER-1", "AQ-VER-2", "AQ-VER-3", "AQ-HDR-1", "AQ-HDR-2", "AQ-LIFE-1", "AQ-CHANID-3")
def test_s01_handshake() -> None:
    client = Wire(AqueductEngine(Side.CLIENT))
    server = Wire(AqueductEngine(Side.SERVER, (), Config(auto_accept=True)))
    assert client.sent() == ["2: V0200 FIN"]
    assert server.sent() == []
    server.stream("V0200", 2, end=True)
    assert server.sent() == ["3: V020001 FIN"]
    client.stream("V020001", 3, end=True)
    assert client.sent() == ["6: 01 FIN"]
    server.stream("01", 6, end=True)
    assert server.events(Opened) == [Opened(())]
    assert client.events(Opened) == [Opened(())]
    client.engine.send(0, b"hi", now=0)
    assert client.sent() == ["10: 030004000000026869"]


@rule("AQ-ACK-1", "AQ-SEND-1")
def test_s02_first_message_and_its_ack() -> None:
    server = Wire.server()
    server.stream("030004000000026869")
    assert payloads(server) == [(0, b"hi")]
    assert server.sent() == []
    server.advance(0.019)
    assert server.sent() == []
    server.advance(0.001)
    assert server.sent() == ["7: 030008020001"]
    client = Wire.client()
    client.engine.send(0, b"hi", now=0)
    client.stream("030008020001")
    assert client.events(Delivered) == [Delivered(0, True, 0, 1, True)]


@rule("AQ-ACK-5", "AQ-ACK-6", "AQ-ACK-7", "AQ-ACK-10", "AQ-LIFE-2", "AQ-LIFE-3")
def test_s03_loss_and_a_late_datagram() -> None:
    server = Wire.server()
    server.stream("0300040000020800" + "0178")  # the carrier, so that 8 is known
    assert payloads(server) == [(0, b"x")]
    server.advance(0.5)
    assert "11: 030008020001" in server.sent()
    server.datagram("0308040000000161")
    server.datagram("0308040200000163")
    control = server.stream("03080503")
    assert payloads(server) == [(8, b"a"), (8, b"c")]
    server.advance(0.999)
    assert server.sent() == []
    server.advance(0.001)
    assert server.sent() == ["7: 0903010101"]
    assert server.events(Nacked) == [Nacked(8, 1, 2)]
    server.datagram("0308040100000162")
    assert payloads(server) == []
    server.stream("0502", control)
    server.advance(1)
    assert server.sent() == ["7: 09020002"]
    assert server.events(Nacked) == [Nacked(8, 3, 5)]
    assert server.code is None


@rule("AQ-ACK-7", "AQ-SEND-6")
def test_s03_at_the_sender() -> None:
    client = Wire.client()
    for payload in (b"a", b"b", b"c"):
        client.engine.send(0, payload, now=0, mode=Mode.UNRELIABLE)
    assert client.sent() == [
        "d: 0300040000000161",
        "d: 0300040100000162",
        "d: 0300040200000163",
    ]
    client.advance(0.099)
    assert client.sent() == []
    client.advance(0.001)
    assert client.sent() == ["10: 03000503"]
    acks = client.stream("03000903010101")
    assert client.events(Delivered) == [
        Delivered(0, False, 0, 1, True),
        Delivered(0, False, 2, 3, True),
        Delivered(0, False, 1, 2, False),
    ]
    for _ in range(2):
        client.engine.send(0, b"x", now=client.now, mode=Mode.UNRELIABLE)
    client.advance(0.1)
    assert client.sent()[-1] == "10: 0502"
    client.stream("09020002", acks)
    assert client.events(Delivered) == [Delivered(0, False, 3, 5, False)]


@rule("AQ-LIFE-2", "AQ-LIFE-3", "AQ-LIFE-8")
def test_s04_message_before_its_carrier() -> None:
    server = Wire.server()
    server.stream("030804000000016d")
    assert server.sent() == ["7: 0308"]
    assert payloads(server) == []
    server.advance(0.02)
    assert server.sent() == ["7: 08020001"]
    server.stream("03000400000208000178")
    batches = server.events(MessageBatch)
    assert [batch.channel for batch in batches] == [0, 8]
    assert batches[0].attachments == {0: (Attachment(8, ()),)}
    assert batches[1].payload == b"m"
    server.advance(0.02)
    assert server.sent() == ["11: 030008020001"]


@rule("AQ-LIFE-4")
def test_s05_unknown_locally_created() -> None:
    server = Wire.server()
    server.stream("0301040000000" + "17a")
    server.advance(0.02)
    assert server.sent() == ["7: 03010b FIN"]
    assert server.all_events() == []


@rule("AQ-LIFE-12", "AQ-LIFE-15", "AQ-SEND-8")
def test_s06_graceful_finish() -> None:
    server = Wire.server()
    server.stream("03000400000001610401000001620602", end=True)
    assert server.sent() == ["7: 0300080200020a FIN"]
    assert payloads(server) == [(0, b"a"), (0, b"b")]
    assert ends(server) == [(0, End.FINISHED)]
    client = Wire.client()
    client.engine.send(0, b"a", now=0)
    client.engine.send(0, b"b", now=0)
    client.engine.finish(0, 0)
    assert client.sent() == ["10: 03000400000001610401000001620602 FIN"]
    client.stream("0300080200020a", end=True)
    assert client.events(Delivered) == [Delivered(0, True, 0, 2, True)]
    assert ends(client) == [(0, End.FINISHED)]
    assert not client.engine.half_open(0)
    assert client.engine.drained


@rule("AQ-LOST-2", "AQ-LOST-3", "AQ-LOST-4", "AQ-SEND-11")
def test_s07_lost_cascade() -> None:
    client = Wire.client()
    assert client.engine.send(0, b"", now=0, attach=[Attach(True)]).attached == (8,)
    assert client.engine.send(8, b"", now=0, attach=[Attach(True)]).attached == (16,)
    assert client.sent() == ["10: 030004000002080000", "14: 030804000002100000"]
    client.stream("030808020001")
    client.stream("03000a")
    assert ends(client) == [(0, End.CLOSED), (8, End.LOST), (16, End.LOST)]
    client.advance(0.02)
    sent = client.sent()
    assert [line for line in sent if "0b" in line] == ["18: 03080b FIN"]
    assert "RESET 14" in sent


@rule("AQ-SEND-10", "AQ-LIFE-14")
def test_s08_cancel() -> None:
    client = Wire.client()
    client.engine.send(0, b"a", now=0)
    client.engine.send(0, b"b", now=0)
    assert client.sent() == ["10: 0300040000000161" + "0401000001" + "62"]
    client.engine.cancel(0, 0)
    assert client.sent() == ["14: 030007 FIN", "RESET 10"]
    client.stream("0300080200020a", end=True)
    assert ends(client) == [(0, End.CANCELLED)]
    server = Wire.server()
    stream = server.stream("0300040000000161040100000162")
    server.stream("030007", end=True)
    server.reset(stream)
    assert server.sent() == ["7: 0300080200020a FIN"]
    assert ends(server) == [(0, End.CANCELLED)]


@rule("AQ-SEND-3", "AQ-SEND-4")
def test_s09_fallback_to_a_stream() -> None:
    client = Wire(AqueductEngine(Side.CLIENT))
    client.sent()
    client.engine.handle(LinkReady(1200), 0)
    sent = client.engine.send(0, b"p" * 1200, now=0, mode=Mode.UNRELIABLE)
    assert (sent.number, sent.reliable) == (0, True)
    assert client.sent() == ["6: V0300040000" + "00b009" + "70" * 1200 + " FIN"]
    client.advance(1)
    assert client.sent() == []  # SENT_UNRELIABLE does not count it


@rule("AQ-LIFE-20")
def test_s10_unclaimed_attachments() -> None:
    server = Wire.server()
    server.stream("030004000004080002000" + "0")
    (batch,) = server.events(MessageBatch)
    assert server.sent() == ["7: 0308", "11: 0302"]
    server.engine.drop(batch.attachments[0], server.now)
    assert server.sent() == ["7: 0a FIN", "11:  FIN", "15: 030207 FIN"]


@rule("AQ-SEND-7", "AQ-SEND-8", "AQ-LIFE-16", "AQ-ERR-4")
def test_s11_after_finish() -> None:
    server = Wire.server()
    server.stream("03080605")
    server.stream("03080501")
    assert server.code == Code.STATE
    server = Wire.server()
    server.stream("03080600")
    assert server.sent() == ["7: 03080a FIN"]
    server.stream("03080501")
    assert server.code is None
    assert server.sent() == []


@rule("AQ-LIFE-7", "AQ-LIFE-17")
def test_s12_forget_of_unknown() -> None:
    server = Wire.server()
    server.stream("03080b")
    server.stream("030804000000016d")
    server.advance(5)
    assert server.sent() == []
    assert server.all_events() == []


@rule("AQ-LIFE-7")
def test_s12_in_pieces_takes_the_route_back_back() -> None:
    server = Wire.server()
    stream = server.stream("0308")
    server.stream("0b", stream)
    server.advance(5)
    assert server.sent() == []
    assert server.all_events() == []
    assert not server.engine.half_open(8)


@rule("AQ-LIFE-18", "AQ-LIFE-19")
def test_s13_forget_coalescing() -> None:
    server = Wire.server()
    for _ in range(50):
        server.stream("0301040000000" + "17a")
    server.advance(1)
    assert server.sent() == ["7: 03010b FIN"]
    server.stream("0301")
    server.advance(1)
    assert server.sent() == ["11: 03010b FIN"]


@rule("AQ-SEQ-4")
def test_s14_reset_in_a_frame() -> None:
    server = Wire.server()
    stream = server.stream("030004000000056869")
    server.reset(stream)
    assert server.all_events() == []
    server.stream("030004000000026869")
    assert payloads(server) == [(0, b"hi")]
    assert server.code is None


@rule("AQ-HDR-4", "AQ-HDR-5")
def test_s16_held_frames() -> None:
    server = Wire(AqueductEngine(Side.SERVER, (), Config(auto_accept=True)))
    server.stream("V030004000000026869", 6)
    assert server.sent() == ["3: V01 FIN"]
    assert server.all_events() == []
    server.stream("V0200", 2, end=True)
    assert [type(event) for event in server.all_events()] == [Opened, MessageBatch]


@rule("AQ-LIFE-11", "AQ-LIFE-12")
def test_s17_close_with_acks_pending() -> None:
    server = Wire.server()
    server.stream("0300040000000161040100000162")
    server.engine.close(0, server.now)
    assert server.sent() == ["7: 0300080200020a FIN"]


@rule("AQ-SEND-14", "AQ-LIFE-11")
def test_s18_oneshot_reply() -> None:
    client = Wire.client()
    sent = client.engine.send(0, b"q", now=0, attach=[Attach(False, oneshot=True)])
    assert sent.attached == (6,)
    assert client.sent() == ["10: 03000400000206000171"]
    client.stream("030604000000017206" + "01", end=True)
    assert payloads(client) == [(6, b"r")]
    assert client.sent() == ["14: 0306080200010a"]
    client.advance(1)
    assert client.sent() == ["14:  FIN"]  # after close_linger
    assert ends(client) == [(6, End.FINISHED)]
    server = Wire.server()
    server.stream("03000400000206000171")
    server.events(MessageBatch)
    server.sent()
    server.engine.send(6, b"r", now=0)
    assert server.sent() == ["7: 04000000017206" + "01 FIN"]
    with pytest.raises(NotAllowed):
        server.engine.send(6, b"again", now=0)
    server.stream("0306080200010a", end=True)
    assert ends(server) == [(6, End.FINISHED)]
    assert not server.engine.half_open(6)
