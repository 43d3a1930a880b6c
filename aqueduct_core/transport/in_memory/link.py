"""A link in memory for two engines on a virtual clock: no QUIC, no socket, no waiting.

It carries actions of one engine as inputs to the other, the way QUIC does at its worst: streams
arrive whole and in order but independently of each other, cut anywhere; datagrams are lost,
doubled and overtaken. With a rate it is a slow path with a queue, and what has not left waits in
the link. The same seed gives the same run. It ships, so that users can test their own programs
against it.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
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
    StreamLeft,
    StreamLimit,
    StreamReset,
    StreamStopped,
)
from aqueduct_core.engine.streams import is_bidirectional
from aqueduct_core.transport.in_memory.end import MemoryEnd, OnEndEvents, Outgoing
from aqueduct_core.transport.in_memory.network import MemoryNetwork
from aqueduct_core.transport.in_memory.path import MemoryPath


class MemoryLink:
    """Two engines joined.

    Args:
        client, server: the engines; both learn ``LinkReady`` in the first turn.
        seed: of all chances.
        network: whose clock it is on, with other links; None: one of its own.
        delay: seconds from one end to the other.
        jitter: up to so many seconds more, drawn for each datagram and each piece of a stream;
            datagrams overtake each other by it, and so do streams.
        loss, duplicate: probability for each datagram; streams are reliable.
        cut: probability that a piece of a stream is cut in two at any byte.
        max_datagram_size: of a datagram payload; larger ones are refused. 0: none are taken.
        stream_window, connection_window: unconsumed bytes that an end may have been sent.
        max_streams_uni, max_streams_bidi: of each kind that an end may have open at once; None: any
            number.
        datagram_outcomes: tell each engine what became of its datagrams, a round trip later.
        stream_progress: tell each engine how much of what it wrote on streams has left.
        rate: bytes per second of the path in each direction; None: it is as fast as you like.
        queue: with a rate, bytes that wait on the path in each direction; what comes on top is
            dropped, and sent again if it is of a stream. ``jitter`` and ``loss`` come on top.

    Delay, chances, windows and sizes are plain attributes and may be changed during a run.
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
        max_streams_uni: int | None = None,
        max_streams_bidi: int | None = None,
        datagram_outcomes: bool = False,
        stream_progress: bool = False,
        rate: float | None = None,
        queue: int = 64 * 1024,
        start: float = 0.0,
        network: MemoryNetwork | None = None,
        on_client_events: OnEndEvents | None = None,
        on_server_events: OnEndEvents | None = None,
    ) -> None:
        self.network = network or MemoryNetwork(start)
        self.network.links.append(self)
        self.delay = delay
        self.jitter = jitter
        self.loss = loss
        self.duplicate = duplicate
        self.cut = cut
        self.max_datagram_size = max_datagram_size
        self.stream_window = stream_window
        self.connection_window = connection_window
        self.datagram_outcomes = datagram_outcomes
        self.stream_progress = stream_progress
        self.client = MemoryEnd(client, on_client_events, client=True)
        self.server = MemoryEnd(server, on_server_events, client=False)
        self.client.peer, self.server.peer = self.server, self.client
        self._random = random.Random(seed)
        self._serial = 0
        for end in self.ends:
            if rate is not None:
                end.path = MemoryPath(rate, queue, delay)
            end.at_once.append(LinkReady(max_datagram_size, datagram_outcomes, stream_progress))
            end.limits = {False: max_streams_uni, True: max_streams_bidi}
            end.granted = {False: max_streams_uni or 0, True: max_streams_bidi or 0}
            end.at_once += [
                StreamLimit(limit, bidirectional)
                for bidirectional, limit in end.limits.items()
                if limit is not None
            ]

    @property
    def ends(self) -> tuple[MemoryEnd, MemoryEnd]:
        return self.client, self.server

    @property
    def now(self) -> float:
        """The clock of the network."""
        return self.network.now

    @property
    def busy(self) -> bool:
        return any(end.at_once or end.kicked for end in self.ends)

    @property
    def next_at(self) -> float | None:
        if self.busy:
            return self.now
        due: list[float] = []
        for end in self.ends:
            if end.arriving:
                due.append(end.arriving[0][0])
            if end.lost is None:
                path_next = end.path.next_at if end.path is not None else None
                due += [at for at in (end.engine.wake_at, path_next) if at is not None]
        return max(self.now, min(due)) if due else None

    def turn(self) -> None:
        for end in self.ends:
            self._turn(end)

    def kick(self) -> None:
        """See ``MemoryNetwork``, as for the three that follow: all its links are moved."""
        self.network.kick()

    def step(self) -> bool:
        return self.network.step()

    def run_until(self, condition: Callable[[], bool], limit: float = 60.0) -> None:
        self.network.run_until(condition, limit)

    def run_for(self, seconds: float) -> None:
        self.network.run_for(seconds)

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
        end.kicked = False
        self._pass(end)
        inputs, end.at_once = end.at_once, []
        while end.arriving and end.arriving[0][0] <= now:
            inputs.append(heapq.heappop(end.arriving)[2])
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
        elif isinstance(input, StreamReset) or (isinstance(input, StreamBytes) and input.end):
            if not end.opened(input.stream_id):
                end.heard.add(input.stream_id)
                self._allow_another(end, input.stream_id)
        elif isinstance(input, StreamLimit):
            end.limits[input.bidirectional] = input.streams
            self._flow(end)

    def _allow_another(self, end: MemoryEnd, stream_id: int) -> None:
        """The peer may open a stream in place of one of its own that is over."""
        both = is_bidirectional(stream_id)
        if end.limits[both] is not None and end.over(stream_id):
            granted = end.peer.granted[both] = end.peer.granted[both] + 1
            self._post(end.peer, StreamLimit(granted, both), self._later())

    def _carry(self, end: MemoryEnd, action: Action) -> None:
        match action:
            case WriteStream(stream_id, data, ending):
                self._write(end, stream_id, data, ending)
            case Consumed(stream_id, count):
                peer = end.peer
                peer.consumed += count
                stream = peer.streams.get(stream_id)
                if stream is not None:
                    stream.consumed += count
                self._flow(peer)
            case SendDatagram(data, token):
                self._datagram(end, data, token)
            case ResetStream(stream_id, code):
                self._reset(end, stream_id, code)
            case StopStream(stream_id, code):
                self._post(end.peer, StreamStopped(stream_id, code), self._later())
            case CloseLink():
                self.close(end, action)

    def close(self, end: MemoryEnd, action: CloseLink) -> None:
        """Close the link at one end, now; the other one learns it on its way."""
        code, reason, origin = action
        lost = LinkLost(code, reason, by_peer=False, origin=origin)
        at = self._later()
        # A close does not wait for streams, but what arrives before it is delivered.
        self._post(end.peer, lost._replace(by_peer=True), at)
        end.arriving.clear()
        if end.path is not None:
            end.path.clear()
        end.at_once.append(lost)
        end.lost = lost

    def _write(self, end: MemoryEnd, stream_id: int, data: bytes, ending: bool) -> None:
        stream = end.streams.setdefault(stream_id, Outgoing())
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
        for stream_id in [only] if only is not None else list(end.streams):
            stream = end.streams[stream_id]
            if not end.may_send(stream_id):
                continue
            if stream.reset is not None:
                code, stream.reset = stream.reset, None
                self._reset(end, stream_id, code)
            while stream.waiting:
                room = min(
                    self.stream_window + stream.consumed - stream.sent,
                    self.connection_window + end.consumed - end.sent,
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
                end.sent += len(data)
                last = stream.ending and not stream.waiting
                self._piece(end, stream_id, stream, data, last)
            if stream.ending and not stream.waiting and not stream.ended:
                self._piece(end, stream_id, stream, b"", True)

    def _piece(
        self, end: MemoryEnd, stream_id: int, stream: Outgoing, data: bytes, last: bool
    ) -> None:
        stream.ended = last
        if last:
            self._allow_another(end, stream_id)
        if end.path is not None:
            end.path.pieces.append(StreamBytes(stream_id, data, last))
            return
        end.left[stream_id] = end.left.get(stream_id, 0) + len(data)
        stream.arrives = max(stream.arrives, self._later())
        self._post(end.peer, StreamBytes(stream_id, data, last), stream.arrives)

    def _reset(self, end: MemoryEnd, stream_id: int, code: int) -> None:
        """Abandon a stream: what is on the way may be lost, the credit for it is not."""
        stream = end.streams.setdefault(stream_id, Outgoing())
        if stream.ended or stream.reset is not None:
            return
        stream.waiting.clear()
        if not end.may_send(stream_id):
            stream.reset = code
            return
        stream.ended = True
        self._allow_another(end, stream_id)
        peer = end.peer
        if end.path is not None:
            end.consumed += end.path.take_back(stream_id)
        kept = []
        for item in peer.arriving:
            input = item[2]
            if isinstance(input, StreamBytes) and input.stream_id == stream_id:
                end.consumed += len(input.data)
            else:
                kept.append(item)
        heapq.heapify(kept)
        peer.arriving = kept
        self._post(peer, StreamReset(stream_id, code), self._later())

    def _datagram(self, end: MemoryEnd, data: bytes, token: int) -> None:
        if len(data) > self.max_datagram_size or not self.max_datagram_size:
            end.at_once.append(DatagramOutcome(token, DatagramFate.REFUSED))
            return
        end.counts.datagrams += 1
        if end.path is not None:
            end.path.datagrams.append(SendDatagram(data, token))
            return
        self._arrive(end, data, token, self.now + self.delay)

    def _pass(self, end: MemoryEnd) -> None:
        """Send what the path takes now, and tell the engine how far that has come."""
        path = end.path
        if end.lost is not None:
            return
        if path is None:
            self._tell_left(end, end.left)
            return
        left = None
        for item, arrives in path.advance(self.now):
            if isinstance(item, SendDatagram):
                left = item.token
                if arrives is None:
                    self._lose_datagram(end, item.token)
                else:
                    self._arrive(end, item.data, item.token, arrives)
            elif arrives is not None:
                stream = end.streams[item.stream_id]
                jitter = self._random.random() * self.jitter
                stream.arrives = max(stream.arrives, arrives + jitter)
                self._post(end.peer, item, stream.arrives)
        if path.window != end.room:
            end.room = path.window
            end.at_once.append(LinkRoom(path.window))
        if left is not None:
            end.at_once.append(DatagramOutcome(left, DatagramFate.LEFT))
        self._tell_left(end, path.left)

    def _tell_left(self, end: MemoryEnd, left: dict[int, int]) -> None:
        """Tell the engine what has left of its streams, and forget it."""
        if self.stream_progress:
            for stream_id, size in left.items():
                stream = end.streams[stream_id]
                stream.left += size
                if size:
                    end.at_once.append(StreamLeft(stream_id, stream.left))
        left.clear()

    def _arrive(self, end: MemoryEnd, data: bytes, token: int, at: float) -> None:
        """A datagram reaches the other end, if it is not lost; and once more, if it is doubled."""
        if self._random.random() < self.loss:
            self._lose_datagram(end, token)
            return
        arrives = at + self._random.random() * self.jitter
        self._post(end.peer, Datagram(data), arrives)
        self._outcome(end, token, DatagramFate.ACKED, arrives + self.delay)
        if self._random.random() < self.duplicate:
            end.counts.datagrams_doubled += 1
            self._post(end.peer, Datagram(data), at + self._random.random() * self.jitter)

    def _lose_datagram(self, end: MemoryEnd, token: int) -> None:
        end.counts.datagrams_lost += 1
        self._outcome(end, token, DatagramFate.LOST, self.now + 2 * self.delay)

    def _outcome(self, end: MemoryEnd, token: int, outcome: DatagramFate, at: float) -> None:
        if self.datagram_outcomes:
            self._post(end, DatagramOutcome(token, outcome), at)

    def _lose(self, end: MemoryEnd, lost: LinkLost) -> None:
        if end.lost is None:
            end.arriving.clear()
            if end.path is not None:
                end.path.clear()
            end.lost = lost
            end.at_once = [lost]

    def _later(self) -> float:
        return self.now + self.delay + self._random.random() * self.jitter

    def _post(self, end: MemoryEnd, input: Input, at: float) -> None:
        if end.lost is None:
            self._serial += 1
            heapq.heappush(end.arriving, (at, self._serial, input))


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
