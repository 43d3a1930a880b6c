"""Target: one engine of QUICR, its application, and a peer that sends whatever the bytes say.

Invariant: the only outcomes are events, waiting for more, or a close of the transport with a
reason; never an exception out of the engine, never an action or event that is not well formed
(`QuicrJudge`). Commands fail with `MediaError` or not at all, whatever the peer did before. Every
byte that came is credited once it is done with, on streams that were cancelled, too. How the peer's
streams are cut changes nothing that is told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramLimit,
    DatagramOutcome,
    LinkLost,
    LinkReady,
    LinkRoom,
    StreamBytes,
    StreamLeft,
    StreamReset,
    StreamStopped,
)
from aqueduct_core.quicr.config import DropSettings, QuicrConfig
from aqueduct_core.quicr.events import Fragments, QuicrEvent
from aqueduct_core.quicr.faults import MediaError
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.quicr.media.position import Position
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
from tests.fuzz.quicr_judge import STEP, QuicrJudge

CONFIGS = (
    QuicrConfig(),
    QuicrConfig(dropping=None),
    QuicrConfig(
        dropping=DropSettings(threshold=0.01, interval=0.01), max_transactions=3, max_url=4,
        max_object=40, write_ahead=1_200,
    ),
)  # fmt: skip
URLS = (b"a", b"ab", b"b", b"")
_STREAMS = 6
"""That the peer uses."""
_MOST_STEPS = 200


class Scene:
    """An engine and all that is around it, led by bytes."""

    def __init__(self, source: ByteSource, *, bytewise: bool = False) -> None:
        self.source = source
        flags = source.byte()
        self.client = flags & 1 == 1
        self.judge = QuicrJudge(client=self.client, config=CONFIGS[(flags >> 1 & 3) % len(CONFIGS)])
        self.engine = self.judge.engine
        self.seen: list[object] = []
        self._bytewise = bytewise
        self._ended: set[int] = set()
        self._told: list[Fragments] = []
        self._queues: list[ObjectQueue] = []
        self._left: dict[int, int] = defaultdict(int)
        self.now = 0.0
        if flags & 8:
            self.judge.handle(LinkReady(1_150, flags & 16 > 0, flags & 32 > 0), self.now)

    # what every step uses

    def stream(self) -> int:
        """One of the peer's, or one that this engine opened."""
        return STEP * self.source.below(_STREAMS)

    def stream_bytes(self, stream: int, data: bytes, *, end: bool) -> None:
        if stream in self._ended or (self.client and stream not in self.judge.begun):
            return  # no transport tells that
        if end:
            self._ended.add(stream)
        if self._bytewise:
            for i in range(len(data) - 1):
                self.judge.handle(StreamBytes(stream, data[i : i + 1], False), self.now)
            data = data[-1:]
        self.judge.handle(StreamBytes(stream, data, end), self.now)

    def collect(self) -> None:
        for event in self.judge.collect():
            self._hear(event)

    def _hear(self, event: QuicrEvent) -> None:
        if isinstance(event, Fragments):
            self.seen += [(event.stream, fragment) for fragment in event.fragments]
            self._told.append(event)
        else:
            self.seen.append(event)

    def command(self, call: Callable[[], object]) -> None:
        try:
            call()
        except MediaError:
            pass

    def position(self) -> Position:
        return Position(self.source.below(3), self.source.below(4))

    def fragment(self) -> Fragment:
        shape = self.source.byte()
        offset = shape >> 3 & 3
        data = bytes(shape & 7)
        flags = self.source.byte()
        return Fragment(*self.position(), offset, data, shape >= 96, flags, 0, None)

    # the peer

    def raw_bytes(self) -> None:
        stream, data = self.stream(), self.source.block()
        self.stream_bytes(stream, data, end=self.source.flag())

    def message(self) -> None:
        stream = self.stream()
        messages = [self._message() for _ in range(1 + self.source.below(3))]
        self.stream_bytes(stream, b"".join(map(encode, messages)), end=self.source.flag())

    def _message(self) -> ControlMessage:
        source = self.source
        kind = source.byte() % 16
        if kind >= 8:
            return self.fragment()
        datagram_id = source.below(4) if source.flag() else None
        messages: tuple[ControlMessage, ...] = (
            RequestMessage(source.choice(URLS), datagram_id),
            FinMessage(self.position()),
            PostMessage(source.choice(URLS), source.flag()),
            AcceptMessage(datagram_id),
            StartPointMessage(self.position()),
            SubscribeMessage(source.choice(URLS)),
            NotifyMessage(source.choice(URLS)),
            AcceptMessage(None),
        )
        return messages[kind]

    def media(self) -> None:
        """Objects in order, as a good peer sends them."""
        stream, group, count = self.stream(), self.source.below(3), self.source.below(6)
        wholes = [Fragment(group, at, 0, b"abc", True) for at in range(count)]
        self.stream_bytes(stream, b"".join(map(encode, wholes)), end=self.source.flag())

    def end(self) -> None:
        self.stream_bytes(self.stream(), b"", end=True)

    def datagram(self) -> None:
        datagram_id, fragment = self.source.below(4), self.fragment()
        data = encode_header(datagram_id, fragment) + fragment.data
        self.judge.handle(Datagram(data), self.now)

    def raw_datagram(self) -> None:
        self.judge.handle(Datagram(self.source.block()), self.now)

    def reset(self) -> None:
        stream = self.stream()
        if stream in self.judge.begun and stream not in self._ended:
            self._ended.add(stream)
            self.judge.handle(StreamReset(stream, 0), self.now)

    def stop(self) -> None:
        stream = self.stream()
        if stream in self.judge.begun:
            self.judge.handle(StreamStopped(stream, 0), self.now)

    def odd_stream(self) -> None:
        """Of the server, or of one direction."""
        self.judge.handle(StreamBytes(1 + self.source.below(3), b"\x00", False), self.now)

    # the link and the clock

    def ready(self) -> None:
        flags = self.source.byte()
        size = self.source.choice((1_150, 0, 300, 65_000))
        if flags & 4:
            self.judge.handle(DatagramLimit(size), self.now)
        else:
            self.judge.handle(LinkReady(size, flags & 1 > 0, flags & 2 > 0), self.now)

    def outcome(self) -> None:
        token = 1 + self.source.below(max(1, self.judge._token))
        fate = self.source.choice(tuple(DatagramFate))
        if token <= self.judge._token:
            self.judge.handle(DatagramOutcome(token, fate), self.now)

    def left(self) -> None:
        stream = self.stream()
        self._left[stream] += self.source.byte()
        self.judge.handle(StreamLeft(stream, self._left[stream]), self.now)

    def room(self) -> None:
        self.judge.handle(LinkRoom(self.source.choice((0, 1_200, 20_000, 1 << 20))), self.now)

    def lost(self) -> None:
        self.judge.handle(LinkLost(0, "", self.source.flag()), self.now)

    def time(self) -> None:
        self.now += self.source.choice((0.0, 0.001, 0.02, 0.1, 1.0, 3600.0))
        for _ in range(1_000):
            wake = self.engine.wake_at
            if wake is None or wake > self.now:
                return
            self.engine.tick(self.now)
            self.collect()
        raise AssertionError("a timer that is always due")

    # the application

    def ask(self) -> None:
        url, kind, datagram = self.source.choice(URLS), self.source.byte() % 3, self.source.flag()
        self.command(lambda: self._ask(url, kind, datagram))

    def _ask(self, url: bytes, kind: int, datagram: bool) -> None:
        if kind == 0:
            stream = self.engine.request(url, datagram=datagram, now=self.now)
        elif kind == 1:
            stream = self.engine.post(url, self._queue(), datagram=datagram, now=self.now)
        else:
            stream = self.engine.subscribe(url, self.now)
        self.judge.begun.add(stream)

    def _queue(self) -> ObjectQueue:
        queue = ObjectQueue()
        self._queues.append(queue)
        return queue

    def publish(self) -> None:
        """More of a media, and perhaps its end."""
        if not self._queues:
            return
        queue = self.source.choice(self._queues)
        shape, count = self.source.byte(), self.source.below(8)
        for _ in range(count):
            group, number = queue.next
            position = Position(group + 1, 0) if shape & 1 and number else queue.next
            size = 5_000 if shape & 2 else 1 + shape % 50
            self.command(lambda: queue.append(position, bytes(size), shape & 0xF1, self.now))  # noqa: B023
        if shape & 4:
            queue.finish()
        for stream in self.judge.begun:
            self.engine.wake(stream, self.now)

    def answer(self) -> None:
        stream, kind = self.stream(), self.source.byte() % 4
        if kind == 0:
            self.engine.serve(stream, self._queue(), self.now)
        elif kind == 1:
            self.engine.notify(stream, self.source.choice(URLS), self.now)
        else:
            self.engine.accept(stream, datagram=kind == 2, now=self.now)

    def confirm(self) -> None:
        stream = self.stream()
        self.command(lambda: self.engine.confirm(stream, self.now))

    def cancel(self) -> None:
        self.engine.cancel(self.stream(), self.now)

    def consume(self) -> None:
        for event in self._told[:3]:
            self.judge.consume(event.stream, event.size, self.now)
        del self._told[:3]

    def pause(self) -> None:
        self.engine.pause()

    def resume(self) -> None:
        self.engine.resume(self.now)

    def shutdown(self) -> None:
        self.engine.shutdown(0, "", self.now)

    def finish(self) -> None:
        self.engine.resume(self.now)
        self.collect()
        unconsumed: dict[int, int] = defaultdict(int)
        for event in self._told:
            unconsumed[event.stream] += event.size
        self.judge.finish(unconsumed)


_STEPS: tuple[Callable[[Scene], None], ...] = (
    Scene.raw_bytes, Scene.message, Scene.message, Scene.message, Scene.media, Scene.media,
    Scene.end, Scene.datagram, Scene.datagram, Scene.raw_datagram, Scene.reset, Scene.stop,
    Scene.odd_stream, Scene.ready, Scene.outcome, Scene.outcome, Scene.left, Scene.room,
    Scene.lost, Scene.time, Scene.time, Scene.ask, Scene.ask, Scene.publish, Scene.publish,
    Scene.answer, Scene.answer, Scene.confirm, Scene.cancel, Scene.consume, Scene.pause,
    Scene.resume, Scene.shutdown,
)  # fmt: skip


def run(data: bytes) -> None:
    """The first byte: side, bounds, what the link can; then one step after the other, each a byte
    and its parameters. The top bit of a step puts off actions and events."""
    seen, faulty = _play(Scene(ByteSource(data)))
    if not faulty:
        again, _ = _play(Scene(ByteSource(data), bytewise=True))
        assert again == seen, "the cuts of streams matter"


def _play(scene: Scene) -> tuple[list[object], bool]:
    """All that was told, and whether the peer was at fault, of which it may have been told less."""
    for _ in range(_MOST_STEPS):
        if not scene.source.left:
            break
        step = scene.source.byte()
        _STEPS[(step & 0x7F) % len(_STEPS)](scene)
        if not step & 0x80:
            scene.collect()
    scene.finish()
    closed = scene.engine.closed
    return scene.seen, closed is not None and bool(closed.reason)
