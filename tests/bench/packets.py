"""Telehash's own cost for each packet, from one engine to another without any transport.

    python -m tests.bench.packets [--repetitions 5]

Three parts, each timed on its own: *send* (commands, the actions), *receive* (``handle`` what
arrives, the events) and *ack* (``stored``, the acks, and what the sender makes of them). There are
many reliable channels, and beside them stands the same on one, whose packets share a batch and an
ack. Each packet is a datagram by itself, whose cost no bulk can share: what Aqueduct and QUICR pay
for a message of a stream is in the benches ``engine`` and ``media``.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import NamedTuple

from aqueduct_core.engine.actions import Action, SendDatagram
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramOutcome,
    LinkReady,
    LinkRoom,
)
from aqueduct_core.telehash.config import MAX_UNACKED, TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import PacketBatch
from tests.bench.measuring import Bench, Effort
from tests.bench.sheet import Sheet

SIZES = (100, 1_000)
"""Bytes of bodies."""
MANY = 64
"""Channels."""
ROUNDS = {MANY: 3, 1: 100}
"""Channels → how often each of them sends a window in one repetition."""
BURST = 64
"""Datagrams that arrive in one turn: what a busy socket gives at once."""


class Cost(NamedTuple):
    """Seconds of one repetition."""

    send: float
    receive: float
    ack: float

    @property
    def total(self) -> float:
        return sum(self)

    def plus(self, send: float, receive: float, ack: float) -> Cost:
        return Cost(self.send + send, self.receive + receive, self.ack + ack)


class Ends:
    """Who sends and who takes, joined, with so many channels open."""

    def __init__(self, channels: int) -> None:
        config = TelehashConfig(window=MAX_UNACKED, write_ahead=1 << 30)
        self.now = 0.0
        self.sender = TelehashEngine(odd=True, config=config)
        self.taker = TelehashEngine(odd=False, config=config)
        for engine in (self.sender, self.taker):
            engine.handle(LinkReady(config.max_packet), self.now)
            engine.handle(LinkRoom(1 << 30), self.now)
        self.channels = [
            self.sender.open("_bench", reliable=True, now=self.now) for _ in range(channels)
        ]
        self._stored(self._arrive(self._sent(self.sender)))
        self._acked()

    def measure(self, body: bytes, rounds: int) -> Cost:
        cost = Cost(0.0, 0.0, 0.0)
        for _ in range(rounds):
            begun = time.process_time()
            for channel in self.channels:
                for _ in range(MAX_UNACKED):
                    self.sender.send(channel, body=body, now=self.now)
            actions = self._sent(self.sender)
            sent = time.process_time()
            batches = self._arrive(actions)
            received = time.process_time()
            self._stored(batches)
            self._acked()
            acked = time.process_time()
            assert sum(batch.count for batch in batches) == MAX_UNACKED * len(self.channels)
            cost = cost.plus(sent - begun, received - sent, acked - received)
        return cost

    def _sent(self, engine: TelehashEngine) -> list[Action]:
        """What it sends now, all of which has left when this returns."""
        actions = engine.actions()
        last = actions[-1]
        assert isinstance(last, SendDatagram)
        engine.handle(DatagramOutcome(last.token, DatagramFate.LEFT), self.now)
        return actions

    def _arrive(self, actions: list[Action]) -> list[PacketBatch]:
        """Bursts of them at who takes; the batches of what they bring."""
        batches: list[PacketBatch] = []
        arriving = (Datagram(each.data) for each in actions if isinstance(each, SendDatagram))
        while burst := list(islice(arriving, BURST)):
            for datagram in burst:
                self.taker.handle(datagram, self.now)
            batches += [each for each in self.taker.events() if isinstance(each, PacketBatch)]
        return batches

    def _stored(self, batches: list[PacketBatch]) -> None:
        """All of it is durable at once, as what one group commit brings."""
        for batch in batches:
            stop = batch.first + batch.count
            self.taker.stored(batch.channel, batch.first, stop, reliable=True, now=self.now)

    def _acked(self) -> None:
        """The acks arrive, in bursts."""
        self.now += 1.0
        self.taker.tick(self.now)
        acks = [each for each in self._sent(self.taker) if isinstance(each, SendDatagram)]
        for first in range(0, len(acks), BURST):
            for ack in acks[first : first + BURST]:
                self.sender.handle(Datagram(ack.data), self.now)
            self.sender.events()
        assert all(self.sender.room(channel) == MAX_UNACKED for channel in self.channels)


def compare(effort: Effort, sheet: Sheet) -> None:
    for size in SIZES:
        for channels, rounds in ROUNDS.items():
            sheet.calibrate()
            ends = Ends(channels)
            found = [ends.measure(bytes(size), rounds) for _ in range(effort.repetitions + 1)][1:]
            count = channels * rounds * MAX_UNACKED
            title = f"{size:,} B, {channels} channel" + "s" * (channels > 1)
            for part in (*Cost._fields, "total"):
                values = [getattr(each, part) * 1e6 / count for each in found]
                sheet.add(f"{title}: {part} a packet", "µs", values)


BENCH = Bench("packets", "Telehash's own cost for each packet, without any transport", compare)

if __name__ == "__main__":
    BENCH.run()
