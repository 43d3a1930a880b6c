"""Target: one engine and a peer that sends whatever the bytes say, with any timing.

Invariant: the only outcomes of arbitrary inputs are events, waiting for more, or a close with a
defined code; never an exception out of the engine, never a close with INTERNAL, never an order or
events that is not well formed (``Judge``), never more queued than the limits allow. Commands of the
application fail with a ``LocalError`` or not at all, whatever the peer did before. And with the
default limits, the peer's streams coming byte by byte change neither actions nor events (AQ-SEQ-9).
"""

from __future__ import annotations

from collections.abc import Callable

from aqueduct_core.aqueduct.conventions.headers import CODE_REJECTED
from aqueduct_core.aqueduct.engine import AckMode, AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.events import Event, Numbered
from aqueduct_core.aqueduct.faults import LocalError
from aqueduct_core.aqueduct.flow import FLOW_CONTROL, Buffers, connection_header
from aqueduct_core.aqueduct.wire.codec import encode_headers
from aqueduct_core.engine.actions import Action, Consumed, SendDatagram
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramLimit,
    DatagramOutcome,
    EarlyReady,
    EarlyRejected,
    Input,
    LinkLost,
    LinkReady,
    LinkRtt,
    StreamBytes,
    StreamLimit,
    StreamReset,
    StreamStopped,
)
from aqueduct_core.engine.message_batch import Attachment, MessageBatch
from tests.fuzz.byte_source import ByteSource
from tests.fuzz.judge import Judge
from tests.support.reference_decoder import VERSION_FRAME
from tests.support.sequence_generator import varint

_LIMITS = {
    "max_payload_bytes": 300,
    "max_partial_bytes": 400,
    "max_prehandshake_bytes": 200,
    "max_prehandshake_datagrams": 2,
    "max_channels": 8,
    "max_unclaimed_channels": 3,
    "max_unclaimed_bytes": 200,
    "max_channel_queue_bytes": 400,
    "max_connection_queue_bytes": 600,
    "max_ranges_per_space": 4,
    "max_reliable_window": 64,
    "max_unreliable_window": 64,
    "max_tombstone_ranges": 3,
    "max_pending_forgets": 3,
    "max_links": 6,
    "max_unacked_attachment_messages": 3,
    "max_datagram_size": 60,
    "early_credit_bytes": 50,
    "initial_burst": 100,
    "send_queue_messages": 3,
    "send_queue_bytes": 400,
    "send_queue_connection_bytes": 600,
    "reserved_control_streams": 2,
    "channel_idle_timeout": 5.0,
}
_FLOWS: tuple[dict[str, int], ...] = (
    {},
    {"flow_per_channel": 0},
    {"flow_per_channel": 60},
    {"flow_per_channel": 60, "flow_all_channels": 90},
)
CONFIGS = tuple(
    Config(auto_accept=auto, ack_mode=ack, **limits, **flow)  # type: ignore[arg-type]
    for flow in _FLOWS
    for limits in ({}, _LIMITS)
    for auto in (True, False)
    for ack in AckMode
)
_CHANNELS = (0, 8, 2, 1, 3, 4, 6, 5, 7, 16, 10, 9, 11)
_EDGES = (0, 1, 2, 3, 5, 63, 64, 100, 1 << 20, (1 << 62) - 1)
_MODES = tuple(Mode)
_HEADERS = tuple(
    encode_headers(headers)
    for headers in (
        (),
        (connection_header(Buffers(0, 0)),),
        (connection_header(Buffers(40, 0)),),
        (connection_header(Buffers(40, 100)),),
        ((FLOW_CONTROL, b"\x80"),),
    )
)
_STREAMS = 6
"""Sequences of the peer that are open at once."""
_MOST_STEPS = 200


def _comparable(event: Event) -> object:
    """Arrays do not compare as a whole."""
    if isinstance(event, MessageBatch):
        fields = {field: getattr(event, field) for field in MessageBatch.__slots__}
        return fields | {"offsets": event.offsets.tolist()}
    return event


class Scene:
    """The engine under test, its driver, its application and its peer, all led by bytes."""

    def __init__(self, source: ByteSource, *, bytewise: bool = False) -> None:
        self.source = source
        self._bytewise = bytewise
        self.seen: list[object] = []
        """All actions and events but credit, which for a part of a frame may come early."""
        flags = source.byte()
        self.side = Side(flags & 1)
        self.peer = self.side.other
        self.engine = AqueductEngine(self.side, (), CONFIGS[flags >> 1 & 31])
        self.judge = Judge(self.engine)
        self.now = 0.0
        self.batches: list[MessageBatch] = []
        self.channels = list(_CHANNELS)
        self.attachments: list[Attachment] = []
        self.tokens: list[int] = []
        self._next_stream = 2 | self.peer
        self._streams: list[int] = []
        self._stream_limit = 0
        self._ready_told = False
        if flags & 64:
            self.shake_hands()

    def shake_hands(self) -> None:
        self.collect()
        headers = self.source.choice(_HEADERS)
        self.stream_bytes(VERSION_FRAME + b"\x02" + headers, end=True)
        if self.side is Side.SERVER and not self.engine.config.auto_accept:
            self.command(lambda: self.engine.accept((), self.now))
        self.collect()
        self.stream_bytes(b"\x01", end=True)

    # --- what every step uses -----------------------------------------------------------

    def handle(self, input: Input) -> None:
        self.judge.handle(input, self.now)

    def stream_bytes(self, data: bytes, *, end: bool, place: int = _STREAMS) -> None:
        """On the open stream at this place, or on a new one."""
        if place < len(self._streams):
            stream_id = self._streams[place]
        else:
            stream_id = self._next_stream
            self._next_stream += 4
            self._streams.append(stream_id)
            if len(self._streams) > _STREAMS:
                self._streams.pop(0)
        if end:
            self._streams.remove(stream_id)
        if self._bytewise and data:
            for i in range(len(data) - 1):
                self.handle(StreamBytes(stream_id, data[i : i + 1], False))
            data = data[-1:]
        self.handle(StreamBytes(stream_id, data, end))

    def collect(self) -> None:
        for action in self.judge.actions():
            self._see(action)
        for item in self.judge.events():
            self._hear(item)

    def _see(self, action: Action) -> None:
        if not isinstance(action, Consumed):
            self.seen.append(action)
        if isinstance(action, SendDatagram):
            self.tokens.append(action.token)

    def _hear(self, event: Event) -> None:
        self.seen.append(_comparable(event))
        if isinstance(event, MessageBatch):
            self.batches.append(event)
            for attachments in event.attachments.values():
                self.attachments += attachments
                self.channels += [attachment.channel for attachment in attachments]
        elif isinstance(event, Numbered):
            self.channels += event.attached

    def command(self, call: Callable[[], object]) -> None:
        try:
            call()
        except LocalError:
            pass

    def channel(self) -> int:
        return self.source.choice(self.channels)

    def number(self) -> bytes:
        chosen = self.source.byte()
        return varint(chosen if chosen < 128 else _EDGES[chosen % len(_EDGES)])

    # --- the peer -----------------------------------------------------------------------

    def raw_bytes(self) -> None:
        self.stream_bytes(self.source.block(), end=self.source.flag(), place=self.source.byte() % 8)

    def frames(self) -> None:
        """Well-formed frames on a new stream, or more of them on one that is open."""
        place = self.source.byte() % 8
        data = b"" if place < len(self._streams) else b"\x03" + varint(self.channel())
        for _ in range(self.source.below(4)):
            data += self._frame()
        cut = self.source.byte()
        end = bool(cut & 1)
        if cut & 2 and len(data) > 1:
            self.stream_bytes(data[: len(data) // 2], end=False, place=place)
            place = place if place < len(self._streams) else len(self._streams) - 1
            data = data[len(data) // 2 :]
        self.stream_bytes(data, end=end, place=place)

    def _frame(self) -> bytes:
        tag = 4 + self.source.byte() % 9
        if tag == 4:
            return self._message()
        if tag in (5, 6, 12):
            return bytes([tag]) + self.number()
        if tag in (8, 9):
            values = b"".join(self.number() for _ in range(self.source.below(5)))
            return bytes([tag]) + varint(len(values)) + values
        return bytes([tag])

    def _message(self) -> bytes:
        number = self.number()
        shape = self.source.byte()
        attached = b"".join(
            varint(self.channel() | self.peer) + b"\x00" for _ in range(shape & 3)
        )  # fmt: skip
        payload = bytes(shape >> 2 & 31)
        region = varint(len(attached)) + attached
        return b"\x04" + number + b"\x00" + region + varint(len(payload)) + payload

    def run_of_messages(self) -> None:
        first, count = self.source.byte(), 1 + self.source.byte() % 40
        data = b"\x03" + varint(self.channel())
        for number in range(first, first + count):
            data += b"\x04" + varint(number) + b"\x00\x00\x01m"
        self.stream_bytes(data, end=self.source.flag())

    def reset(self) -> None:
        if self._streams:
            stream_id = self._streams.pop(self.source.below(len(self._streams)))
            self.handle(StreamReset(stream_id, self.source.byte()))

    def stop(self) -> None:
        if self.judge.opened:
            self.handle(StreamStopped(self.source.choice(self.judge.opened), 0))

    def datagram(self) -> None:
        data = self.source.block()
        if self.source.flag():
            data = b"\x03" + varint(self.channel()) + self._message()
        self.handle(Datagram(data))

    def odd_stream(self) -> None:
        """A stream that cannot carry frames: bidirectional, or of our own numbering."""
        self.handle(StreamBytes(self._next_stream ^ (1 + self.source.below(3)), b"\x01", False))

    # --- the link and the clock ---------------------------------------------------------

    def refuse(self) -> None:
        if self.tokens:
            token = self.tokens.pop(self.source.below(len(self.tokens)))
            self.handle(DatagramOutcome(token, DatagramFate.REFUSED))

    def ready(self) -> None:
        size = self.source.choice((0, 1, 30, 60, 1100, 65_000))
        self.handle(DatagramLimit(size) if self._ready_told else LinkReady(size))
        self._ready_told = True

    def stream_limit(self) -> None:
        self._stream_limit += self.source.byte() % 24
        self.handle(StreamLimit(self._stream_limit))

    def round_trip(self) -> None:
        self.handle(LinkRtt(self.source.choice((0.0, 0.001, 0.3, 60.0))))

    def early(self) -> None:
        """0-RTT, taken or rejected, on a link that is new."""
        if not self.tokens and self.engine.peer_headers is None:
            self.handle(EarlyReady(self.source.choice((0, 60, 1100))))
            if self.source.flag():
                self.handle(EarlyRejected(len(self.judge.opened)))

    def lost(self) -> None:
        self.handle(LinkLost(self.source.choice((0, 1, CODE_REJECTED)), "", self.source.flag()))

    def time(self) -> None:
        self.now += self.source.choice((0.0, 0.001, 0.02, 0.1, 1.0, 11.0, 3600.0))
        for _ in range(10_000):
            wake = self.engine.wake_at
            if wake is None or wake > self.now:
                return
            self.engine.tick(self.now)
        raise AssertionError("a timer that is always due")

    # --- the application ----------------------------------------------------------------

    def send(self) -> None:
        shape = self.source.byte()
        attach = [Attach(sends=bool(shape & 4), oneshot=bool(shape & 8))] * (shape >> 6 & 3)
        payload = bytes(self.source.byte() * (1 + 20 * (shape >> 4 & 1)))
        channel, mode = self.channel(), _MODES[shape % 3]
        self.command(
            lambda: self.channels.extend(
                self.engine.send(channel, payload, now=self.now, mode=mode, attach=attach).attached
            )
        )

    def send_many(self) -> None:
        channel, mode = self.channel(), self.source.choice(_MODES)
        payloads = [b"mm"] * (1 + self.source.byte() % 40)
        self.command(lambda: self.engine.send_many(channel, payloads, now=self.now, mode=mode))

    def end_half(self) -> None:
        end = self.source.choice((self.engine.finish, self.engine.cancel, self.engine.close))
        channel = self.channel()
        self.command(lambda: end(channel, self.now))

    def drop(self) -> None:
        dropped, self.attachments = self.attachments, []
        self.command(lambda: self.engine.drop(dropped, self.now))

    def read(self) -> None:
        """Store (or refuse) and consume what was told; some of it, or all."""
        for _ in range(1 + self.source.byte() % 8):
            if not self.batches:
                return
            self._digest(self.batches.pop(0))

    def _digest(self, batch: MessageBatch) -> None:
        if self.source.byte() % 4:
            stop = batch.first + batch.count
            self.command(
                lambda: self.engine.stored(
                    batch.channel, batch.first, stop, reliable=batch.reliable, now=self.now
                )
            )
        elif not batch.reliable:
            self.command(
                lambda: self.engine.refused(
                    batch.channel, batch.first, batch.first + batch.count, self.now
                )
            )
        self.engine.consumed(batch.channel, batch.size, self.now)

    def accept(self) -> None:
        self.command(lambda: self.engine.accept(((b"k", b"v"),), self.now))

    def shutdown(self) -> None:
        self.engine.shutdown(self.source.choice((0, CODE_REJECTED)), "", self.now)


_STEPS: tuple[Callable[[Scene], None], ...] = (
    Scene.raw_bytes, Scene.frames, Scene.frames, Scene.run_of_messages, Scene.reset, Scene.stop,
    Scene.datagram, Scene.datagram, Scene.time, Scene.time, Scene.send, Scene.send,
    Scene.send_many, Scene.end_half, Scene.drop, Scene.read, Scene.read, Scene.accept,
    Scene.refuse, Scene.ready, Scene.stream_limit, Scene.round_trip, Scene.early,
    Scene.shutdown, Scene.lost, Scene.odd_stream, Scene.shake_hands,
    Scene.collect, Scene.collect,
)  # fmt: skip


def run(data: bytes) -> None:
    """The first byte: side, limits, whether the handshake is over, whether to do all of it once
    more byte by byte; then one step after the other, each a byte and its parameters. The top bit
    of a step puts off the actions and events."""
    seen = _play(Scene(ByteSource(data)))
    if data and data[0] & 0x80 and CONFIGS[data[0] >> 1 & 31].max_partial_bytes > 1 << 16:
        again = _play(Scene(ByteSource(data), bytewise=True))
        assert again == seen, f"the split of the bytes matters:\n{seen}\n{again}"


def _play(scene: Scene) -> list[object]:
    for _ in range(_MOST_STEPS):
        if not scene.source.left:
            break
        step = scene.source.byte()
        _STEPS[(step & 0x7F) % len(_STEPS)](scene)
        if not step & 0x80:
            scene.collect()
    scene.collect()
    scene.judge.finish()
    scene.now += 3600
    scene.engine.tick(scene.now)
    scene.collect()
    return scene.seen
