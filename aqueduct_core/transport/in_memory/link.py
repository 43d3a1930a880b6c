"""A link in memory for two engines on a virtual clock: no QUIC, no socket, no waiting.

It carries orders of one engine as inputs to the other, the way QUIC does at its worst: streams
arrive whole and in order but independently of each other, cut anywhere; datagrams are lost,
doubled and overtaken. With a rate it is a slow path with a queue, and what has not left waits in
the link. The same seed gives the same run. It ships, so that users can test their own programs
against it.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aqueduct_core.engine.actions import (
    Action,
    CloseLink,
    Consumed,
    ResetStream,
    SendDatagram,
    StopStream,
    WriteStream,
)
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.engine import Engine
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramOutcome,
    Input,
    LinkLost,
    LinkReady,
    LinkRoom,
    StreamBytes,
    StreamReset,
    StreamStopped,
)
from aqueduct_core.transport.in_memory.path import MemoryPath

TURNS_AT_ONCE = 1_000
"""Turns at one moment of the clock before a run is called endless."""

OnNews = Callable[[list[Any]], None]


@dataclass(slots=True)
class _Outgoing:
    """What one end has written on one stream and the other end has room for, or not yet."""

    waiting: deque[bytes] = field(default_factory=deque)
    ending: bool = False
    ended: bool = False
    sent: int = 0
    consumed: int = 0
    arrives: float = 0.0


@dataclass(slots=True)
class MemoryCounts:
    """What one end sent. ``datagrams_lost`` includes those that found the path's queue full."""

    stream_bytes: int = 0
    datagrams: int = 0
    datagrams_lost: int = 0
    datagrams_doubled: int = 0
    datagrams_refused: int = 0


class MemoryEnd:
    """One end: its engine, its events so far, and what it has on the way to the other end.

    ``events`` collects all events; ``on_events``, where given, is called with those of each turn.
    """

    def __init__(self, engine: Engine[Any], on_events: OnNews | None = None) -> None:
        self.engine = engine
        self.on_events = on_events
        self.events: list[Any] = []
        self.lost: LinkLost | None = None
        self.counts = MemoryCounts()
        self.peer: MemoryEnd
        self.path: MemoryPath | None = None
        self._room = 0
        self._streams: dict[int, _Outgoing] = {}
        self._sent = 0
        self._consumed = 0
        self._arriving: list[tuple[float, int, Input]] = []
        self._now: list[Input] = []

    @property
    def unsent(self) -> int:
        """Bytes written that the other end has no room for yet, and what waits for the path."""
        unsent = sum(len(part) for s in self._streams.values() for part in s.waiting)
        if self.path is not None:
            unsent += self.path.waiting
        return unsent


class MemoryLink:
    """Two engines joined.

    Args:
        client, server: the engines; both learn ``LinkReady`` in the first turn.
        seed: of all chances.
        delay: seconds from one end to the other.
        jitter: up to so many seconds more, drawn for each datagram and each piece of a stream;
            datagrams overtake each other by it, and so do streams.
        loss, duplicate: probability for each datagram; streams are reliable.
        cut: probability that a piece of a stream is cut in two at any byte.
        max_datagram_size: of a datagram payload; larger ones are refused. 0: none are taken.
        stream_window, connection_window: unconsumed bytes that an end may have been sent.
        rate: bytes per second of the path in each direction; None: it is as fast as you like.
        queue: with a rate, bytes that wait on the path in each direction; what comes on top is
            dropped, and sent again if it is of a stream. ``jitter`` and ``loss`` come on top.

    All of these but ``rate`` and ``queue`` are plain attributes and may be changed during a run.
    ``now`` is the clock.
    """

    def __init__(
        self,
        client: Engine[Any],
        server: Engine[Any],
        *,
        seed: int = 0,
        delay: float = 0.01,
        jitter: float = 0.0,
        loss: float = 0.0,
        duplicate: float = 0.0,
        cut: float = 0.0,
        max_datagram_size: int = 1_150,
        stream_window: int = 1 << 20,
        connection_window: int = 4 << 20,
        rate: float | None = None,
        queue: int = 64 * 1024,
        start: float = 0.0,
        on_client_events: OnNews | None = None,
        on_server_events: OnNews | None = None,
    ) -> None:
        self.now = start
        self.delay = delay
        self.jitter = jitter
        self.loss = loss
        self.duplicate = duplicate
        self.cut = cut
        self.max_datagram_size = max_datagram_size
        self.stream_window = stream_window
        self.connection_window = connection_window
        self.client = MemoryEnd(client, on_client_events)
        self.server = MemoryEnd(server, on_server_events)
        self.client.peer, self.server.peer = self.server, self.client
        self._random = random.Random(seed)
        self._serial = 0
        for end in self.ends:
            if rate is not None:
                end.path = MemoryPath(rate, queue, delay)
            end._now.append(LinkReady(max_datagram_size))

    @property
    def ends(self) -> tuple[MemoryEnd, MemoryEnd]:
        return self.client, self.server

    @property
    def next_at(self) -> float | None:
        """When something happens next; None: never, unless a command is given."""
        due: list[float] = []
        for end in self.ends:
            if end._now:
                return self.now
            if end._arriving:
                due.append(end._arriving[0][0])
            if end.lost is None:
                path_next = end.path.next_at if end.path is not None else None
                due += [at for at in (end.engine.wake_at, path_next) if at is not None]
        return max(self.now, min(due)) if due else None

    def kick(self) -> None:
        """Carry out what the engines were told by commands, without moving the clock."""
        for _ in range(TURNS_AT_ONCE):
            for end in self.ends:
                self._turn(end)
            if not any(end._now for end in self.ends):
                return
        raise RuntimeError("the engines keep each other busy without time going on")

    def step(self) -> bool:
        """Carry out commands, then move the clock to the next thing that happens.

        False when nothing will happen any more.
        """
        self.kick()
        at = self.next_at
        if at is None:
            return False
        self.now = at
        self.kick()
        return True

    def run_until(self, condition: Callable[[], bool], limit: float = 60.0) -> None:
        """Step until ``condition`` holds; TimeoutError after ``limit`` virtual seconds."""
        stop = self.now + limit
        still, last = 0, self.now
        self.kick()
        while not condition():
            if not self.step():
                raise TimeoutError("nothing will happen any more, and the condition does not hold")
            if self.now > stop:
                raise TimeoutError(f"the condition did not come about in {limit:g} seconds")
            still, last = (still + 1, last) if self.now == last else (0, self.now)
            if still > TURNS_AT_ONCE:
                raise RuntimeError("a deadline is asked for again and again")

    def run_for(self, seconds: float) -> None:
        """Let so many virtual seconds pass."""
        stop = self.now + seconds
        self.kick()
        while (at := self.next_at) is not None and at <= stop:
            self.step()
        self.now = stop
        self.kick()

    def lose(self, reason: str = "", *, origin: CloseOrigin = CloseOrigin.IDLE_TIMEOUT) -> None:
        """The network is gone: both ends learn it now, and what is on the way is lost."""
        for end in self.ends:
            self._lose(end, LinkLost(0, reason or origin.value, by_peer=False, origin=origin))

    def fail(self, code: int, reason: str = "", *, by_client: bool = False) -> None:
        """QUIC of one end closes the connection with an error code of its own, now; what is on the
        way is lost."""
        for end in self.ends:
            by_peer = by_client is (end is self.server)
            self._lose(end, LinkLost(code, reason, by_peer, CloseOrigin.TRANSPORT))

    def _turn(self, end: MemoryEnd) -> None:
        engine, now = end.engine, self.now
        self._pass(end)
        inputs, end._now = end._now, []
        while end._arriving and end._arriving[0][0] <= now:
            inputs.append(heapq.heappop(end._arriving)[2])
        for input in _joined(inputs):
            self._arrived(end, input)
            engine.handle(input, now)
        wake = engine.wake_at
        if wake is not None and wake <= now and end.lost is None:
            engine.tick(now)
        for action in engine.actions():
            if end.lost is None:
                self._carry(end, action)
        self._pass(end)
        events = engine.events()
        if events:
            end.events += events
            if end.on_events is not None:
                end.on_events(events)

    def _arrived(self, end: MemoryEnd, input: Input) -> None:
        if isinstance(input, LinkLost):
            end.lost = input
        elif isinstance(input, StreamStopped):
            # QUIC answers STOP_SENDING with a reset (RFC 9000 §3.5).
            self._reset(end, input.stream_id, input.code)

    def _carry(self, end: MemoryEnd, action: Action) -> None:
        match action:
            case WriteStream(stream_id, data, ending):
                self._write(end, stream_id, data, ending)
            case Consumed(stream_id, count):
                peer = end.peer
                peer._consumed += count
                stream = peer._streams.get(stream_id)
                if stream is not None:
                    stream.consumed += count
                self._flow(peer)
            case SendDatagram(data, token):
                self._datagram(end, data, token)
            case ResetStream(stream_id, code):
                self._reset(end, stream_id, code)
            case StopStream(stream_id, code):
                self._post(end.peer, StreamStopped(stream_id, code), self._later())
            case CloseLink(code, reason, origin):
                lost = LinkLost(code, reason, by_peer=False, origin=origin)
                at = self._later()
                # A close does not wait for streams, but what arrives before it is delivered.
                self._post(end.peer, lost._replace(by_peer=True), at)
                end._arriving.clear()
                if end.path is not None:
                    end.path.clear()
                end._now.append(lost)
                end.lost = lost

    def _write(self, end: MemoryEnd, stream_id: int, data: bytes, ending: bool) -> None:
        stream = end._streams.setdefault(stream_id, _Outgoing())
        if stream.ended:
            return
        if stream.ending:
            raise RuntimeError(f"stream {stream_id} was written after its end")
        if data:
            stream.waiting.append(data)
        stream.ending = ending
        end.counts.stream_bytes += len(data)
        self._flow(end, stream_id)

    def _flow(self, end: MemoryEnd, only: int | None = None) -> None:
        """Send what there is credit for."""
        for stream_id in [only] if only is not None else list(end._streams):
            stream = end._streams[stream_id]
            while stream.waiting:
                room = min(
                    self.stream_window + stream.consumed - stream.sent,
                    self.connection_window + end._consumed - end._sent,
                )
                if room <= 0:
                    break
                data = stream.waiting.popleft()
                if len(data) > room:
                    stream.waiting.appendleft(data[room:])
                    data = data[:room]
                elif len(data) > 1 and self._random.random() < self.cut:
                    at = self._random.randrange(1, len(data))
                    stream.waiting.appendleft(data[at:])
                    data = data[:at]
                stream.sent += len(data)
                end._sent += len(data)
                last = stream.ending and not stream.waiting
                self._piece(end, stream_id, stream, data, last)
            if stream.ending and not stream.waiting and not stream.ended:
                self._piece(end, stream_id, stream, b"", True)

    def _piece(
        self, end: MemoryEnd, stream_id: int, stream: _Outgoing, data: bytes, last: bool
    ) -> None:
        stream.ended = last
        if end.path is not None:
            end.path.pieces.append(StreamBytes(stream_id, data, last))
            return
        stream.arrives = max(stream.arrives, self._later())
        self._post(end.peer, StreamBytes(stream_id, data, last), stream.arrives)

    def _reset(self, end: MemoryEnd, stream_id: int, code: int) -> None:
        """Abandon a stream: what is on the way may be lost, the credit for it is not."""
        stream = end._streams.setdefault(stream_id, _Outgoing())
        if stream.ended:
            return
        stream.ended = True
        stream.waiting.clear()
        peer = end.peer
        if end.path is not None:
            end._consumed += end.path.take_back(stream_id)
        kept = []
        for item in peer._arriving:
            input = item[2]
            if isinstance(input, StreamBytes) and input.stream_id == stream_id:
                end._consumed += len(input.data)
            else:
                kept.append(item)
        heapq.heapify(kept)
        peer._arriving = kept
        self._post(peer, StreamReset(stream_id, code), self._later())

    def _datagram(self, end: MemoryEnd, data: bytes, token: int) -> None:
        if len(data) > self.max_datagram_size or not self.max_datagram_size:
            end.counts.datagrams_refused += 1
            end._now.append(DatagramOutcome(token, DatagramFate.REFUSED))
            return
        end.counts.datagrams += 1
        if end.path is not None:
            end.path.datagrams.append(SendDatagram(data, token))
            return
        self._arrive(end, data, self.now + self.delay)

    def _pass(self, end: MemoryEnd) -> None:
        """Send what the path takes now, and tell the engine how far that has come."""
        path = end.path
        if path is None or end.lost is not None:
            return
        left = None
        for item, arrives in path.advance(self.now):
            if isinstance(item, SendDatagram):
                left = item.token
                if arrives is None:
                    end.counts.datagrams_lost += 1
                else:
                    self._arrive(end, item.data, arrives)
            elif arrives is not None:
                stream = end._streams[item.stream_id]
                jitter = self._random.random() * self.jitter
                stream.arrives = max(stream.arrives, arrives + jitter)
                self._post(end.peer, item, stream.arrives)
        if path.window != end._room:
            end._room = path.window
            end._now.append(LinkRoom(path.window))
        if left is not None:
            end._now.append(DatagramOutcome(left, DatagramFate.LEFT))

    def _arrive(self, end: MemoryEnd, data: bytes, at: float) -> None:
        """A datagram reaches the other end, if it is not lost; and once more, if it is doubled."""
        if self._random.random() < self.loss:
            end.counts.datagrams_lost += 1
            return
        self._post(end.peer, Datagram(data), at + self._random.random() * self.jitter)
        if self._random.random() < self.duplicate:
            end.counts.datagrams_doubled += 1
            self._post(end.peer, Datagram(data), at + self._random.random() * self.jitter)

    def _lose(self, end: MemoryEnd, lost: LinkLost) -> None:
        if end.lost is None:
            end._arriving.clear()
            if end.path is not None:
                end.path.clear()
            end.lost = lost
            end._now = [lost]

    def _later(self) -> float:
        return self.now + self.delay + self._random.random() * self.jitter

    def _post(self, end: MemoryEnd, input: Input, at: float) -> None:
        if end.lost is None:
            self._serial += 1
            heapq.heappush(end._arriving, (at, self._serial, input))


def _joined(inputs: list[Input]) -> list[Input]:
    """Consecutive bytes of a stream as one input, and nothing after the last input there is."""
    out: list[Input] = []
    for input in inputs:
        last = out[-1] if out else None
        if (
            isinstance(input, StreamBytes)
            and isinstance(last, StreamBytes)
            and last.stream_id == input.stream_id
        ):
            out[-1] = StreamBytes(input.stream_id, last.data + input.data, input.end)
        else:
            out.append(input)
        if isinstance(input, LinkLost):
            break
    return out
