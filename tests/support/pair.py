"""Two engines, one virtual clock, and a link between them that delays, reorders and loses.

The link behaves as QUIC does: a stream's bytes arrive in order and complete, cut anywhere;
streams overtake each other; a reset may overtake what was written before it; datagrams may be
lost or overtaken but never come twice. All chance comes from one seed.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

from aqueduct_core.aqueduct.engine import AqueductEngine, Config, Side
from aqueduct_core.aqueduct.events import Event, Opened
from aqueduct_core.engine.actions import CloseLink, Consumed, ResetStream, SendDatagram, WriteStream
from aqueduct_core.engine.inputs import Datagram, Input, LinkLost, StreamBytes, StreamReset
from aqueduct_core.engine.message_batch import Headers


@dataclass
class LinkShape:
    """Seconds and shares; ``cut`` is how often bytes are split on the way."""

    latency: float = 0.01
    jitter: float = 0.0
    loss: float = 0.0
    cut: float = 0.0


@dataclass
class Tally:
    """Stream bytes that reached one end, and the credit that it gave back."""

    arrived: int = 0
    credited: int = 0


@dataclass(order=True)
class _Arrival:
    when: float
    serial: int
    to: Side = field(compare=False)
    input: Input = field(compare=False)


class Pair:
    """A client and a server. ``seen`` keeps their events; ``settle`` runs until nothing moves."""

    def __init__(
        self,
        seed: int = 0,
        shape: LinkShape | None = None,
        client: Config | None = None,
        server: Config | None = None,
        headers: Headers = (),
    ) -> None:
        self.random = random.Random(seed)
        self.shape = shape or LinkShape()
        self.now = 0.0
        self.engines = {
            Side.CLIENT: AqueductEngine(Side.CLIENT, headers, client or Config()),
            Side.SERVER: AqueductEngine(Side.SERVER, (), server or Config(auto_accept=True)),
        }
        self.seen: dict[Side, list[Event]] = {Side.CLIENT: [], Side.SERVER: []}
        self.tally = {Side.CLIENT: Tally(), Side.SERVER: Tally()}
        self.lost_datagrams = 0
        self._arrivals: list[_Arrival] = []
        self._serial = 0
        self._last: dict[tuple[Side, int], float] = {}
        self._resets: set[tuple[Side, int]] = set()

    @property
    def client(self) -> AqueductEngine:
        return self.engines[Side.CLIENT]

    @property
    def server(self) -> AqueductEngine:
        return self.engines[Side.SERVER]

    def connect(self) -> Pair:
        self.settle()
        assert all(any(isinstance(n, Opened) for n in seen) for seen in self.seen.values())
        return self

    def events(self, side: Side) -> list[Event]:
        """The events of one side since the last call."""
        seen, self.seen[side] = self.seen[side], []
        return seen

    def _post(self, to: Side, input: Input, when: float) -> None:
        self._serial += 1
        heapq.heappush(self._arrivals, _Arrival(when, self._serial, to, input))

    def _delay(self) -> float:
        return self.shape.latency + self.random.random() * self.shape.jitter

    def _write(self, to: Side, stream_id: int, data: bytes, end: bool) -> None:
        key = (to, stream_id)
        pieces = [data]
        while self.random.random() < self.shape.cut and len(pieces[-1]) > 1:
            last = pieces.pop()
            at = self.random.randrange(1, len(last))
            pieces += [last[:at], last[at:]]
        for i, piece in enumerate(pieces):
            when = max(self.now + self._delay(), self._last.get(key, 0.0))
            self._last[key] = when
            self._post(to, StreamBytes(stream_id, piece, end and i == len(pieces) - 1), when)

    def collect(self) -> bool:
        """Carry out both sides' actions and keep their events; whether there was anything."""
        moved = False
        for side, engine in self.engines.items():
            to = side.other
            for action in engine.actions():
                moved = True
                match action:
                    case WriteStream(stream_id, data, end):
                        self._write(to, stream_id, data, end)
                    case ResetStream(stream_id, code):
                        self._post(to, StreamReset(stream_id, code), self.now + self._delay())
                    case SendDatagram(data, _):
                        if self.random.random() < self.shape.loss:
                            self.lost_datagrams += 1
                        else:
                            self._post(to, Datagram(data), self.now + self._delay())
                    case Consumed(_, count):
                        self.tally[side].credited += count
                    case CloseLink(code, reason):
                        self._post(to, LinkLost(code, reason, True), self.now + self._delay())
            self.seen[side] += engine.events()
        return moved

    def _deliver(self, arrival: _Arrival) -> None:
        input = arrival.input
        engine = self.engines[arrival.to]
        if isinstance(input, StreamReset):
            self._resets.add((arrival.to, input.stream_id))
        if isinstance(input, StreamBytes):
            if (arrival.to, input.stream_id) in self._resets:
                return  # a reset has overtaken it
            if engine.closed is None:
                self.tally[arrival.to].arrived += len(input.data)
        engine.handle(input, self.now)

    def step(self) -> bool:
        """On to the next thing that happens; False: nothing will happen any more."""
        moved = self.collect()
        whens = [engine.wake_at for engine in self.engines.values()]
        if self._arrivals:
            whens.append(self._arrivals[0].when)
        next_at = min((when for when in whens if when is not None), default=None)
        if next_at is None:
            return moved
        self.now = max(self.now, next_at)
        while self._arrivals and self._arrivals[0].when <= self.now:
            self._deliver(heapq.heappop(self._arrivals))
        for engine in self.engines.values():
            if engine.wake_at is not None and engine.wake_at <= self.now:
                engine.tick(self.now)
        self.collect()
        return True

    def settle(self, most: int = 200_000) -> None:
        """Run until nothing moves; a pair that never rests is a failure."""
        for _ in range(most):
            if not self.step():
                return
        raise AssertionError("the pair never comes to rest")

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        self.collect()
        while True:
            whens = [e.wake_at for e in self.engines.values() if e.wake_at is not None]
            whens += [arrival.when for arrival in self._arrivals[:1]]
            if not whens or min(whens) > until:
                break
            self.step()
        self.now = until
