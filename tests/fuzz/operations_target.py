"""Target: two engines, a faulty link between them, and applications that do what the bytes say.

Invariant: two honest engines never find fault with each other, whatever their applications do and
whatever the link delays, reorders, cuts or loses. Every order and every events is well formed
(``Judge``); a message arrives once, unchanged, and only if it was sent; a command fails with a
``LocalError`` or not at all; and once every half has been ended, both sides forget everything: no
channel, no timer.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import cast

from aqueduct_core.aqueduct.engine import AckMode, AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.events import Dropped, Event, Numbered, Rerouted
from aqueduct_core.aqueduct.faults import LocalError
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.engine.message_batch import MessageBatch
from tests.fuzz.byte_source import ByteSource
from tests.fuzz.judge import Judge
from tests.support.pair import LinkShape, Pair

_SHAPES = (
    LinkShape(),
    LinkShape(jitter=0.2, cut=0.4),
    LinkShape(latency=0.3, jitter=1.5, loss=0.3, cut=0.5),
    LinkShape(jitter=0.05, loss=0.9),
)
_FLOWS: tuple[dict[str, int], ...] = (
    {},
    {"flow_per_channel": 0},
    {"flow_per_channel": 300, "send_queue_messages": 4},
    {"flow_per_channel": 300, "flow_all_channels": 500, "initial_burst": 100},
)
_MODES = tuple(Mode)
_SIZES = (0, 1, 2, 20, 127, 128, 1000, 1100, 4000)
_MOST_STEPS = 120


class Peer:
    """One application: what it sent, what it read, the channels that it knows."""

    def __init__(self, side: Side, engine: AqueductEngine) -> None:
        self.side = side
        self.engine = engine
        self.channels = [AqueductEngine.ENTRYPOINT]
        self.sent: dict[tuple[int, bool, int], bytes] = {}
        self.queued: dict[int, deque[bytes]] = defaultdict(deque)
        self.seen: dict[int, set[tuple[bool, int]]] = defaultdict(set)
        self.unread: list[MessageBatch] = []


class Scene:
    def __init__(self, source: ByteSource) -> None:
        self.source = source
        flags = source.byte()
        ack_mode = AckMode.ON_STORED if flags & 4 else AckMode.ON_RECEIPT
        flow = _FLOWS[flags >> 5 & 3]
        self.pair = Pair(
            seed=source.byte(),
            shape=_SHAPES[flags & 3],
            client=Config(ack_mode=ack_mode, **flow),  # type: ignore[arg-type]
            server=Config(auto_accept=True, ack_mode=ack_mode, **flow),  # type: ignore[arg-type]
        )
        self.judges = {side: Judge(engine) for side, engine in self.pair.engines.items()}
        for side, judge in self.judges.items():
            self.pair.engines[side] = cast(AqueductEngine, judge)
        self.peers = {side: Peer(side, judge.engine) for side, judge in self.judges.items()}
        self.slow = bool(flags & 8)
        self.over = False
        if flags & 16:
            self.pair.settle()

    def peer(self) -> Peer:
        return self.peers[Side(self.source.byte() & 1)]

    def command(self, call: Callable[..., object], *arguments: object, **named: object) -> None:
        try:
            call(*arguments, **named, now=self.pair.now)
        except LocalError:
            pass

    # --- what the applications do -------------------------------------------------------

    def send(self) -> None:
        peer = self.peer()
        channel = self.source.choice(peer.channels)
        shape = self.source.byte()
        mode = _MODES[channel % 3] if shape & 3 else _MODES[shape >> 2 & 1]
        attach = [
            Attach(sends=bool(shape >> (4 + i) & 1), oneshot=bool(shape >> (5 + i) & 1))
            for i in range((0, 0, 1, 2)[shape >> 6 & 3])
        ]
        payload = bytes([len(peer.sent) & 255]) * self.source.choice(_SIZES)
        try:
            sent = peer.engine.send(channel, payload, now=self.pair.now, mode=mode, attach=attach)
        except LocalError:
            return
        peer.channels += sent.attached
        if sent.number is None:
            peer.queued[channel].append(payload)
        else:
            peer.sent[channel, sent.reliable, sent.number] = payload

    def send_many(self) -> None:
        peer = self.peer()
        channel = self.source.choice(peer.channels)
        payloads = [bytes([i]) * (1 + i % 2) for i in range(1 + self.source.byte() % 40)]
        try:
            first, stop = peer.engine.send_many(
                channel, payloads, now=self.pair.now, mode=Mode.ORDERED
            )  # fmt: skip
        except LocalError:
            return
        for number in range(first, stop):
            peer.sent[channel, True, number] = payloads[number - first]

    def end_half(self) -> None:
        peer = self.peer()
        channel = self.source.choice(peer.channels)
        end = self.source.choice((peer.engine.finish, peer.engine.cancel, peer.engine.close))
        self.command(end, channel)

    def drop(self) -> None:
        """Throw unread messages away, with the channels that they carry."""
        peer = self.peer()
        for batch in peer.unread:
            for attachments in batch.attachments.values():
                self.command(peer.engine.drop, attachments)
            self._digest(peer, batch)
        peer.unread.clear()

    def refuse(self) -> None:
        """Consume unread datagram messages without storing them."""
        peer = self.peer()
        for batch in peer.unread:
            if not batch.reliable:
                self.command(
                    peer.engine.refused, batch.channel, batch.first, batch.first + batch.count
                )
                peer.engine.consumed(batch.channel, batch.size, self.pair.now)
        peer.unread = [batch for batch in peer.unread if batch.reliable]

    def read(self) -> None:
        self._read(self.peer())

    def _read(self, peer: Peer) -> None:
        for batch in peer.unread:
            for attachments in batch.attachments.values():
                peer.channels += [attachment.channel for attachment in attachments]
            self._digest(peer, batch)
        peer.unread.clear()

    def _digest(self, peer: Peer, batch: MessageBatch) -> None:
        stop = batch.first + batch.count
        self.command(peer.engine.stored, batch.channel, batch.first, stop, reliable=batch.reliable)
        peer.engine.consumed(batch.channel, batch.size, self.pair.now)

    # --- time and the link --------------------------------------------------------------

    def wait(self) -> None:
        self.pair.run(self.source.choice((0.0, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0)))
        self.hear()

    def step(self) -> None:
        for _ in range(1 + self.source.byte() % 16):
            self.pair.step()
        self.hear()

    def lose(self) -> None:
        for side in Side:
            self.pair.engines[side].handle(LinkLost(0, "", False), self.pair.now)
        self.over = True

    def shutdown(self) -> None:
        self.peer().engine.shutdown(0, "", self.pair.now)
        self.over = True

    # --- what must hold -----------------------------------------------------------------

    def hear(self) -> None:
        self.pair.collect()
        seen = {side: self.pair.events(side) for side in Side}
        for side, events in seen.items():
            for item in events:
                self._queue_moved(self.peers[side], item)
        for peer in self.peers.values():
            for item in seen[peer.side]:
                if isinstance(item, MessageBatch):
                    self._arrived(peer, item)
                    peer.unread.append(item)
            closed = peer.engine.closed
            assert closed is None or (self.over and closed.code == 0), f"{peer.side}: {closed}"
            if not self.slow:
                self._read(peer)

    def _queue_moved(self, peer: Peer, event: Event) -> None:
        if isinstance(event, Numbered):
            peer.channels += event.attached
            for number in range(event.first, event.stop):
                payload = peer.queued[event.channel].popleft()
                peer.sent[event.channel, event.reliable, number] = payload
        elif isinstance(event, Dropped):
            for _ in range(event.messages):
                peer.queued[event.channel].popleft()
        elif isinstance(event, Rerouted):
            payload = peer.sent.pop((event.channel, False, event.datagram))
            peer.sent[event.channel, True, event.reliable] = payload

    def _arrived(self, peer: Peer, batch: MessageBatch) -> None:
        sent = self.peers[peer.side.other].sent
        for message in batch.messages():
            key = (batch.reliable, message.number)
            assert key not in peer.seen[batch.channel], "the same message twice"
            peer.seen[batch.channel].add(key)
            assert sent[batch.channel, *key] == message.payload, "another message than was sent"

    def finish(self) -> None:
        """Every application reads all and ends what it knows, until nothing moves."""
        self.slow = False
        for _ in range(100):
            for peer in self.peers.values():
                self._read(peer)
                self._end_all(peer)
            self.pair.settle()
            if not any(self.pair.seen.values()):
                break
            self.hear()
        for peer in self.peers.values():
            engine = peer.engine
            assert engine.closed is None or self.over
            assert engine.wake_at is None, f"{peer.side} has a timer left"
            assert engine.open_channels == 0 or self.over, f"{peer.side} has channels left"
            if not self.over:
                assert engine.statistics.queued_bytes == 0
        for judge in self.judges.values():
            judge.finish()

    def _end_all(self, peer: Peer) -> None:
        for channel in set(peer.channels):
            if peer.engine.can_send(channel):
                self.command(peer.engine.finish, channel)
            else:
                self.command(peer.engine.close, channel)


_STEPS: tuple[Callable[[Scene], None], ...] = (
    Scene.send, Scene.send, Scene.send, Scene.send_many, Scene.end_half, Scene.drop, Scene.read,
    Scene.refuse, Scene.wait, Scene.wait, Scene.step, Scene.step,
)  # fmt: skip
_RARE: tuple[Callable[[Scene], None], ...] = (Scene.lose, Scene.shutdown)


def run(data: bytes) -> None:
    """Two bytes make the scene: the link and how the applications read, and the seed of the
    link's chance; then one step after the other, each a byte and its parameters."""
    scene = Scene(ByteSource(data))
    for _ in range(_MOST_STEPS):
        if not scene.source.left:
            break
        step = scene.source.byte()
        steps = _RARE if step >= 250 else _STEPS
        steps[step % len(steps)](scene)
        scene.hear()
    scene.finish()
