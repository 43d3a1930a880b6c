"""The toy protocol: topics on bidirectional streams, readings in datagrams.

A client opens a stream for each topic: its name, then messages, each of them behind its length. The
server answers on the same stream with how many it has stored, and ends it when the end is stored.
A reading is a datagram: the topic's stream, a number, the payload; the link says what became of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from aqueduct_core.engine.actions import (
    Action,
    Admit,
    CloseLink,
    Consumed,
    SendDatagram,
    WriteStream,
)
from aqueduct_core.engine.engine import Footprint
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramOutcome,
    Input,
    LinkLost,
    StreamBytes,
    StreamReset,
)
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.engine.streams import STEP, first_stream, is_bidirectional
from aqueduct_core.primitives import varint
from aqueduct_core.primitives.byte_queue import ByteQueue
from aqueduct_core.primitives.cursor import Cursor, encode_varbytes
from aqueduct_core.primitives.varint import Malformed, NeedMore

ALPN = "toy"
MALFORMED = 1
"""Code of a close: what came cannot be read."""
LONGEST = 1 << 20
"""Bytes of a message."""


class TopicOpened(NamedTuple):
    channel: int
    name: str


class TopicFinished(NamedTuple):
    """All messages are here; `Toy.confirm` when they are stored. Or, at a client: they are."""

    channel: int
    messages: int


class Stored(NamedTuple):
    channel: int
    stop: int


class Settled(NamedTuple):
    """What became of a reading, as far as the link can tell."""

    channel: int
    number: int
    acked: bool


ToyEvent: TypeAlias = TopicOpened | TopicFinished | Stored | Settled | MessageBatch | LinkLost


@dataclass(slots=True)
class _Topic:
    queue: ByteQueue = field(default_factory=ByteQueue)
    name: str | None = None
    numbers: int = 0
    readings: int = 0
    ended: bool = False


class Toy:
    """One end of a connection; a `StorageEngine` at the server.

    Client: `open`, `send`, `read_out`, `finish`. Over when ``closed`` is set.
    """

    def __init__(self, *, client: bool) -> None:
        self.closed: LinkLost | None = None
        self.wake_at: float | None = None
        self._client = client
        self._next = first_stream(client=client, bidirectional=True)
        self._topics: dict[int, _Topic] = {}
        self._readings: dict[int, tuple[int, int]] = {}
        self._tokens = 0
        self._paused = False
        self._actions: list[Action] = []
        self._events: list[ToyEvent] = []

    # the contract of an engine

    def handle(self, input: Input, now: float) -> None:
        if self.closed is not None:
            return
        try:
            match input:
                case StreamBytes(stream_id, data, end):
                    self._topic(stream_id).queue.feed(data)
                    self._topics[stream_id].ended |= end
                    self._read(stream_id)
                case Datagram(data) if not self._paused:
                    cursor = Cursor(data)
                    self._give(cursor.varint(), False, cursor.varint(), [data[cursor.pos :]], 0)
                case DatagramOutcome(token, outcome) if outcome is not DatagramFate.LEFT:
                    number = self._readings.pop(token)
                    self._events.append(Settled(*number, outcome is DatagramFate.ACKED))
                case StreamReset(stream_id, _):
                    self._topics.pop(stream_id, None)
                case LinkLost():
                    self._over(input)
        except (Malformed, UnicodeDecodeError) as error:
            self.shutdown(MALFORMED, str(error), now)

    def tick(self, now: float) -> None:
        """Nothing here has a deadline."""

    @property
    def footprint(self) -> Footprint:
        return Footprint(sum(1_000 + topic.queue.size for topic in self._topics.values()))

    def actions(self) -> list[Action]:
        taken, self._actions = self._actions, []
        return taken

    def events(self) -> list[ToyEvent]:
        taken, self._events = self._events, []
        return taken

    # what a server that stores says

    def stored(self, channel: int, first: int, stop: int, *, reliable: bool, now: float) -> None:
        if reliable and channel in self._topics:
            self._write(channel, varint.encode(stop))

    def refused(self, channel: int, first: int, stop: int, now: float) -> None:
        """A reading that is not stored is lost to nobody's surprise."""

    def consumed(self, channel: int, size: int, now: float) -> None:
        if size:
            self._actions.append(Consumed(channel, size))

    def confirm(self, channel: int, now: float) -> None:
        if self._topics.pop(channel, None) is not None:
            self._write(channel, b"", end=True)

    def pause(self) -> None:
        self._paused = True

    def resume(self, now: float) -> None:
        self._paused = False
        for channel in list(self._topics):
            self._read(channel)

    def shutdown(self, code: int, reason: str, now: float) -> None:
        if self.closed is None:
            self._actions.append(CloseLink(code, reason))
            self._over(LinkLost(code, reason, by_peer=False))

    # what a client says

    def open(self, name: str) -> int:
        channel, self._next = self._next, self._next + STEP
        self._topics[channel] = _Topic(name=name)
        self._write(channel, encode_varbytes(name.encode()))
        return channel

    def send(self, channel: int, payload: bytes) -> None:
        self._topics[channel].numbers += 1
        self._write(channel, encode_varbytes(payload))

    def read_out(self, channel: int, payload: bytes) -> int:
        """Send a reading, which may be lost; its number."""
        topic = self._topics[channel]
        number, topic.readings = topic.readings, topic.readings + 1
        self._tokens += 1
        self._readings[self._tokens] = (channel, number)
        head = varint.encode(channel) + varint.encode(number)
        self._actions.append(SendDatagram(head + payload, self._tokens))
        return number

    def finish(self, channel: int) -> None:
        self._write(channel, b"", end=True)

    # the inside

    def _topic(self, stream_id: int) -> _Topic:
        if not is_bidirectional(stream_id):
            raise Malformed(f"stream {stream_id} has one direction")
        return self._topics.setdefault(stream_id, _Topic())

    def _write(self, channel: int, data: bytes, *, end: bool = False) -> None:
        self._actions.append(WriteStream(channel, data, end))

    def _over(self, lost: LinkLost) -> None:
        self.closed = lost
        self._topics.clear()
        self._events.append(lost)

    def _read(self, channel: int) -> None:
        """Take in what is whole."""
        topic = self._topics[channel]
        queue = topic.queue
        payloads: list[bytes] = []
        before = queue.size
        while not self._paused and queue.ready() and queue.size:
            start, end = queue.pos, queue.pos + queue.size
            try:
                value, start = varint.decode(queue.data, start, end)
            except NeedMore:
                queue.want(queue.size + 1)
                break
            if self._client:
                self._events.append(Stored(channel, value))
                queue.take(start)
                continue
            if value > LONGEST:
                raise Malformed(f"a message of {value} bytes")
            if start + value > end:
                queue.want(start + value - queue.pos)
                break
            data = queue.data[start : start + value]
            queue.take(start + value)
            if topic.name is not None:
                payloads.append(data)
                continue
            topic.name = data.decode()
            self._actions.append(Admit())
            self._actions.append(Consumed(channel, before - queue.size))
            self._events.append(TopicOpened(channel, topic.name))
            before = queue.size
        taken = before - queue.size
        if payloads:
            self._give(channel, True, topic.numbers, payloads, taken)
        elif taken:
            self._actions.append(Consumed(channel, taken))
        if topic.ended and not self._paused:
            if queue.size or topic.name is None:
                raise Malformed("a stream that ends inside of a message")
            topic.ended = False
            self._events.append(TopicFinished(channel, topic.numbers))
            if self._client:
                del self._topics[channel]

    def _give(
        self, channel: int, reliable: bool, first: int, payloads: list[bytes], size: int
    ) -> None:
        topic = self._topics.get(channel)
        if topic is None:
            return  # a reading of a topic that is over, or not there yet
        if reliable:
            topic.numbers += len(payloads)
        offsets = np.zeros(len(payloads) + 1, np.int64)
        np.cumsum([len(payload) for payload in payloads], out=offsets[1:])
        batch = MessageBatch(
            channel, reliable, first, len(payloads), b"".join(payloads), offsets, size
        )
        self._events.append(batch)
