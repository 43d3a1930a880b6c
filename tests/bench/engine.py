"""The engine's own cost for each message, from one engine to another without any transport.

    python -m tests.bench.engine [--repetitions 5]

Three parts, each timed on its own: *encode* (``send_many``, the actions), *decode* (``handle`` the
bytes, the events) and *ack* (the receiver's acks, and what the sender makes of them). The reference
is a loop in plain Python that does the least one can do for each message: write its frame, read it
from the same bursts, keep the payload; it checks nothing and acks nothing. Ratios are against
neighbours in time; medians count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.events import Delivered
from aqueduct_core.aqueduct.ingress import SOON
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.actions import Action, WriteStream
from aqueduct_core.engine.inputs import StreamBytes
from aqueduct_core.engine.message_batch import MessageBatch
from tests.bench.measuring import Bench, Effort
from tests.bench.sheet import Sheet

SIZES = {100: 20_000, 1_000: 10_000, 65_536: 400}
"""Payload bytes → messages of one repetition."""
BULK = 256 * 1024
"""Bytes that one command sends, as the asyncio API does."""
PACKETS = 64 * 1024
"""Bytes that arrive together: what a busy socket gives in one burst."""
SMALLEST = min(SIZES)
SINGLY = 2_000
"""Messages of a repetition that are sent one by one, each with a header: the dear way."""
HEADERS = ((b"key", b"value"),)


class Cost(NamedTuple):
    """Seconds of one repetition; the loop's are those of the reference."""

    encode: float
    decode: float
    ack: float
    loop_encode: float
    loop_decode: float

    @property
    def total(self) -> float:
        return self.encode + self.decode + self.ack

    @property
    def ratio(self) -> float:
        return self.total / (self.loop_encode + self.loop_decode)


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
                target.handle(StreamBytes(action.stream_id, action.data, action.end), self.now)
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
                self.client.handle(StreamBytes(action.stream_id, action.data, action.end), self.now)
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


def reference(payloads: list[bytes]) -> tuple[float, float]:
    """Seconds for plain loops that write the same frames, and that read them from the same
    bursts."""
    started = time.process_time()
    number, wires = 0, []
    for bulk in _bulks(payloads):
        out = bytearray()
        for payload in bulk:
            out += b"\x04" + _encoded(number) + b"\x00\x00" + _encoded(len(payload)) + payload
            number += 1
        wires.append(bytes(out))
    written = time.process_time()
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
    return written - started, time.process_time() - written


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


def costs(size: int, count: int, repetitions: int, *, singly: bool = False) -> list[Cost]:
    payloads = [bytes(size) for _ in range(count)]
    ends = Ends()
    ends.measure(payloads, singly)  # warm
    return [Cost(*ends.measure(payloads, singly), *reference(payloads)) for _ in range(repetitions)]


def compare(effort: Effort, sheet: Sheet) -> None:
    sheet.calibrate()
    for size, count in SIZES.items():
        found = costs(size, count, effort.repetitions)
        _add(sheet, f"{size:,} B", found, count)
        sheet.add(f"{size:,} B: all over a loop", "x", [c.ratio for c in found], f"engine-{size}")
        if size == SMALLEST:
            faster = [each.loop_decode / each.decode for each in found]
            sheet.add(f"{size:,} B: decoding, a loop over ours", "x", faster, "G18")
    for size, count in SIZES.items():
        few = min(count, SINGLY)
        found = costs(size, few, effort.repetitions, singly=True)
        _add(sheet, f"{size:,} B one by one, with a header", found, few)


def _add(sheet: Sheet, name: str, found: list[Cost], count: int) -> None:
    for part in ("encode", "decode", "ack"):
        values = [getattr(each, part) * 1e6 / count for each in found]
        sheet.add(f"{name}: {part} a message", "µs", values)


BENCH = Bench(
    "engine", "the engine's own cost for each message against a plain Python loop", compare
)

if __name__ == "__main__":
    BENCH.run()
