"""What an engine says that it holds is what it holds, about; and it comes back."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.aqueduct.statistics import PIECE_BYTES, RANGE_BYTES, RECORD_BYTES, STREAM_BYTES
from aqueduct_core.aqueduct.wire import codec
from aqueduct_core.engine.actions import CloseLink
from aqueduct_core.engine.inputs import LinkReady, StreamBytes, StreamLimit
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.pair import Pair
from tests.support.wire import Wire

FACTOR = 2.0


def fresh(**server: int) -> Pair:
    pair = Pair(server=Config(auto_accept=True, **server))  # type: ignore[arg-type]
    pair.settle()
    return pair


def quiet(pair: Pair) -> Pair:
    """What the pair itself notes is no engine's."""
    pair.seen = {Side.CLIENT: [], Side.SERVER: []}
    pair._last.clear()
    pair._resets.clear()
    return pair


def traced(pair: Pair, make: Callable[[], object]) -> int:
    quiet(pair)
    gc.collect()
    tracemalloc.start()
    try:
        kept = make()
        quiet(pair)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    del kept
    return taken


def is_about(said: float, measured: float) -> bool:
    return measured / FACTOR <= said <= measured * FACTOR


def size(pair: Pair) -> int:
    return sum(engine.footprint.size for engine in pair.engines.values())


def consume(pair: Pair) -> None:
    """The server's application is done with all that it was told."""
    for event in pair.seen[Side.SERVER]:
        if isinstance(event, MessageBatch):
            pair.server.consumed(event.channel, event.size, pair.now)
    pair.seen[Side.SERVER].clear()


def test_an_idle_engine() -> None:
    engines: list[AqueductEngine] = []
    pair = fresh()
    measured = traced(pair, lambda: engines.extend(AqueductEngine(Side.SERVER) for _ in range(20)))
    assert is_about(sum(engine.footprint.size for engine in engines), measured)


def test_the_headers_of_a_connection() -> None:
    servers: list[AqueductEngine] = []

    def open_one() -> None:
        headers = tuple((b"key-%d" % n, b"value %d" % n) for n in range(200))
        data = codec.VERSION + codec.encode_connection_headers(headers)
        servers.append(AqueductEngine(Side.SERVER))
        servers[-1].handle(StreamBytes(2, data, True), 0.0)
        servers[-1].events()

    measured = traced(fresh(), lambda: [open_one() for _ in range(5)])
    assert is_about(sum(server.footprint.size for server in servers), measured)
    bare = AqueductEngine(Side.SERVER).footprint.size
    assert all(server.footprint.size - bare > 200 * 100 for server in servers)


def test_channels_that_carry_nothing() -> None:
    pair = fresh()
    before = size(pair)

    def attach() -> None:
        for _ in range(4):
            attached = [Attach(True) for _ in range(100)]
            pair.client.send(0, b"", now=pair.now, attach=attached)
            pair.settle()

    measured = traced(pair, attach)
    assert is_about(size(pair) - before, measured)


def test_frames_that_are_not_whole() -> None:
    pair = fresh()
    before = pair.server.footprint.size
    route = codec.encode_route_to(0)

    def begin() -> None:
        for number in range(20):
            head = route + codec.message_head(number, (), (), 100_000)
            for piece in (head, *(bytes(1_100) for _ in range(10))):
                pair.server.handle(StreamBytes(1_002 + 4 * number, piece, False), pair.now)
        pair.settle()

    measured = traced(pair, begin)
    assert pair.server.closed is None
    assert is_about(pair.server.footprint.size - before, measured)
    assert pair.server.footprint.waiting == 0


def test_messages_that_nobody_has_consumed() -> None:
    pair = fresh()
    pair.client.send(0, b"first", now=pair.now)
    pair.settle()
    consume(pair)
    before = pair.server.footprint
    for number in range(50):
        pair.client.send(0, b"%d" % number * 100, now=pair.now)
    pair.settle()
    held = pair.server.footprint
    assert held.waiting - before.waiting >= 50 * 100
    assert held.size - before.size == held.waiting - before.waiting
    consume(pair)
    assert pair.server.footprint == before


def test_holes_in_numbers_count_although_nothing_waits() -> None:
    pair = fresh()
    channel = pair.client.send(0, b"", now=pair.now, attach=[Attach(True)]).attached[0]
    pair.settle()
    before = pair.server.footprint.size
    frames = b"".join(b"\x04" + bytes([number, 0, 0, 0]) for number in range(1, 60, 2))
    route = b"\x03" + bytes([channel])
    pair.server.handle(StreamBytes(1_002, route + frames, False), pair.now)
    assert pair.server.closed is None
    pair.server.consumed(channel, 10_000, pair.now)
    assert pair.server.footprint.size - before >= 30 * 100
    pair.server.close(channel, pair.now)
    pair.settle()
    assert pair.server._context.ranges == 1  # those of the entrypoint


def test_declarations_that_wait_for_their_deadline_count() -> None:
    pair = fresh()
    channel = pair.client.send(0, b"", now=pair.now, attach=[Attach(True)]).attached[0]
    pair.settle()
    before = pair.server.footprint.size
    for number in range(300):
        now = pair.now + number * 1e-6
        frames = codec.encode_sent_unreliable(2)
        route = codec.encode_route_to(channel) if not number else b""
        pair.server.handle(StreamBytes(1_002, route + frames, False), now)
    assert pair.server.closed is None
    assert pair.server.footprint.size - before >= 300 * 88
    pair.run(5.0)
    assert pair.server.footprint.size - before < 2_000


def unclaimed(number: int, count: int = 1) -> str:
    """A client's sender that no message carried, with messages of one byte and its end."""
    messages = "".join(f"04{i:02x}00000161" for i in range(count))
    return codec.encode_route_to(8 * number).hex() + messages + f"06{count:02x}"


def test_messages_on_channels_that_no_message_carried_wait_for_the_peer() -> None:
    wire = Wire.server()
    before = wire.engine.footprint
    wire.stream(unclaimed(1, 40))
    for number in range(2, 40):
        wire.stream(unclaimed(number))
    held = wire.engine.footprint
    assert held.size - before.size >= 38 * 1_000
    assert held.waiting == before.waiting
    wire.stream("0300" + "0400" + "00" + "0208" + "00" + "00")  # it carries the first of them
    seen = wire.engine.footprint.waiting
    assert 40 * 6 <= seen <= 40 * 6 + 2 * PIECE_BYTES + 100
    wire.stream("0308" + "0b")
    for batch in wire.events(MessageBatch):
        wire.engine.consumed(batch.channel, batch.size, wire.now)
    for number in range(2, 40):
        wire.stream(codec.encode_route_to(8 * number).hex() + "0b")
    assert wire.engine.footprint.waiting == 0


def test_one_after_the_other_they_are_one_piece() -> None:
    wire = Wire.server()
    stream = wire.stream("0308")
    for number in range(3):
        wire.stream(f"04{number:02x}00000161", stream)
        assert wire.engine.footprint.waiting == 0
    wire.stream("0300" + "0400" + "00" + "0208" + "00" + "00")
    wire.stream(f"04{3:02x}00000161", stream)
    assert wire.engine.footprint.waiting == 4 * 6 + 7 + 3 * PIECE_BYTES


def test_messages_that_alternate_between_streams_wait_for_whom_their_channel_waits() -> None:
    wire = Wire.server()
    streams = [wire.stream("0308") for _ in range(2)]
    for number in range(100):
        wire.stream(f"04{number:02x}00000161", streams[number % 2])
    assert wire.engine.footprint.waiting == 0
    wire.stream("0300" + "0400" + "00" + "0208" + "00" + "00")
    assert wire.engine.footprint.waiting >= 100 * PIECE_BYTES


def test_channels_that_ended_before_a_message_carried_them_count() -> None:
    wire = Wire.server(Config(auto_accept=True, tombstone_age=0.0))
    before = wire.engine.footprint.size
    for number in range(1, 101):
        wire.stream(codec.encode_route_to(8 * number).hex() + "0600", end=True)
    left = wire.engine.footprint.size - before
    assert 100 * RECORD_BYTES <= left <= 100 * RECORD_BYTES + 2 * RANGE_BYTES


def test_streams_that_are_not_over_count_although_nothing_waits() -> None:
    wire = Wire.server()
    before = wire.engine.footprint.size
    for _ in range(100):
        wire.stream("0300")
    assert wire.engine.footprint.size - before == 100 * STREAM_BYTES


def test_channels_that_are_gone_count_where_there_are_holes_between_them() -> None:
    wire = Wire.server(Config(auto_accept=True, tombstone_age=0.0))
    before = wire.engine.footprint.size
    for number in range(1, 200, 2):
        wire.stream(codec.encode_route_to(8 * number).hex() + "0b", end=True)
    assert wire.engine.footprint.size - before >= 99 * RANGE_BYTES


def test_datagrams_that_wait_for_the_headers_count_and_those_that_are_dropped_do_not() -> None:
    wire = Wire(AqueductEngine(Side.SERVER, (), Config(max_prehandshake_datagrams=10)))
    wire.stream("V0200", end=True)
    before = wire.engine.footprint.size
    for number in range(20):
        wire.datagram(f"030004{number:02x}0000e807" + "61" * 1_000)
    held = wire.engine.footprint.size - before
    assert 10 * (1_000 + STREAM_BYTES) <= held <= 10 * (1_020 + STREAM_BYTES)
    wire.engine.accept((), 0)
    (batch,) = wire.events(MessageBatch)
    assert batch.count == 10
    wire.engine.consumed(0, batch.size, 0)
    assert wire.engine.footprint.size - before <= 2 * RANGE_BYTES


def test_headers_of_the_peer_count() -> None:
    pair = Pair(headers=((b"k", bytes(10_000)),))
    pair.settle()
    assert 10_000 <= pair.server.footprint.size - fresh().server.footprint.size <= 10_500


def test_messages_that_wait_for_the_peers_buffer_count() -> None:
    client = Config(flow_per_channel=1_000)
    pair = Pair(client=client, server=Config(auto_accept=True, flow_per_channel=1_000))
    pair.settle()
    pair.client.send(0, bytes(900), now=pair.now)
    pair.settle()
    before = pair.client.footprint.size
    for _ in range(5):
        pair.client.send(0, bytes(900), now=pair.now)
    pair.settle()
    assert 5 * 900 <= pair.client.footprint.size - before <= 5 * 1_000


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 3_000), st.sampled_from(Mode)),
        st.tuples(st.just("attach"), st.integers(1, 20)),
        st.tuples(st.just("consume")),
        st.tuples(st.just("finish")),
        st.tuples(st.just("cancel")),
    ),
    max_size=30,
)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_after_any_conversation_nothing_is_charged_that_is_not_there(
    steps: list[tuple[object, ...]],
) -> None:
    pair = fresh()
    idle = pair.server.footprint.size
    channels: list[int] = []
    modes: dict[int, Mode] = {}

    for step in steps:
        match step:
            case ("send", int(length), Mode() as mode) if channels:
                channel = channels[-1]
                given = modes.setdefault(channel, mode)
                if pair.client.can_send(channel):
                    pair.client.send(channel, bytes(length), now=pair.now, mode=given)
            case ("attach", int(count)):
                attach = [Attach(True) for _ in range(count)]
                channels += pair.client.send(0, b"", now=pair.now, attach=attach).attached
            case ("consume",):
                consume(pair)
            case ("finish",) if channels:
                channel = channels.pop()
                if pair.client.can_send(channel):
                    pair.client.finish(channel, pair.now)
            case ("cancel",) if channels:
                channel = channels.pop()
                if pair.client.can_send(channel):
                    pair.client.cancel(channel, pair.now)
        pair.settle()
        held = pair.server.footprint
        assert idle <= held.size
        assert 0 <= held.waiting <= held.size - idle + 1_024
    for channel in channels:
        if pair.client.can_send(channel):
            pair.client.finish(channel, pair.now)
    pair.settle()
    consume(pair)
    pair.run(5.0)
    left = pair.server.footprint
    assert left.waiting == 0
    assert pair.server._ingress.unread == 0
    # of channels that are gone ranges are remembered
    assert left.size <= idle + 200 * (len(channels) + 60)


@pytest.mark.parametrize("granted", [0, 100])
def test_streams_that_wait_for_a_peer_have_a_bound(granted: int) -> None:
    """A peer that allows few streams makes us open many: one for each channel that it attaches."""
    server = AqueductEngine(Side.SERVER, config=Config(auto_accept=True, max_waiting_streams=500))
    client = AqueductEngine(Side.CLIENT)
    for engine in (server, client):
        engine.handle(LinkReady(1_100), 0.0)
    server.handle(StreamLimit(granted), 0.0)
    waiting = 0
    while server.closed is None:
        client.send(0, b"", now=0.0, attach=[Attach(True) for _ in range(100)])
        for action in client.actions():
            if hasattr(action, "stream_id") and hasattr(action, "data"):
                server.handle(StreamBytes(action.stream_id, action.data, action.end), 0.0)
        waiting = max(waiting, -(server._outbox.streams_left or 0))
        actions = server.actions()
        assert waiting <= 800
    assert actions == [CloseLink(Code.RESOURCE_LIMIT, server.closed.reason)]
    assert "streams wait for this peer, which allows" in server.closed.reason
