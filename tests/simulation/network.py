"""The link of a simulation: what QUIC may do to two ends, and a little that it may not.

A stream's bytes arrive in order and complete, cut anywhere, within the receiver's window; streams
overtake each other; a reset may overtake what was written before it, and then that is gone. A
datagram is lost, overtaken, or refused by the sender's own transport while it carries out actions.
With a rate, both wait in the sender's transport for the path, which says how far that has come:
the same `MemoryPath` as below a `MemoryLink`.

It is no `MemoryLink`, which is a fair transport for engines of any protocol. Here every cut, delay
and refusal, and what the applications do, is drawn by one generator and stands in one agenda, so a
seed is a whole run and twenty thousand of them take minutes; and the network does what QUIC may not
where a `Fault` is to be found.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.codec import VERSION
from aqueduct_core.engine.actions import (
    Action,
    CloseLink,
    Consumed,
    ResetStream,
    SendDatagram,
    WriteStream,
)
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramOutcome,
    Input,
    LinkLost,
    LinkRoom,
    StreamBytes,
    StreamLimit,
    StreamReset,
    StreamStopped,
)
from aqueduct_core.transport.in_memory.path import LEAST_WINDOW, MemoryPath
from tests.simulation.scenario import Fault, Scenario


class Agenda:
    """What happens when; entries of one moment keep their order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._serial = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_at(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def add(self, when: float, act: Callable[..., None], *arguments: Any) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (when, self._serial, act, arguments))

    def run(self, now: float) -> None:
        """Do all that is due."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, _, act, arguments = heapq.heappop(heap)
            act(*arguments)


class _Outgoing:
    """One stream as both transports see it."""

    __slots__ = ("arrives", "credited", "ended", "finished", "queue", "reset", "sent", "single")

    def __init__(self, single: bool) -> None:
        self.single = single  # one whole message and nothing else
        self.queue = b""
        self.ended = False  # FIN was written
        self.finished = False  # FIN was sent
        self.reset = False  # abandoned by the writer
        self.sent = 0
        self.credited = 0
        self.arrives = 0.0


class _End:
    """What arrives at one side."""

    __slots__ = (
        "arrived", "credited", "dead", "done", "limit", "owed", "path", "path_at", "room", "streams"
    )  # fmt: skip

    def __init__(self) -> None:
        self.streams: dict[int, _Outgoing] = {}  # that this side writes
        self.done: set[int] = set()  # streams of the peer of which nothing more is handed over
        self.owed: dict[int, int] = {}  # bytes handed over and not credited, by stream
        self.arrived = 0
        self.credited = 0
        self.dead = False
        self.limit: int | None = None  # streams that it may open in all
        self.path: MemoryPath | None = None
        self.path_at = -1.0  # when the path is looked at next
        self.room = 0


class Network:
    """Carries actions of both engines. ``doubled`` counts the datagrams that came twice."""

    def __init__(
        self,
        scenario: Scenario,
        draw: random.Random,
        agenda: Agenda,
        engines: dict[Side, AqueductEngine],
    ) -> None:
        self._scenario = scenario
        self._draw = draw
        self._agenda = agenda
        self._engines = engines
        self._ends = {side: _End() for side in Side}
        for end in self._ends.values():
            end.limit = scenario.streams
            if scenario.rate is not None:
                end.path = MemoryPath(scenario.rate, scenario.queue, scenario.latency)
                end.path.window = LEAST_WINDOW  # a world is small, and something is to wait
        self.now = 0.0
        self.datagram_size = scenario.datagram_size
        self.lost = 0
        self.doubled = 0

    # --- from the engines ---------------------------------------------------------------

    def carry(self, side: Side, actions: list[Action]) -> None:
        """Carry out one engine's actions; refusals are handled at once, as the contract says."""
        end = self._ends[side]
        if end.dead:
            return
        refused = []
        for action in actions:
            if isinstance(action, WriteStream):
                self._write(side, action)
            elif isinstance(action, Consumed):
                self._consumed(side, action)
            elif isinstance(action, SendDatagram):
                if len(action.data) > self.datagram_size:
                    refused.append(DatagramOutcome(action.token, DatagramFate.REFUSED))
                elif end.path is not None:
                    end.path.datagrams.append(action)
                else:
                    self._datagram(side, action.data, self.now + self._scenario.latency)
            elif isinstance(action, ResetStream):
                self._reset(side, action.stream_id, action.code)
            elif isinstance(action, CloseLink):
                self._agenda.add(
                    self._later(),
                    self._lose,
                    side.other,
                    LinkLost(action.code, action.reason, True, action.origin),
                )
                end.dead = True
        for input in refused:
            self._engines[side].handle(input, self.now)
        self.advance(side)

    def advance(self, side: Side) -> None:
        """Have the path carry what it can, and tell the engine."""
        end = self._ends[side]
        path, engine = end.path, self._engines[side]
        if path is None or end.dead:
            return
        left = None
        for item, arrives in path.advance(self.now):
            if isinstance(item, SendDatagram):
                left = item.token
                if arrives is None:
                    self.lost += 1
                else:
                    self._datagram(side, item.data, arrives)
            elif arrives is not None:
                stream = end.streams[item.stream_id]
                stream.arrives = max(stream.arrives, self._later(arrives))
                self._agenda.add(stream.arrives, self._stream_bytes, side.other, item)
        if path.window != end.room:
            end.room = path.window
            engine.handle(LinkRoom(path.window), self.now)
        if left is not None:
            engine.handle(DatagramOutcome(left, DatagramFate.LEFT), self.now)
        at = path.next_at
        if at is not None and at != end.path_at:
            end.path_at = at
            self._agenda.add(at, self.advance, side)

    def _write(self, side: Side, action: WriteStream) -> None:
        stream_id, data, ended, _ = action
        streams = self._ends[side].streams
        stream = streams.get(stream_id)
        if stream is None:
            kind = 2 | side
            assert stream_id & 3 == kind, f"{side} opens stream {stream_id}"
            stream = streams[stream_id] = _Outgoing(ended and _single_message(data))
        assert not stream.ended, f"stream {stream_id} is written after its end"
        assert not stream.reset, f"stream {stream_id} is written after its reset"
        stream.queue = stream.queue + data if stream.queue else data
        stream.ended = ended
        self._flow(side, stream_id, stream)

    def _flow(self, side: Side, stream_id: int, stream: _Outgoing) -> None:
        """Send what there is credit for, in pieces."""
        limit = self._ends[side].limit
        if stream.reset or (limit is not None and stream_id >> 2 >= limit):
            return
        scenario, draw = self._scenario, self._draw
        while True:
            size = min(len(stream.queue), scenario.stream_window + stream.credited - stream.sent)
            if size > 1 and draw.random() < scenario.cut:
                size = draw.randrange(1, size)
            piece, stream.queue = stream.queue[:size], stream.queue[size:]
            last = stream.ended and not stream.queue and not stream.finished
            if not piece and not last:
                return
            stream.finished = last
            stream.sent += len(piece)
            path = self._ends[side].path
            if path is not None:
                path.pieces.append(StreamBytes(stream_id, piece, last))
                continue
            stream.arrives = max(stream.arrives, self._later())
            self._agenda.add(
                stream.arrives, self._stream_bytes, side.other, StreamBytes(stream_id, piece, last)
            )

    def _consumed(self, side: Side, action: Consumed) -> None:
        stream_id, count = action
        end = self._ends[side]
        end.credited += count
        left = end.owed.get(stream_id, 0) - count
        assert left >= 0, f"{side} gives {-left} bytes of credit too much for stream {stream_id}"
        end.owed[stream_id] = left
        self._agenda.add(self._later(), self._credit, side.other, stream_id, count)

    def _credit(self, side: Side, stream_id: int, count: int) -> None:
        stream = self._ends[side].streams[stream_id]
        stream.credited += count
        if stream.queue:
            self._flow(side, stream_id, stream)
            self.advance(side)

    def _datagram(self, side: Side, data: bytes, at: float) -> None:
        """A datagram reaches the other end at that time or later, if it is not lost."""
        if self._draw.random() < self._scenario.loss:
            self.lost += 1
            return
        self._agenda.add(self._later(at), self._input, side.other, Datagram(data))
        if self._scenario.fault is Fault.DOUBLE and self._draw.random() < 0.3:
            self.doubled += 1
            self._agenda.add(self._later(at), self._input, side.other, Datagram(data))

    def _reset(self, side: Side, stream_id: int, code: int) -> None:
        stream = self._ends[side].streams.setdefault(stream_id, _Outgoing(False))
        if stream.reset:
            return
        stream.reset = True
        stream.queue = b""
        path = self._ends[side].path
        if path is not None:
            path.take_back(stream_id)
        when = self._later()
        if self._draw.random() < 0.5:
            when = max(when, stream.arrives)  # it need not overtake
        self._agenda.add(when, self._stream_reset, side.other, StreamReset(stream_id, code))

    # --- to the engines -----------------------------------------------------------------

    def _later(self, at: float | None = None) -> float:
        """When something arrives that leaves now, or that the path brings at that time."""
        scenario = self._scenario
        when = self.now + scenario.latency if at is None else at
        when += self._draw.random() * scenario.jitter
        grain = scenario.grain
        return when if not grain else (when // grain + 1) * grain

    def _input(self, side: Side, input: Input) -> None:
        if not self._ends[side].dead:
            self._engines[side].handle(input, self.now)

    def _stream_bytes(self, side: Side, input: StreamBytes) -> None:
        end = self._ends[side]
        engine = self._engines[side]
        if end.dead or input.stream_id in end.done or engine.closed is not None:
            return
        if input.end:
            self._stream_over(side, input.stream_id)
        end.arrived += len(input.data)
        end.owed[input.stream_id] = end.owed.get(input.stream_id, 0) + len(input.data)
        engine.handle(input, self.now)

    def _stream_reset(self, side: Side, input: StreamReset) -> None:
        end = self._ends[side]
        if input.stream_id not in end.done:
            self._stream_over(side, input.stream_id)
            self._input(side, input)

    def _stream_over(self, side: Side, stream_id: int) -> None:
        """The peer may open another stream for each that is over."""
        done = self._ends[side].done
        done.add(stream_id)
        if self._scenario.streams is not None:
            limit = self._scenario.streams + len(done)
            self._agenda.add(self._later(), self._stream_limit, side.other, limit)

    def _stream_limit(self, side: Side, limit: int) -> None:
        end = self._ends[side]
        if end.limit is not None and limit > end.limit:
            first, end.limit = end.limit, limit
            self._input(side, StreamLimit(limit))
            for index in range(first, limit):
                stream = end.streams.get(index << 2 | 2 | side)
                if stream is not None:
                    self._flow(side, index << 2 | 2 | side, stream)
            self.advance(side)

    def _lose(self, side: Side, input: LinkLost) -> None:
        self._input(side, input)
        self._ends[side].dead = True

    # --- faults -------------------------------------------------------------------------

    def stop(self, side: Side) -> None:
        """Ask ``side`` to end one of its streams, or abandon one without its knowledge."""
        single = self._scenario.fault is Fault.STOP_MESSAGES
        streams = self._ends[side].streams
        running = [
            stream_id
            for stream_id, stream in streams.items()
            if not stream.reset and (stream.single or not single)
        ]
        if not running:
            return
        stream_id = self._draw.choice(running)
        if self._draw.random() < 0.5:
            self._agenda.add(self._later(), self._input, side, StreamStopped(stream_id, 0))
        else:
            self._agenda.add(
                self._later(), self._stream_reset, side.other, StreamReset(stream_id, 0)
            )

    def cut(self) -> None:
        """The connection is lost, at each end in its own time."""
        for side in Side:
            when = self.now + self._draw.random() * self._draw.choice((0.0, 0.05, 2.0))
            self._agenda.add(when, self._lose, side, LinkLost(0, "idle timeout", False))

    def arrived(self, side: Side) -> int:
        return self._ends[side].arrived

    def owed(self, side: Side) -> int:
        """Bytes that ``side`` got and gave no credit for yet."""
        end = self._ends[side]
        return end.arrived - end.credited


def _single_message(data: bytes) -> bool:
    """Whether a whole stream is one MESSAGE: cut it, and nothing but that message is lost."""
    data = data.removeprefix(VERSION)
    if data[:1] != b"\x03":
        return False
    at = 1
    while data[at] & 0x80:
        at += 1
    return data[at + 1 : at + 2] == b"\x04"
