"""Rules that other tests only touch, each proved here on its own, byte by byte."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.events import Delivered, End, Ended
from aqueduct_core.aqueduct.faults import Code, LocalError
from aqueduct_core.engine.actions import WriteStream
from aqueduct_core.engine.inputs import LinkReady
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.rules import rule
from tests.support.wire import Wire, unhex


def payloads(wire: Wire) -> list[bytes]:
    return [single.payload for batch in wire.events(MessageBatch) for single in batch.messages()]


@rule("AQ-LIFE-1")
def test_at_the_start_only_the_entrypoint_is_there() -> None:
    client, server = Wire.client().engine, Wire.server().engine
    assert client.open_channels == server.open_channels == 1
    assert client.can_send(0)
    assert server.half_open(0)
    assert not server.can_send(0)
    for channel in (1, 2, 3, 4, 8):
        assert not client.half_open(channel)
        assert not server.half_open(channel)
    with pytest.raises(LocalError):
        server.send(0, b"x", now=0)
    with pytest.raises(LocalError):
        client.close(0, 0)


@rule("AQ-SEQ-3")
def test_sequences_that_come_interleaved_are_independent() -> None:
    server = Wire.server()
    texts = ("03000400000001610401000001620602", "030804000000017804010000017904020000017a")
    streams = [server.stream(text[:2]) for text in texts]
    for at in range(2, max(map(len, texts)), 2):
        for text, stream_id in zip(texts, streams, strict=True):
            if at < len(text):
                server.stream(text[at : at + 2], stream_id)
    assert payloads(server) == [b"a", b"b"]
    assert [ended.end for ended in server.events(Ended)] == [End.FINISHED]
    server.stream("03020400" + "00" + "020800" + "00")  # the server sends on 2: a breach
    assert server.code == Code.CONTEXT


@rule("AQ-SEQ-4")
def test_whole_frames_before_a_reset_count() -> None:
    server = Wire.server()
    stream_id = server.stream("0300 04000000 0161 04010000 0162 04020000 0563")
    server.reset(stream_id)
    assert payloads(server) == [b"a", b"b"]
    assert server.code is None
    server.stream("0300 04020000 0163")
    assert payloads(server) == [b"c"]


@rule("AQ-VER-1")
def test_version_is_decided_when_a_sequence_starts() -> None:
    client = Wire(AqueductEngine(Side.CLIENT))
    client.engine.handle(LinkReady(1200), 0)
    assert client.sent() == ["2: V0200 FIN"]
    client.engine.send(0, b"a", now=0)
    (channel,) = client.engine.send(0, b"b", now=0, attach=[Attach(True)]).attached
    client.engine.send(channel, b"u", mode=Mode.UNRELIABLE, now=0)
    assert client.sent() == [
        "6: V0300" + "040000000161" + "04010002080001" + "62",
        "d: V0308040000000175",
    ]
    client.stream("V020001")
    client.engine.send(0, b"c", now=0)
    client.engine.send(channel, b"v", mode=Mode.UNRELIABLE, now=0)
    # the running stream goes on as it was, new sequences have no VERSION
    assert client.sent() == ["10: 01 FIN", "6: 040200000163", "d: 0308040100000176"]


@rule("AQ-VER-3")
def test_an_ack_version_that_leaves_before_the_peers_came_has_a_version() -> None:
    client = Wire(AqueductEngine(Side.CLIENT))
    client.sent()
    client.stream("V0200")
    assert client.sent() == ["6: V01 FIN"]
    client.stream("01")
    client.engine.send(0, b"", now=0)
    assert client.sent() == ["10: 03000400000000"]


@rule("AQ-HDR-1")
def test_the_clients_first_stream_holds_its_headers() -> None:
    client = AqueductEngine(Side.CLIENT, ((b"cbor-b3b650", b""),))
    (action,) = client.actions()
    assert action == WriteStream(2, unhex("V020d0b63626f722d62336236353000"), True, urgent=True)


@rule("AQ-SEND-9")
def test_nothing_follows_a_finish() -> None:
    client = Wire.client()
    client.engine.send(0, b"u", mode=Mode.UNRELIABLE, now=0)
    client.engine.finish(0, 0)
    assert client.sent() == ["10: 030005010600 FIN", "d: 0300040000000175"]
    for act in (
        lambda: client.engine.send(0, b"", mode=Mode.UNRELIABLE, now=0),
        lambda: client.engine.finish(0, 0),
        lambda: client.engine.cancel(0, 0),
    ):
        with pytest.raises(LocalError):
            act()
    client.advance(10)
    assert client.sent() == []


@rule("AQ-ACK-9")
def test_all_that_a_receiver_says_is_on_one_stream() -> None:
    server = Wire.server()
    server.datagram("0300040000000175")
    control = server.stream("03000503")
    server.stream("0300040000000161", end=True)
    server.advance(0.1)
    server.advance(1.5)
    server.stream("0300040100000162", end=True)
    server.stream("0601", control)
    assert server.code == Code.STATE  # the finish contradicts: two stream messages came

    server = Wire.server()
    server.datagram("0300040000000175")
    control = server.stream("03000502")
    server.stream("0300040000000161", end=True)
    server.advance(2)
    server.stream("0601", control, end=True)
    sent = server.sent()
    assert {line.split(":")[0] for line in sent} == {"7"}
    assert "".join(line.split(": ")[1] for line in sent) == "0300" + "08020001" + "09020101" + (
        "0a FIN"
    )


@rule("AQ-LIFE-9")
def test_route_back_for_attachments_is_an_option() -> None:
    for wanted in (True, False):
        server = Wire.server(Config(auto_accept=True, route_back_on_attach=wanted))
        server.stream("030004000004080002000" + "178")
        assert ("7: 0308" in server.sent()) is wanted


@rule("AQ-LOST-6", "AQ-LIFE-12")
def test_a_channel_that_was_read_is_never_lost() -> None:
    """The server reads a message and closes at once; its acks must make the channel accessible
    before the close nacks what it did not get."""
    client, server = Wire.client(), Wire.server()
    (channel,) = client.engine.send(0, b"x", now=0, attach=[Attach(True)]).attached
    client.engine.send(channel, b"y", now=0)
    for line in client.sent():
        server.stream(line.split(": ")[1])
    assert payloads(server) == [b"x", b"y"]
    server.engine.close(0, 0)
    (answer,) = (line for line in server.sent() if line.endswith("0a FIN"))
    client.stream(answer.split(": ")[1].removesuffix(" FIN"), end=True)
    assert [event for event in client.events(Delivered) if not event.acked] == []
    assert [event.channel for event in client.events(Ended)] == [0]
    client.engine.send(channel, b"z", now=0)


@pytest.mark.parametrize("how", ["end", "reset"])
def test_a_control_stream_that_ends_alone_ends_no_channel(how: str) -> None:
    """B34: the closing frame says what happened, the stream does not."""
    client = Wire.client()
    client.engine.send(0, b"x", now=0)
    control = client.stream("0300", end=how == "end")
    if how == "reset":
        client.reset(control)
    assert client.engine.half_open(0)
    client.engine.send(0, b"y", now=0)
    assert client.events(Ended) == []

    server = Wire.server()
    control = server.stream("0300040000000161", end=how == "end")
    if how == "reset":
        server.reset(control)
    server.advance(30)
    assert server.engine.half_open(0)
    server.stream("0300040100000162", end=True)
    assert payloads(server) == [b"a", b"b"]


@rule("AQ-FRAME-6", "AQ-FRAME-7", "AQ-FRAME-8", "AQ-FRAME-9", "AQ-FRAME-10", "AQ-FRAME-11")
@rule("AQ-FRAME-12", "AQ-FRAME-13", "AQ-ERR-2")
@pytest.mark.parametrize("frame", ["0501", "0600", "07", "0400000000"])
def test_frames_of_a_sender_from_its_receiver(frame: str) -> None:
    server = Wire.server()
    server.stream("0302" + frame)  # the server sends on channel 2
    assert server.code == Code.CONTEXT


@rule("AQ-FRAME-9", "AQ-FRAME-10", "AQ-FRAME-11", "AQ-FRAME-13")
@pytest.mark.parametrize("frame", ["08020001", "090101", "0a", "0c01"])
def test_frames_of_a_receiver_from_its_sender(frame: str) -> None:
    server = Wire.server()
    server.stream("0308" + frame)
    assert server.code == Code.CONTEXT


@rule("AQ-FRAME-12")
def test_only_the_creator_may_forget() -> None:
    server = Wire.server()
    server.stream("0300" + "04000002020000")  # a reply channel of the client, the server sends
    server.pump()
    attached = server.engine.send(2, b"", now=0, attach=[Attach(True)]).attached
    server.stream(f"03{attached[0]:02x}0b")
    assert server.code == Code.CONTEXT


@rule("AQ-ERR-2")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("030003", Code.PROTOCOL),
        ("0300ff", Code.ENCODING),
        ("03000400008000", Code.ENCODING),
        ("0200", Code.HEADERS),
        ("030008020001", Code.CONTEXT),
        ("0300040000000004" + "00000000", Code.STATE),
        ("030c04000000000401000000", Code.STATE),
        ("03000400000080808010", Code.RESOURCE_LIMIT),
    ],
)
def test_which_code_for_which_fault(text: str, code: Code) -> None:
    server = Wire.server()
    server.stream(text)
    assert server.sent()[-1] == f"CLOSE {int(code)}"


@rule("AQ-ERR-2")
def test_codes_that_need_another_side() -> None:
    fresh = Wire(AqueductEngine(Side.SERVER))
    fresh.stream("0200")
    assert fresh.code == Code.VERSION
    client = Wire.client()
    client.engine.send(0, b"x", now=0)
    client.stream("030008020002")
    assert client.code == Code.ACK
    strict = Wire(AqueductEngine(Side.CLIENT, (), Config(require_datagrams=True)))
    strict.engine.handle(LinkReady(0), 0)
    assert strict.code == Code.DATAGRAM
