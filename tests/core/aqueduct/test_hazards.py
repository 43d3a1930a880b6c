"""What a hostile peer can make one connection hold: hazards H1 to H14, each at its named limit.

Each test reaches the limit, says how the connection or the channel ends, and counts what is held.
"""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.events import Closed, End, Ended, Numbered
from aqueduct_core.aqueduct.faults import Code, TooMany
from aqueduct_core.engine.inputs import DatagramFate, DatagramOutcome, LinkReady, StreamLimit
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.primitives import varint
from tests.support.rules import rule
from tests.support.wire import Wire


def server(**limits: int) -> Wire:
    return Wire.server(Config(auto_accept=True, **limits))  # type: ignore[arg-type]


def n(value: int) -> str:
    return varint.encode(value).hex()


def refused(wire: Wire, code: Code = Code.RESOURCE_LIMIT) -> None:
    """The connection is closed, the application was told, and nothing more is held."""
    assert wire.code == code
    assert wire.all_events()[-1] == wire.engine.closed
    assert isinstance(wire.engine.closed, Closed)
    assert wire.engine.open_channels == 0
    assert wire.engine.wake_at is None


@rule("AQ-BYTES-2")
@pytest.mark.parametrize(
    ("frame", "limit"),
    [
        ("0300" + "040000" + "00", "max_payload_bytes"),
        ("0300" + "0400", "max_headers_bytes"),
        ("0300" + "040000", "max_attachments_bytes"),
    ],
)
def test_h01_a_length_is_refused_before_its_bytes_come(frame: str, limit: str) -> None:
    most = getattr(Config(), limit)
    for length in (most + 1, 1 << 40):
        wire = server()
        wire.stream(frame + n(length))
        refused(wire)
    wire = server()
    wire.stream(frame + n(most))
    assert wire.code is None
    assert wire.engine._ingress._partial < 20


@rule("AQ-BYTES-2")
def test_h01_the_same_for_connection_headers_ranges_and_counts() -> None:
    wire = Wire(AqueductEngine(Side.SERVER))
    wire.stream("V02" + n(64_001))
    refused(wire)
    client = Wire.client()
    client.stream("0302"[:2] + "0008" + n((1 << 16) + 1))
    refused(client)
    wire = server(max_attachments=3)
    four = "".join(f"{channel:02x}00" for channel in (8, 16, 24, 32))
    wire.stream("0300" + "040000" + n(8) + four + "00")
    refused(wire)


def test_h02_parts_of_frames_are_counted_over_all_streams() -> None:
    wire = server(max_partial_bytes=10_000)
    for _ in range(3):
        wire.stream("0300" + "040000" + "00" + n(9_000) + "00" * 3_000)
        assert wire.code is None
        assert wire.engine._ingress._partial <= 10_000
    wire.stream("0300" + "040000" + "00" + n(9_000) + "00" * 3_000)
    refused(wire)


def test_h02_a_reset_gives_its_part_back() -> None:
    wire = server(max_partial_bytes=10_000)
    for _ in range(20):
        wire.reset(wire.stream("0300" + "040000" + "00" + n(9_000) + "00" * 3_000))
    assert wire.code is None
    assert wire.engine._ingress._partial == 0
    assert not wire.engine._ingress._streams


@rule("AQ-HDR-8")
def test_h03_what_comes_before_the_headers_is_bounded_and_timed() -> None:
    config = Config(auto_accept=True, max_prehandshake_bytes=1000, max_prehandshake_datagrams=3)
    wire = Wire(AqueductEngine(Side.SERVER, (), config))
    for _ in range(10):
        wire.datagram("V0300040000000175")
    assert len(wire.engine._ingress._held) == 3
    assert wire.engine.statistics.datagrams_dropped == 7
    wire.stream("V0300" + "00" * 990)
    assert wire.code is None
    wire.stream("V0300" + "00" * 20)
    refused(wire)
    late = Wire(AqueductEngine(Side.SERVER))
    late.stream("V")
    late.advance(10.1)
    refused(late, Code.HEADERS)


@rule("AQ-LIFE-21")
def test_h04_channels_by_route_to() -> None:
    wire = server(max_unclaimed_channels=50)
    for index in range(1, 51):
        wire.stream("03" + n(index << 3))
    assert wire.code is None
    assert wire.engine.open_channels == 51
    wire.stream("03" + n(51 << 3))
    refused(wire)


def test_h04_channels_by_attachments() -> None:
    wire = server(max_channels=50)
    for number in range(49):
        wire.stream("0300" + "04" + n(number) + "00" + n(len(n((number + 1) << 3)) // 2 + 1)
                    + n((number + 1) << 3) + "00" + "00")  # fmt: skip
    assert wire.code is None
    assert wire.engine.open_channels == 50
    wire.stream("0300" + "04" + n(49) + "00" + "03" + n(50 << 3) + "00" + "00")
    refused(wire)


@rule("AQ-LIFE-21")
def test_h04_bytes_on_channels_that_nobody_carries() -> None:
    wire = server(max_unclaimed_bytes=10_000)
    for index in range(1, 4):
        wire.stream("03" + n(index << 3) + "04000000" + n(3_000) + "61" * 3_000)
        assert wire.engine._channels._remote_channels.bytes <= 10_000
    assert wire.code is None
    wire.stream("03" + n(4 << 3) + "04000000" + n(3_000) + "61" * 3_000)
    refused(wire)


def test_h05_a_channel_that_nobody_reads_is_closed() -> None:
    wire = server(max_channel_queue_bytes=10_000)
    stream = wire.stream("0300")
    for number in range(100):
        wire.stream("04" + n(number) + "0000" + n(1000) + "61" * 1000, stream)
    assert wire.code is None
    (ended,) = wire.events(Ended)
    assert ended.end is End.OVERFLOW
    assert wire.engine.statistics.overflows == 1
    assert wire.engine.statistics.queued_bytes <= 10_000 + 1_010
    assert any(text.endswith("0a FIN") for text in wire.sent())


def test_h05_all_channels_together_and_datagrams() -> None:
    wire = server(max_connection_queue_bytes=10_000)
    carried = "".join(f"{index << 3:02x}00" for index in range(1, 6))
    wire.stream("0300" + "040000" + n(10) + carried + "00")
    for number in range(100):
        channel = n((1 + number % 5) << 3)
        wire.datagram("03" + channel + "04" + n(number // 5) + "0000" + n(1000) + "61" * 1000)
    # datagrams over the limit are lost, and nothing else happens
    assert wire.events(Ended) == []
    assert sum(batch.size for batch in wire.events(MessageBatch)) <= 10_000
    assert wire.engine.statistics.overflows > 80
    assert wire.engine.statistics.queued_bytes <= 10_000


@pytest.mark.parametrize("carrier", ["streams", "datagrams", "unclaimed"])
def test_h05_small_messages_count_with_what_they_cost(carrier: str) -> None:
    """Each of one byte, on its own stream or datagram, in its own burst: a batch for each."""
    wire = server(max_queue_pieces=200)
    channel = "08" if carrier == "unclaimed" else "00"
    held: list[MessageBatch] = []
    for number in range(1000):
        text = "03" + channel + "04" + n(number) + "00000161"
        if carrier == "datagrams":
            wire.datagram(text)
        else:
            wire.stream(text, end=True)
        held += wire.events(MessageBatch)
        if wire.engine.statistics.overflows:
            break
    book = wire.engine._context.credit
    assert wire.engine.statistics.overflows
    assert len(held) <= 201
    assert book.pieces <= 201
    for batch in held:
        wire.engine.consumed(batch.channel, batch.size, wire.now)
    assert book.pieces == 0
    assert book.total == 0


@rule("AQ-ACK-13", "AQ-ACK-14")
def test_h06_sparse_numbers_and_huge_ranges() -> None:
    wire = server(max_ranges_per_space=100, max_reliable_window=1000, max_unreliable_window=1000)
    wire.stream("0300" + "0500"[:2] + n(1 << 61))
    half = wire.engine._channels.halves[0]
    for number in range(0, 4000, 2):
        wire.datagram("0300" + "04" + n(number) + "00000175")
    assert len(half._unreliable.received) == 100  # type: ignore[union-attr]
    wire.advance(2)
    (answer,) = wire.sent()
    assert len(answer) < 1000  # 2^61 numbers are a few ranges
    wire.stream("0300" + "04" + n(1001) + "00000175")
    refused(wire)
    holes = server(max_ranges_per_space=100)
    for number in range(0, 202, 2):
        assert holes.code is None
        holes.stream("0300" + "04" + n(number) + "00000175")
    refused(holes)
    client = Wire.client()
    client.engine.send(0, b"", now=0)
    client.stream("0300" + "08" + n(len(n(1 << 61)) // 2 + 1) + "00" + n(1 << 61))
    refused(client, Code.ACK)


def test_h06_declarations_that_are_never_answered_are_merged() -> None:
    wire = server()
    stream = wire.stream("0300")
    half = wire.engine._channels.halves[0]
    for _ in range(20_000):
        wire.now += 0.00001
        wire.stream("0501", stream)
    assert len(half._unreliable._pending) <= 4096  # type: ignore[union-attr]
    wire.advance(3)
    assert half._unreliable.settled  # type: ignore[union-attr]


@rule("AQ-LIFE-17")
def test_h07_tombstones_and_claims_with_holes() -> None:
    wire = server(max_tombstone_ranges=10)
    for index in range(2, 402, 2):
        channel = index << 3
        number = (index - 2) // 2
        carried = n(channel) + "00"
        wire.stream("0300" + "04" + n(number) + "00" + n(len(carried) // 2) + carried + "00")
        wire.stream("03" + n(channel) + "0b")
        wire.advance(1.5)
    assert wire.code is None
    assert wire.engine.open_channels == 1
    channels = wire.engine._channels
    assert len(channels._tombstones._channels._kinds[0]) <= 11
    assert len(channels._remote_channels._claimed._kinds[0]) <= 11
    # a channel that is alive is not attached again, however long ago its claim was
    live = server(max_tombstone_ranges=2)
    for number, index in enumerate(range(2, 22, 2)):
        live.stream(
            "0300"
            + "04"
            + n(number)
            + "00"
            + n(len(n(index << 3)) // 2 + 1)
            + n(index << 3)
            + "0000"
        )
    assert live.code is None
    live.stream("0300" + "04" + n(10) + "0002" + n(2 << 3) + "0000")
    refused(live, Code.STATE)
    # the newest are still remembered, the entrypoint always
    wire.fresh()
    wire.stream("03" + n(400 << 3) + "0400000000")
    assert wire.sent() == []


@rule("AQ-LIFE-18", "AQ-LIFE-7")
def test_h08_many_streams_in_few_streams_out() -> None:
    wire = server(max_pending_forgets=20)
    for _ in range(50):
        for index in range(20):
            wire.stream("03" + n(index << 3 | 1), end=True)
    wire.advance(0.03)
    assert len(wire.sent()) == 20
    for index in range(1, 1000):
        wire.stream("03" + n(index << 3) + "0b", end=True)
    wire.advance(2)
    assert wire.sent() == []
    assert wire.engine.open_channels == 1
    for index in range(21):
        wire.stream("03" + n(index << 3 | 1))
    refused(wire)


@rule("AQ-LIFE-20")
def test_h09_attachments_that_nobody_takes() -> None:
    wire = server()
    wire.stream("0300" + "040000" + "04" + "08000200" + "00")
    (batch,) = wire.events(MessageBatch)
    wire.sent()
    wire.engine.drop(batch.attachments[0], wire.now)
    assert wire.sent() == ["7: 0a FIN", "11:  FIN", "15: 030207 FIN"]
    # and those inside messages that were thrown away before anybody saw them
    wire.stream("0310" + "040000" + "02" + "1800" + "00" + "07")
    assert "03180a FIN" in " ".join(wire.sent())
    assert wire.engine._channels._remote_channels.bytes == 0


def test_h10_channels_whose_fate_is_open() -> None:
    client = Wire.client(Config(max_links=5))
    for _ in range(5):
        client.engine.send(0, b"", now=0, attach=[Attach(True)])
    with pytest.raises(TooMany):
        client.engine.send(0, b"", now=0, attach=[Attach(True)])
    assert client.engine._channels.lineage.links == 5
    client.stream("0300" + "08020005")
    client.engine.send(0, b"", now=0, attach=[Attach(True)])
    assert client.engine._channels.lineage.links == 1


def test_h11_a_peer_that_never_acks() -> None:
    client = Wire.client(Config(max_unacked_attachment_messages=5))
    for _ in range(5):
        client.engine.send(0, b"", now=0, attach=[Attach(True), Attach(False)])
    with pytest.raises(TooMany):
        client.engine.send(0, b"", now=0, attach=[Attach(True)])
    client.engine.send(0, b"plain ones go on", now=0)
    client.stream("0300" + "08020001")
    client.engine.send(0, b"", now=0, attach=[Attach(True)])
    assert client.engine._channels.lineage.carriers == 5


def test_h12_the_last_streams_are_for_control() -> None:
    client = Wire.client(Config(reserved_control_streams=4))
    engine = client.engine
    engine.handle(StreamLimit(16), 0)
    engine.send(0, b"", now=0, mode=Mode.UNORDERED, attach=[Attach(True), Attach(True)])
    numbers = [engine.send(0, b"", now=0, mode=Mode.UNORDERED).number for _ in range(20)]
    waiting = numbers.count(None)
    assert waiting > 10
    assert engine._outbox.streams_left == 4
    client.sent()
    engine.cancel(8, 0)
    assert any(text.endswith("030807 FIN") for text in client.sent())
    engine.handle(StreamLimit(64), 0)
    assert sum(event.stop - event.first for event in client.events(Numbered)) == waiting


def test_h13_control_streams_are_opened_late_and_ended() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(False) for _ in range(50)])
    client.pump()
    assert len(client.engine._outbox._live) == 1  # the entrypoint's messages
    client.stream("0302" + "0400000000" + "0601", end=True)
    client.advance(2)
    assert len(client.engine._outbox._live) == 1
    assert client.engine.open_channels == 50


@rule("AQ-SEND-3", "AQ-SEND-5")
def test_h14_no_datagram_is_larger_than_the_link_takes() -> None:
    client = Wire.client()
    engine = client.engine
    for size in (1100, 500, 0):
        engine.handle(LinkReady(size), 0)
        for length in range(0, 1200, 7):
            engine.send(0, bytes(length), now=0, mode=Mode.UNRELIABLE)
        for text in client.sent():
            if text.startswith("d: "):
                assert (len(text) - 3) // 2 <= size
    engine.handle(LinkReady(1100), 0)
    sent = engine.send(0, bytes(900), now=0, mode=Mode.UNRELIABLE)
    assert not sent.reliable
    client.pump()
    token = engine._outbox._next_token - 1
    engine.handle(DatagramOutcome(token, DatagramFate.REFUSED), 0)
    assert engine.send(0, b"", now=0, mode=Mode.UNRELIABLE).number == sent.number
