"""Peers that let the other end have few streams, and another one for each that ends (H12)."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import AckMode, AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.events import Delivered, End, Ended, Event, StreamsTaken, Writable
from aqueduct_core.engine.inputs import StreamLimit
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.transport.in_memory.end import MemoryEnd
from aqueduct_core.transport.in_memory.link import MemoryLink
from tests.support.rules import rule
from tests.support.wire import Wire

MESSAGES = 40
SMALL, LARGE = 20, 25_000


class Application:
    """One end: reads, stores and acks all that comes, and sends on channels."""

    def __init__(self, end: MemoryEnd, link: MemoryLink, engine: AqueductEngine) -> None:
        self.engine, self._link = engine, link
        self.received: dict[int, set[bytes]] = {}
        self.ended: dict[int, End] = {}
        self.acked: dict[int, int] = {}
        self.told: list[StreamsTaken] = []
        self._bulk: dict[int, tuple[list[bytes], Mode]] = {}
        end.on_events = self._handle

    def _handle(self, events: list[Event]) -> None:
        now = self._link.now
        for event in events:
            if isinstance(event, MessageBatch):
                payloads = self.received.setdefault(event.channel, set())
                payloads.update(item.payload for item in event.messages())
                if self.engine.config.ack_mode is AckMode.ON_STORED:
                    stop = event.first + event.count
                    self.engine.stored(event.channel, event.first, stop, reliable=True, now=now)
                self.engine.consumed(event.channel, event.size, now)
            elif isinstance(event, Delivered):
                more = event.stop - event.first
                self.acked[event.channel] = self.acked.get(event.channel, 0) + more
            elif isinstance(event, Ended):
                self.ended[event.channel] = event.end
            elif isinstance(event, StreamsTaken):
                self.told.append(event)
            elif isinstance(event, Writable):
                self._go_on(event.channel)
        self._link.kick()

    def send_all(self, channel: int, mode: Mode, *, bulk: bool = False, size: int = SMALL) -> None:
        payloads = [b"%d:%d" % (channel, at) + bytes(size) for at in range(MESSAGES)]
        if bulk:
            self._bulk[channel] = (payloads, mode)
            self._go_on(channel)
        else:
            for payload in payloads:
                self.engine.send(channel, payload, now=self._link.now, mode=mode)
            self.engine.finish(channel, self._link.now)
        self._link.kick()

    def _go_on(self, channel: int) -> None:
        payloads, mode = self._bulk[channel]
        now = self._link.now
        first, stop = self.engine.send_many(channel, payloads, mode=mode, now=now)
        self._bulk[channel] = (payloads[stop - first :], mode)
        if stop - first == len(payloads):
            self.engine.finish(channel, now)


def joined(
    streams: int, *, seed: int = 0, ack_mode: AckMode = AckMode.ON_RECEIPT
) -> tuple[MemoryLink, Application, Application]:
    client = AqueductEngine(Side.CLIENT, (), Config())
    server = AqueductEngine(Side.SERVER, (), Config(auto_accept=True, ack_mode=ack_mode))
    link = MemoryLink(
        client, server, seed=seed, jitter=0.02, cut=0.2, max_streams_uni=streams,
        stream_window=10_000, connection_window=40_000,
    )  # fmt: skip
    ends = Application(link.client, link, client), Application(link.server, link, server)
    link.run_for(1.0)
    return link, *ends


def attach(link: MemoryLink, client: Application, *kinds: Attach) -> tuple[int, ...]:
    sent = client.engine.send(0, b"", now=link.now, attach=kinds)
    link.run_for(1.0)
    assert sent.number is not None
    return sent.attached


@rule("AQ-FLOW-11")
@pytest.mark.parametrize("ack_mode", list(AckMode))
@pytest.mark.parametrize("bulk", [False, True], ids=["one by one", "bulk"])
@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("streams", range(3, 11))
def test_unordered_messages_go_beside_ordered_ones(
    streams: int, size: int, bulk: bool, ack_mode: AckMode
) -> None:
    """Two channels hold a stream each: the entrypoint and that of the ordered messages."""
    link, client, server = joined(streams, ack_mode=ack_mode)
    loose, ordered = attach(link, client, Attach(True), Attach(True))
    client.send_all(ordered, Mode.ORDERED, bulk=bulk, size=size)
    link.run_for(0.1)
    client.send_all(loose, Mode.UNORDERED, bulk=bulk, size=size)
    link.run_until(lambda: {loose, ordered} <= client.ended.keys())
    assert client.ended == {loose: End.FINISHED, ordered: End.FINISHED}
    assert [len(server.received[channel]) for channel in (loose, ordered)] == [MESSAGES] * 2
    assert client.acked[loose] == client.acked[ordered] == MESSAGES


@rule("AQ-FLOW-11")
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_one_stream_beyond_those_that_channels_hold_is_enough(channels: int, seed: int) -> None:
    """A server that holds a stream for the acks of each channel that it reads, and one for each
    on which it sends, sends one message after the other on what is left."""
    held = channels + 2 + channels
    link, client, server = joined(held + 1, seed=seed)
    attached = attach(link, client, *[Attach(True)] * (channels + 1), *[Attach(False)] * channels)
    outgoing, incoming = attached[:channels], attached[channels + 1 :]
    for channel in attached[: channels + 1]:  # so that the server holds streams for their acks
        client.engine.send(channel, b"x", now=link.now, mode=Mode.UNORDERED)
    link.kick()
    link.run_for(1.0)
    assert server.engine._outbox.streams_left == 1
    assert server.engine._context.reserved_streams >= 1
    for channel in incoming:
        server.send_all(channel, Mode.UNORDERED)
    link.run_until(lambda: set(incoming) <= server.ended.keys())
    assert {server.ended[channel] for channel in incoming} == {End.FINISHED}
    assert all(len(client.received[channel]) == MESSAGES for channel in incoming)
    assert server.told == client.told == []
    assert outgoing


@rule("AQ-FLOW-11")
@pytest.mark.parametrize("streams", range(2, 11))
def test_unordered_messages_go_beside_the_entrypoint(streams: int) -> None:
    link, client, server = joined(streams)
    (loose,) = attach(link, client, Attach(True))
    client.send_all(loose, Mode.UNORDERED)
    link.run_until(lambda: loose in client.ended)
    assert client.ended[loose] is End.FINISHED
    assert len(server.received[loose]) == MESSAGES


@rule("AQ-FLOW-11")
@pytest.mark.parametrize("streams", [1, 2])
def test_where_channels_hold_all_streams_that_is_told_and_waits_for_their_end(streams: int) -> None:
    link, client, server = joined(streams)
    (loose,) = attach(link, client, Attach(True))
    held = 0
    if streams == 2:
        (held,) = attach(link, client, Attach(True))
        client.engine.send(held, b"x", now=link.now)
    client.send_all(loose, Mode.UNORDERED)
    link.run_for(30.0)
    assert loose not in server.received
    assert client.told == [StreamsTaken(streams)]
    assert str(streams) in str(client.told[0])
    client.engine.finish(held, link.now)
    link.kick()
    link.run_until(lambda: loose in client.ended)
    assert client.ended[loose] is End.FINISHED
    assert len(server.received[loose]) == MESSAGES


def test_control_frames_that_find_no_stream_are_told_too() -> None:
    """A receiver has no stream for the acks of its third channel."""
    link, client, server = joined(2)
    server.engine.handle(StreamLimit(2), link.now)
    link.client.limits[False] = 100  # the server allows more than the client does
    client.engine.handle(StreamLimit(100), link.now)
    loose, ordered = attach(link, client, Attach(True), Attach(True))
    client.engine.send(loose, b"x", now=link.now, mode=Mode.UNORDERED)
    client.engine.send(ordered, b"x", now=link.now)
    link.kick()
    link.run_for(5.0)
    assert len(server.received) == 3
    assert server.told == [StreamsTaken(2)]
    assert client.told == []


def test_one_message_at_a_time_takes_of_the_reserved_streams() -> None:
    """So that a control frame waits for the end of that one at most."""
    wire = Wire.client(Config(reserved_control_streams=4))
    wire.engine.handle(StreamLimit(16), 0)
    numbers = [wire.engine.send(0, b"x", now=0, mode=Mode.UNORDERED).number for _ in range(14)]
    assert numbers == [*range(10), *[None] * 4]
    wire.sent()
    wire.stream("0300" + "0802000a")  # ten are acked, and none of their streams came back
    assert wire.engine._outbox.streams_left == 4
    assert len([text for text in wire.sent() if text.endswith("FIN")]) == 1
    assert wire.engine._outbox.streams_left == 3


def test_what_is_reserved_follows_what_the_peer_allows_at_a_time() -> None:
    """A server allows few streams until it has admitted a client, or none before it is ready."""
    wire = Wire.client()
    for limit, reserved in ((0, 0), (32, 8), (65_536, 16), (65_540, 16)):
        wire.engine.handle(StreamLimit(limit), 0)
        assert wire.engine._context.reserved_streams == reserved
