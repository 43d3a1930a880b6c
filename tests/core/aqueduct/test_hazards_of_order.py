"""Races, ends that never come and work that must not be done twice: hazards H15 to H28."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import AckMode, AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.events import Closed, Delivered, End, Idle, Nacked
from aqueduct_core.aqueduct.faults import Code, LocalError
from aqueduct_core.aqueduct.wire import codec
from aqueduct_core.engine.inputs import EarlyReady
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.primitives import varint
from aqueduct_core.transport.settings import ListenLimits
from tests.support.rules import rule
from tests.support.wire import Wire, ends

HI = "030004000000026869"


@rule("AQ-SEND-10", "AQ-LOST-4")
@pytest.mark.parametrize("mode", [Mode.ORDERED, Mode.UNORDERED])
def test_h15_no_control_frame_on_a_stream_that_is_reset(mode: Mode) -> None:
    client = Wire.client()
    for _ in range(3):
        client.engine.send(0, b"hi", now=0, mode=mode)
    client.sent()
    client.engine.cancel(0, 0)
    out = client.sent()
    reset = {text.split()[1] for text in out if text.startswith("RESET")}
    written = {text.split(":")[0] for text in out if not text.startswith("RESET")}
    assert reset
    assert any(text.endswith("030007 FIN") for text in out)
    assert not reset & written


@rule("AQ-LIFE-24")
def test_h16_finished_is_not_drained() -> None:
    client = Wire.client()
    client.engine.send(0, b"hi", now=0)
    client.engine.finish(0, 0)
    client.pump()
    assert not client.engine.drained
    client.stream("0300" + "08020001")
    assert not client.engine.drained
    client.stream("0a", 7)
    assert client.engine.drained
    assert ends(client) == [(0, End.FINISHED)]


@rule("AQ-ACK-15")
def test_h17_no_ack_before_the_message_is_stored() -> None:
    wire = Wire.server(Config(auto_accept=True, ack_mode=AckMode.ON_STORED))
    wire.stream(HI + "0601")
    wire.advance(5)
    assert wire.sent() == []
    assert ends(wire) == []
    wire.engine.stored(0, 0, 1, reliable=True, now=wire.now)
    assert wire.sent() == ["7: 0300" + "08020001" + "0a FIN"]


@rule("AQ-LIFE-12")
def test_h18_what_was_read_is_acked_before_the_close() -> None:
    wire = Wire.server()
    wire.stream(HI)
    wire.datagram("0300040000000175")
    wire.engine.close(0, 0)
    assert wire.sent() == ["7: 0300" + "08020001" + "090101" + "0a FIN"]


@rule("AQ-LIFE-3", "AQ-LIFE-11", "AQ-LIFE-22")
def test_h19_route_to_back_cannot_draw_a_late_forget() -> None:
    wire = Wire.server()
    wire.stream("0308" + "04000000" + "0161" + "0601")
    # ROUTE_TO back, acks and the end share one stream, so nothing of ours trails the end
    assert wire.sent() == ["7: 0308" + "08020001" + "0a FIN"]
    wire.stream("0300" + "0400" + "00" + "020800" + "00")
    assert [batch.channel for batch in wire.events(MessageBatch)] == [0, 8]
    client = Wire.client(Config(close_linger=1.0))
    client.engine.send(0, b"", now=0, attach=[Attach(False)])
    client.engine.close(2, 0)
    client.sent()
    client.stream("0302")
    client.advance(0.5)
    assert client.sent() == ["14: 0b"]  # behind the CLOSE_RECEIVER on its stream
    client.advance(1)
    assert client.sent() == ["14:  FIN"]


@rule("AQ-ACK-6", "AQ-ACK-10")
def test_h20_a_stalled_receiver_does_not_nack_what_is_here() -> None:
    """The driver feeds all that arrived before it fires timers, however late they are."""
    wire = Wire.server()
    wire.stream("0300" + "0502")
    wire.now = 30.0
    wire.datagram("0300040000000175")
    wire.datagram("0300040100000175")
    wire.engine.tick(wire.now)
    assert wire.sent() == ["7: 0300" + "090102"]
    assert wire.events(Nacked) == []


@rule("AQ-ACK-6")
def test_h20_the_deadline_counts_from_processing() -> None:
    wire = Wire(AqueductEngine(Side.SERVER, (), Config(auto_accept=True)))
    wire.stream("V03000501", 6)
    wire.advance(5)  # held
    wire.stream("V0200", 2)
    wire.fresh()
    wire.advance(0.9)
    assert wire.sent() == []
    wire.advance(0.2)
    assert wire.sent() == ["11: V0300" + "09020001"]


@rule("AQ-ACK-10")
def test_h21_what_comes_behind_the_timer_is_ignored() -> None:
    wire = Wire.server()
    wire.stream("0300" + "0501")
    wire.advance(1.1)
    assert wire.sent() == ["7: 0300" + "09020001"]
    wire.datagram("0300040000000175")
    assert wire.events(MessageBatch) == []
    assert wire.code is None


@rule("AQ-0RTT-3", "AQ-0RTT-5")
def test_h22_early_data_is_off_and_says_nothing_of_the_handshake() -> None:
    limits = ListenLimits()
    assert not limits.early_data
    assert not limits.resume
    wire = Wire(AqueductEngine(Side.CLIENT))
    wire.engine.handle(EarlyReady(900), 0)
    wire.engine.send(0, bytes(870), now=0, mode=Mode.UNRELIABLE)
    assert not any(text.startswith("d: ") for text in wire.sent())  # with VERSION it is too large


@rule("AQ-HDRDATA-1", "AQ-HDRDATA-3")
def test_h23_headers_are_bytes_within_bounds_and_their_values_are_not_shown() -> None:
    wire = Wire.server(Config(auto_accept=True, max_header_pairs=2))
    secret = b"Bearer \xff\x00/../x".hex()
    pair = "0161" + f"{len(secret) // 2:02x}" + secret
    region = pair + pair
    wire.stream("0300" + "0400" + f"{len(region) // 2:02x}" + region + "00" + "00")
    (batch,) = wire.events(MessageBatch)
    assert [key for key, _ in batch.headers[0]] == [b"a", b"a"]
    (single,) = batch.messages()
    assert "Bearer" not in repr(single) + repr(batch)
    region += "01610162"
    wire.stream("0300" + "0401" + f"{len(region) // 2:02x}" + region + "00" + "00")
    assert wire.code == Code.RESOURCE_LIMIT


def test_h24_an_application_may_act_on_news_in_any_order() -> None:
    wire = Wire.server()
    wire.stream("0300" + "0400" + "00" + "0408000200" + "00" + "0401000000" + "0602")
    events = wire.engine.events()
    before = list(events)
    for item in events:
        if not isinstance(item, MessageBatch):
            continue
        for act in (
            lambda: wire.engine.close(8, 0),
            lambda: wire.engine.cancel(2, 0),
            lambda: wire.engine.send(2, b"", now=0, attach=[Attach(True)]),
            lambda: wire.engine.consumed(0, 100, 0),
            lambda batch=item: wire.engine.drop(batch.attachments[0], 0),  # type: ignore[misc]
            lambda: wire.engine.close(0, 0),
        ):
            try:
                act()
            except LocalError:
                pass
    assert events == before  # what was handed over stays as it is
    assert wire.code is None
    assert (8, End.CLOSED) in ends(wire)


@rule("AQ-ERR-1")
def test_h25_the_first_error_wins() -> None:
    wire = Wire.server()
    wire.stream("0300" + "0d")
    wire.stream(HI)
    wire.stream("02000200")
    wire.datagram("ff")
    wire.advance(60)
    closed = [event for event in wire.all_events() if isinstance(event, Closed)]
    assert closed == [wire.engine.closed]
    assert wire.code == Code.ENCODING
    assert wire.sent() == ["CLOSE 2"]


@rule("AQ-VARINT-4", "AQ-SEQ-9")
def test_h26_a_large_frame_in_small_pieces_is_parsed_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = 0
    decode = codec.decode_message

    def counted(*arguments: object) -> object:
        nonlocal tries
        tries += 1
        return decode(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(codec, "decode_message", counted)
    wire = Wire.server()
    size = 20_000
    stream = wire.stream("0300" + "04000000")
    for byte in varint.encode(size) + bytes(size):
        wire.stream(f"{byte:02x}", stream)
    (batch,) = wire.events(MessageBatch)
    assert len(batch.payload) == size
    assert tries < 20


def test_h27_a_channel_that_the_peer_abandons_is_told_of_once() -> None:
    wire = Wire.server(Config(auto_accept=True, channel_idle_timeout=5.0))
    stream = wire.stream("0300" + "040000000568")
    wire.reset(stream)
    wire.advance(60)
    assert wire.events(Idle) == [Idle(0)]
    assert wire.code is None
    assert not wire.engine._ingress._streams
    wire.stream(HI)
    wire.advance(60)
    assert wire.events(Idle) == [Idle(0)]
    wire.engine.close(0, wire.now)
    assert ends(wire) == [(0, End.CLOSED)]
    assert wire.engine.wake_at is None


@rule("AQ-ERR-3")
def test_h27_without_a_timeout_an_open_channel_costs_its_machine_alone() -> None:
    wire = Wire.server()
    for index in range(1, 200):
        stream = wire.stream("0300" + "04000000" + "7f" + "61" * 20)
        wire.reset(stream)
        wire.reset(wire.stream(f"03{varint.encode(index << 3).hex()}"))
    assert wire.engine.open_channels == 200
    assert wire.engine._ingress._partial == 0
    assert not wire.engine._ingress._streams


def test_h28_a_finish_that_waits_for_a_lost_number_can_be_ended() -> None:
    wire = Wire.server(Config(auto_accept=True, channel_idle_timeout=5.0))
    wire.reset(wire.stream("0300" + "040000000568"))
    wire.stream("0300" + "0601")
    wire.advance(30)
    assert wire.events(Idle) == [Idle(0)]
    assert ends(wire) == []
    wire.engine.close(0, wire.now)
    assert ends(wire) == [(0, End.CLOSED)]
    oneshot = Wire.client(Config(channel_idle_timeout=5.0))
    oneshot.engine.send(0, b"", now=0, attach=[Attach(True, oneshot=True)])
    oneshot.engine.send(4, b"x", now=0)
    oneshot.advance(30)
    assert Idle(4) in oneshot.events(Idle)
    oneshot.stream("03000a")
    assert (4, End.LOST) in ends(oneshot)
    assert Delivered(4, True, 0, 1, False) in oneshot.events(Delivered)
