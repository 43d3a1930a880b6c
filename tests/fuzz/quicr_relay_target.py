"""Target: a relay among peers, and below an upstream, that send whatever the bytes say.

Invariant: no exception out of the relay or its engines, whatever comes from whom; each turn and
each deadline comes to an end; what is kept stays below its bound; a peer's fault ends its own
connection and no other.
"""

from __future__ import annotations

from collections.abc import Callable

from aqueduct_core.engine.actions import SendDatagram, WriteStream
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramOutcome,
    Input,
    LinkLost,
    LinkReady,
    StreamBytes,
    StreamReset,
    StreamStopped,
)
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_core.quicr.relay.relay import Relay
from aqueduct_core.quicr.wire.codec import encode
from aqueduct_core.quicr.wire.datagrams import encode_header
from aqueduct_core.quicr.wire.messages import (
    AcceptMessage,
    ControlMessage,
    FinMessage,
    NotifyMessage,
    PostMessage,
    RequestMessage,
    StartPointMessage,
    SubscribeMessage,
)
from tests.fuzz.byte_source import ByteSource

URLS = (b"a", b"ab", b"b", b"")
CLIENTS = 3
MEMORY = 1 << 16
_STREAMS = 4
"""Of each peer."""
_MOST_STEPS = 150
_TURNS = 100
"""More of them in a row, without anything new, never end."""


class Peer:
    """A connection of the relay, as the other end has it."""

    def __init__(self, *, upstream: bool = False) -> None:
        self.engine = QuicrEngine(client=upstream)
        self.upstream = upstream
        self.ended: set[int] = set()
        self.opened: set[int] = set()
        self.tokens: list[int] = []


class Scene:
    """A relay and its peers, led by bytes."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        flags = source.byte()
        config = RelayConfig(
            upstream_datagram=flags & 2 > 0,
            eager=flags & 4 > 0,
            memory=MEMORY,
            max_media=3,
            max_waiting=2,
            max_subscriptions=2,
            max_known=3,
        )
        self.relay = Relay(config, upstream=flags & 1 > 0, chance=lambda: 0.5)
        self.now = 0.0
        self._peers: dict[QuicrEngine, Peer] = {}
        self.clients = [self._client() for _ in range(CLIENTS)]
        self._upstream: Peer | None = None

    def _client(self) -> Peer:
        peer = Peer()
        self._peers[peer.engine] = peer
        self._input(peer, LinkReady(1_150, datagram_outcomes=True))
        return peer

    # what every step uses

    def peer(self) -> Peer:
        """One of the clients, or the upstream; one that is lost has a successor."""
        at = self.source.below(CLIENTS + 1)
        if at == CLIENTS and self._upstream is not None:
            if self._upstream.engine.closed is None:
                return self._upstream
            self._upstream = None
        at %= CLIENTS
        if self.clients[at].engine.closed is not None:
            self.clients[at] = self._client()
        return self.clients[at]

    def stream_bytes(self, peer: Peer, data: bytes, *, end: bool) -> None:
        stream = 4 * self.source.below(_STREAMS)
        if stream in peer.ended or (peer.upstream and stream not in peer.opened):
            return  # no transport tells that
        if end:
            peer.ended.add(stream)
        self._input(peer, StreamBytes(stream, data, end))

    def _input(self, peer: Peer, input: Input) -> None:
        others = [each for each in self._peers.values() if each.engine.closed is None]
        peer.engine.handle(input, self.now)
        self._turn(peer)
        self._go_on()
        for other in others:
            assert other is peer or other.engine.closed is None, "another connection ended"

    def _turn(self, peer: Peer) -> None:
        for action in peer.engine.actions():
            if isinstance(action, SendDatagram):
                peer.tokens.append(action.token)
            elif isinstance(action, WriteStream):
                peer.opened.add(action.stream_id)
        self.relay.handle(peer.engine, peer.engine.events(), self.now)

    def _go_on(self) -> None:
        """Until nothing is to be done any more."""
        for _ in range(_TURNS):
            engines = self.relay.take_kicks()
            if self.relay.take_dial():
                if self.source.flag():
                    self.relay.dial_failed(self.now)
                else:
                    self._upstream = Peer(upstream=True)
                    self._peers[self._upstream.engine] = self._upstream
                    self.relay.dialled(self._upstream.engine)
                    self._upstream.engine.handle(LinkReady(1_150, datagram_outcomes=True), self.now)
                    engines.append(self._upstream.engine)
            if not engines:
                return
            for engine in engines:
                self._turn(self._peers[engine])
        raise AssertionError("there is always something to be done")

    def fragment(self) -> Fragment:
        source = self.source
        shape, flags = source.byte(), source.byte()
        previous = None if shape & 128 else source.below(4)
        group, number, offset = source.below(3), source.below(4), (shape >> 4 & 3) * (shape & 1)
        data = bytes(shape >> 1 & 3)
        if number or offset:
            previous = None
        return Fragment(group, number, offset, data, shape & 64 > 0, flags, 0, previous)

    # the peers

    def raw_bytes(self) -> None:
        self.stream_bytes(self.peer(), self.source.block(), end=self.source.flag())

    def message(self) -> None:
        peer = self.peer()
        self.stream_bytes(peer, encode(self._message()), end=self.source.byte() > 230)

    def _message(self) -> ControlMessage:
        source = self.source
        kind, url = source.byte() % 9, source.choice(URLS)
        datagram_id = source.below(3) if source.flag() else None
        position = Position(source.below(3), source.below(4))
        messages: tuple[ControlMessage, ...] = (
            RequestMessage(url, datagram_id),
            PostMessage(url, datagram_id is not None),
            SubscribeMessage(url),
            NotifyMessage(url),
            AcceptMessage(datagram_id),
            FinMessage(position),
            StartPointMessage(position),
            AcceptMessage(None),
            RequestMessage(url, None),
        )
        return messages[kind]

    def media(self) -> None:
        """Objects in order, and perhaps their end, as a good peer sends them."""
        peer, group, first = self.peer(), self.source.below(3), self.source.below(3)
        count, shape = self.source.below(5), self.source.byte()
        stop = first + count
        parts: list[ControlMessage] = [
            Fragment(group, at, 0, bytes(1 + (shape & 1) * 9_000), True, shape & 0x83)
            for at in range(first, stop)
        ]
        if shape & 4:
            parts.append(FinMessage(Position(group, stop)))
        self.stream_bytes(peer, b"".join(map(encode, parts)), end=shape & 8 > 0)

    def datagram(self) -> None:
        peer, datagram_id, fragment = self.peer(), self.source.below(3), self.fragment()
        self._input(peer, Datagram(encode_header(datagram_id, fragment) + fragment.data))

    def end(self) -> None:
        self.stream_bytes(self.peer(), b"", end=True)

    def reset(self) -> None:
        peer, stream = self.peer(), 4 * self.source.below(_STREAMS)
        if stream not in peer.ended:
            peer.ended.add(stream)
            self._input(peer, StreamReset(stream, 0))

    def stop(self) -> None:
        self._input(self.peer(), StreamStopped(4 * self.source.below(_STREAMS), 0))

    # links and the clock

    def outcome(self) -> None:
        peer = self.peer()
        if peer.tokens:
            token = peer.tokens.pop(self.source.below(len(peer.tokens)))
            self._input(peer, DatagramOutcome(token, self.source.choice(tuple(DatagramFate))))

    def lost(self) -> None:
        self._input(self.peer(), LinkLost(0, "", self.source.flag()))

    def time(self) -> None:
        self.now += self.source.choice((0.01, 0.1, 1.0, 11.0, 31.0, 130.0))
        for _ in range(_TURNS):
            wake = self.relay.wake_at
            if wake is None or wake > self.now:
                break
            self.relay.tick(self.now)
            self._go_on()
        else:
            raise AssertionError("a deadline of the relay that is always due")
        for peer in list(self._peers.values()):
            for _ in range(_TURNS):
                wake = peer.engine.wake_at
                if wake is None or wake > self.now:
                    break
                peer.engine.tick(self.now)
                self._turn(peer)
                self._go_on()
            else:
                raise AssertionError("a deadline of an engine that is always due")


_STEPS: tuple[Callable[[Scene], None], ...] = (
    Scene.raw_bytes, Scene.message, Scene.message, Scene.message, Scene.media, Scene.media,
    Scene.datagram, Scene.datagram, Scene.end, Scene.reset, Scene.stop, Scene.outcome,
    Scene.outcome, Scene.lost, Scene.time, Scene.time,
)  # fmt: skip


def run(data: bytes) -> None:
    """The first byte: whether it has an upstream, and how it uses it; then one step after the
    other, each a byte and its parameters."""
    scene = Scene(ByteSource(data))
    for _ in range(_MOST_STEPS):
        if not scene.source.left:
            break
        _STEPS[scene.source.byte() % len(_STEPS)](scene)
        assert 0 <= scene.relay.memory <= MEMORY
        assert all(each.readers >= 0 for each in scene.relay.counts())
