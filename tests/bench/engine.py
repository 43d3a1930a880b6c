"""The engine's own cost for each message, from one engine to another without any transport.

    python -m tests.bench.engine [--repetitions 5]

Three parts, each timed on its own: *encode* (``send_many``, the actions), *decode* (``handle`` the
bytes, the events) and *ack* (the receiver's acks, and what the sender makes of them). The reference
is a loop in plain Python that does the least one can do for each message: write its frame, read it
from the same bursts, keep the payload; it checks nothing and acks nothing. Ratios are against
neighbours in time; medians count.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.events import Delivered
from aqueduct_core.aqueduct.ingress import SOON
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.actions import Action, WriteStream
from aqueduct_core.engine.inputs import StreamBytes
from aqueduct_core.engine.message_batch import MessageBatch

SIZES = {100: 20_000, 1_000: 10_000, 65_536: 400}
"""Payload bytes → messages of one repetition."""
BULK = 256 * 1024
"""Bytes that one command sends, as the asyncio API does."""
PACKETS = 64 * 1024
"""Bytes that arrive together: what a busy socket gives in one burst."""
GOALS = {100: 0.5, 1_000: 1.0, 65_536: 1.5}
"""Encode, decode and ack of bulk sends together must cost no more than so many reference loops."""
SINGLY = 2_000
"""Messages of a repetition that are sent one by one, each with a header: the dear way."""
HEADERS = ((b"key", b"value"),)


class Cost(NamedTuple):
    """Microseconds for each message."""

    encode: float
    decode: float
    ack: float
    reference: float

    @property
    def total(self) -> float:
        return self.encode + self.decode + self.ack

    @property
    def ratio(self) -> float:
        return self.total / self.reference


class Ends:
    """A connected client and server; ``deliver`` carries actions from one to the other."""

    def __init__(self) -> None:
        self.now = 0.0
        self.client = AqueductEngine(Side.CLIENT, (), Config())
        self.server = AqueductEngine(Side.SERVER, (), Config(auto_accept=True))
        for _ in range(3):
            self._carry(self.client, self.server)
            self._carry(self.server, self.client)

    def _carry(self, source: AqueductEngine, target: AqueductEngine) -> None:
        for action in source.actions():
            if isinstance(action, WriteStream):
                target.handle(StreamBytes(*action), self.now)
        target.events()

    def measure(self, payloads: list[bytes], singly: bool) -> tuple[float, float, float]:
        """Seconds for encode, decode and ack of all messages."""
        started = time.process_time()
        actions: list[Action] = []
        for bulk in _bulks(payloads):
            if singly:
                for payload in bulk:
                    self.client.send(0, payload, headers=HEADERS, now=self.now)
            else:
                self.client.send_many(0, bulk, now=self.now)
            actions += self.client.actions()
        encoded = time.process_time()

        arriving = [input for action in actions for input in _burst(action)]
        ready = time.process_time()
        received = 0
        for input in arriving:
            self.server.handle(input, self.now)
            received += self._taken()
        while (wake := self.server.wake_at) is not None and wake <= self.now + SOON:
            self.now = wake  # it takes in a part of what is here by each turn
            self.server.tick(self.now)
            received += self._taken()
        decoded = time.process_time()

        self.now += 1.0
        self.server.tick(self.now)
        for action in self.server.actions():
            if isinstance(action, WriteStream):
                self.client.handle(StreamBytes(*action), self.now)
        acked = sum(
            event.stop - event.first
            for event in self.client.events()
            if isinstance(event, Delivered)
        )
        ended = time.process_time()

        assert received == acked == len(payloads)
        return encoded - started, decoded - ready, ended - decoded

    def _taken(self) -> int:
        """How many messages the server's application takes now, each consumed at once."""
        received = 0
        for event in self.server.events():
            if isinstance(event, MessageBatch):
                received += event.count
                self.server.consumed(event.channel, event.size, self.now)
        self.server.actions()
        return received


def _bulks(payloads: list[bytes]) -> Iterator[list[bytes]]:
    step = max(1, BULK // len(payloads[0]))
    for start in range(0, len(payloads), step):
        yield payloads[start : start + step]


def _burst(action: Action) -> Iterator[StreamBytes]:
    if isinstance(action, WriteStream):
        for start in range(0, len(action.data), PACKETS):
            yield StreamBytes(action.stream_id, action.data[start : start + PACKETS], False)


def reference(payloads: list[bytes]) -> float:
    """Seconds for plain loops that write the same frames and read them from the same bursts."""
    started = time.process_time()
    number, wires = 0, []
    for bulk in _bulks(payloads):
        out = bytearray()
        for payload in bulk:
            out += b"\x04" + _encoded(number) + b"\x00\x00" + _encoded(len(payload)) + payload
            number += 1
        wires.append(bytes(out))
    bursts = [wire[at : at + PACKETS] for wire in wires for at in range(0, len(wire), PACKETS)]
    got: list[bytes] = []
    buffer = bytearray()
    for burst in bursts:
        buffer += burst
        at = 0
        while at < len(buffer):
            assert buffer[at] == 4
            try:
                _, place = _varint(buffer, at + 1)
                headers, place = _varint(buffer, place)
                attachments, place = _varint(buffer, place + headers)
                length, place = _varint(buffer, place + attachments)
            except IndexError:
                break
            if place + length > len(buffer):
                break
            got.append(bytes(buffer[place : place + length]))
            at = place + length
        del buffer[:at]
    assert len(got) == len(payloads)
    return time.process_time() - started


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint(data: bytearray, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def cost(size: int, count: int, repetitions: int, *, singly: bool = False) -> Cost:
    payloads = [bytes(size) for _ in range(count)]
    ends = Ends()
    ends.measure(payloads, singly)  # warm
    parts: list[Cost] = []
    scale = 1e6 / count
    for _ in range(repetitions):
        times = (*ends.measure(payloads, singly), reference(payloads))
        parts.append(Cost(*(each * scale for each in times)))
    middle: Callable[[list[float]], float] = statistics.median
    return Cost(*(middle(list(column)) for column in zip(*parts, strict=True)))


def show(name: str, each: Cost, note: str) -> None:
    print(
        f"{name:>10} {each.encode:>9.3f} {each.decode:>9.3f} {each.ack:>9.4f} "
        f"{each.total:>9.3f} {each.reference:>9.3f} {each.ratio:>6.2f}x  ({note})"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    repetitions = parser.parse_args().repetitions
    heads = ("payload", "encode", "decode", "ack", "all", "loop")
    print(" ".join(f"{head:>{10 - (i > 0)}}" for i, head in enumerate(heads)) + "   ratio")
    print(f"{'bytes':>10}" + f" {'µs/msg':>9}" * 5)
    slow = False
    for size, count in SIZES.items():
        each = cost(size, count, repetitions)
        slow = slow or each.ratio > GOALS[size]
        show(f"{size:,}", each, f"goal: {GOALS[size]:g}x")
    for size, count in SIZES.items():
        each = cost(size, min(count, SINGLY), repetitions, singly=True)
        show(f"{size:,}", each, "one by one, with a header; no goal")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
