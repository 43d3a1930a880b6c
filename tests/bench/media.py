"""QUICR's own cost for each object, from one engine to another without any transport.

    python -m tests.bench.media [--repetitions 5]

Three parts, each timed on its own: *send* (a publisher's queue, the engine, the actions), *receive*
(``handle`` what arrives, the events) and *assemble* (fragments to objects in media order). Objects
have 1 KB, and 64 KiB, which takes two messages of a stream and 58 datagrams. Aqueduct's engine has
its own bench, ``engine``.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from aqueduct_core.engine.actions import Action, SendDatagram, WriteStream
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramOutcome,
    Input,
    LinkReady,
    LinkRoom,
    StreamBytes,
)
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.events import Fragments, Posted
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.media.reception import Reception
from tests.bench.measuring import Bench, Effort
from tests.bench.sheet import Sheet

SIZES = {1_000: 10_000, 65_536: 400}
"""Payload bytes → objects of one repetition."""
GROUP = 100
"""Objects of a group."""
PACKETS = 64 * 1024
"""Bytes that arrive together: what a busy socket gives in one burst."""
DATAGRAM = 1_200
BULK = 50
"""Objects that are published, or datagrams that arrive, in one turn."""


class Cost(NamedTuple):
    """Seconds of one repetition."""

    send: float
    receive: float
    assemble: float

    @property
    def total(self) -> float:
        return sum(self)


class Ends:
    """A publisher and who takes its media, joined. ``datagram``: it goes in datagrams."""

    def __init__(self, *, datagram: bool) -> None:
        config = QuicrConfig(dropping=None, write_ahead=1 << 30)
        self.publisher = QuicrEngine(client=True, config=config)
        self.taker = QuicrEngine(client=False, config=config)
        self.queue = ObjectQueue()
        for engine in (self.publisher, self.taker):
            engine.handle(LinkReady(DATAGRAM, datagram_outcomes=True), 0.0)
        self.publisher.handle(LinkRoom(1 << 33), 0.0)
        self.stream = self.publisher.post(b"bench", self.queue, datagram=datagram, now=0.0)
        self._carry(self.publisher, self.taker)
        (posted,) = (each for each in self.taker.events() if isinstance(each, Posted))
        self.taker.accept(posted.stream, datagram=datagram, now=0.0)
        self._carry(self.taker, self.publisher)
        self.publisher.events()

    def _carry(self, source: QuicrEngine, target: QuicrEngine) -> None:
        for input in _arriving(source.actions()):
            target.handle(input, 0.0)

    def measure(self, payload: bytes, count: int) -> Cost:
        started = time.process_time()
        actions: list[Action] = []
        for first in range(0, count, BULK):
            for number in range(first, first + BULK):
                position = Position(*divmod(number, GROUP))
                self.queue.append(position, payload, 0x81, 0.0)
            self.publisher.wake(self.stream, 0.0)
            actions += self.publisher.actions()
            for action in actions[-BULK:]:
                if isinstance(action, SendDatagram):
                    outcome = DatagramOutcome(action.token, DatagramFate.LEFT)
                    self.publisher.handle(outcome, 0.0)
        sent = time.process_time()

        arriving = _arriving(actions)
        ready = time.process_time()
        turns = []
        for at, input in enumerate(arriving, 1):
            self.taker.handle(input, 0.0)
            if isinstance(input, StreamBytes) or not at % BULK or at == len(arriving):
                turns.append(self.taker.events())
                self.taker.actions()
        received = time.process_time()

        reception = Reception()
        objects = 0
        for events in turns:
            for event in events:
                if isinstance(event, Fragments):
                    reception.handle(event.fragments, 0.0)
            objects += len(reception.take())
        assembled = time.process_time()

        assert objects == count
        return Cost(sent - started, received - ready, assembled - received)


def _arriving(actions: list[Action]) -> list[Input]:
    """What the actions bring about at the other end."""
    inputs: list[Input] = []
    written = bytearray()
    stream = 0
    for action in actions:
        if isinstance(action, WriteStream):
            stream = action.stream_id
            written += action.data
        elif isinstance(action, SendDatagram):
            inputs.append(Datagram(action.data))
    for at in range(0, len(written), PACKETS):
        inputs.append(StreamBytes(stream, bytes(written[at : at + PACKETS]), False))
    return inputs


def compare(effort: Effort, sheet: Sheet) -> None:
    sheet.calibrate()
    for size, count in SIZES.items():
        payload = bytes(size)
        for datagram, mode in ((False, "stream"), (True, "datagrams")):
            found = [
                Ends(datagram=datagram).measure(payload, count)
                for _ in range(effort.repetitions + 1)
            ][1:]
            for part in (*Cost._fields, "total"):
                values = [getattr(each, part) * 1e6 / count for each in found]
                sheet.add(f"{size:,} B, {mode}: {part} an object", "µs", values)


BENCH = Bench("media", "QUICR's own cost for each object, without any transport", compare)

if __name__ == "__main__":
    BENCH.run()
