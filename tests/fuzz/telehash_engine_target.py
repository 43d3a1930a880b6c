"""Target: one engine of Telehash, its application, and a peer that sends whatever the bytes say.

Invariant: nothing raises but what a command may. What goes out are packets that fit, with numbers
that rise and acks of what was processed alone, and none after the line is closed. Packets come in
order and once; channels open once, close once, and say nothing behind that. What is kept stays
within the bounds of the configuration, and is nothing when all is over.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from aqueduct_core.engine.actions import CloseLink, SendDatagram
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramLimit,
    DatagramOutcome,
    LinkLost,
    LinkReady,
    LinkRoom,
    StreamBytes,
)
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import ChannelClosed, ChannelOpened, PacketBatch, PacketsAcked
from aqueduct_core.telehash.faults import TelehashError
from aqueduct_core.telehash.wire import channel_packets
from tests.fuzz.byte_source import ByteSource

CONFIG = TelehashConfig(
    window=4,
    receive_window=8,
    receive_bytes=4_000,
    max_channels=3,
    max_unopened=2,
    max_ended=3,
)
MOST_KEPT = 60_000
"""Bytes: of channels of both sides, what waits in them, and those that ended."""
TYPES = (None, None, None, "_t", "_u")


class _Run:
    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.now = 0.0
        self.engine = TelehashEngine(odd=source.flag(), config=CONFIG)
        self.own: list[int] = []
        self.opened: set[int] = set()
        self.closed: set[int] = set()
        self.got: dict[int, int] = defaultdict(int)
        self.done: dict[int, int] = defaultdict(int)
        self.sent: dict[int, int] = defaultdict(int)
        self.acked: dict[int, int] = defaultdict(int)
        self.token = 0
        self.over = False
        self.engine.handle(LinkReady(1_156), 0.0)
        if source.flag():
            self.engine.handle(LinkRoom(source.byte() * 40), 0.0)
        self.turn()

    def turn(self) -> None:
        due = self.engine.wake_at
        if due is not None and due <= self.now:
            self.engine.tick(self.now)
        for action in self.engine.actions():
            assert not self.over, "an action behind the last"
            match action:
                case SendDatagram(data, token):
                    assert token > self.token
                    self.token = token
                    self._out(data)
                case CloseLink():
                    self.over = True
        for event in self.engine.events():
            self._event(event)
        assert self.engine.footprint.size <= MOST_KEPT

    def _out(self, data: bytes) -> None:
        assert len(data) <= 1_472
        packet = channel_packets.decode(data)
        number = packet.channel
        if packet.seq is not None:
            assert packet.seq <= self.sent[number], "a number was left out"
            self.sent[number] = max(self.sent[number], packet.seq + 1)
        if packet.ack is not None:
            assert packet.ack < self.done[number], "an ack of what was not processed"
        assert packet.ignored is None, packet.ignored

    def _event(self, event: Any) -> None:
        number = getattr(event, "channel", None)
        if isinstance(event, ChannelOpened):
            assert number not in self.opened
            self.opened.add(event.channel)
        elif isinstance(event, PacketBatch):
            assert number in self.opened - self.closed
            assert event.first == self.got[event.channel]
            assert len(event.js) == event.count == len(event.offsets) - 1
            self.got[event.channel] += event.count
            for js in event.js:
                assert js is None or json.loads(js) is not ...
        elif isinstance(event, PacketsAcked):
            assert self.acked[event.channel] < event.upto <= self.sent[event.channel]
            self.acked[event.channel] = event.upto
        elif isinstance(event, ChannelClosed):
            assert number in self.opened - self.closed
            self.closed.add(event.channel)
        elif isinstance(event, LinkLost):
            assert self.opened == self.closed

    # steps

    def raw(self) -> None:
        self.engine.handle(Datagram(self.source.block()), self.now)

    def packet(self) -> None:
        """A packet that may be one."""
        source = self.source
        head: dict[str, Any] = {"c": 1 + source.below(8)}
        flags = source.byte()
        for bit, key in enumerate(("seq", "ack")):
            if flags >> bit & 1:
                head[key] = source.below(14)
        if flags & 4:
            head["miss"] = [source.below(14) for _ in range(source.below(4))]
        if flags & 8:
            head["end"] = True
        if flags & 16:
            head["_"] = {"end": True} if source.flag() else {"a": source.byte()}
        if flags & 32 and (type := source.choice(TYPES)) is not None:
            head["type"] = type
        if flags & 192 == 192:
            head["err"] = "e"
        text = json.dumps(head).encode()
        body = bytes(source.below(4) * 300)
        self.engine.handle(Datagram(len(text).to_bytes(2) + text + body), self.now)

    def open(self) -> None:
        source = self.source
        try:
            number = self.engine.open(
                "_f", reliable=source.flag(), body=bytes(source.byte() * 6), end=source.flag(),
                now=self.now,
            )  # fmt: skip
        except TelehashError:
            return
        self.own.append(number)
        self.opened.add(number)
        if len(self.own) > 4:
            self.engine.fail(self.own.pop(0), "enough", self.now)

    def send(self) -> None:
        source = self.source
        number = source.choice([*self.own, *range(1, 9)])
        room = self.engine.room(number)
        try:
            self.engine.send(
                number, js={"a": 1} if source.flag() else None, end=source.byte() > 200,
                now=self.now,
            )  # fmt: skip
            assert room
        except TelehashError:
            pass

    def process(self) -> None:
        source = self.source
        number = source.choice([*self.own, *range(1, 9)])
        first, count = source.below(self.got[number] + 1), source.below(9)
        stop = min(first + count, self.got[number])
        self.done[number] = max(self.done[number], stop)
        self.engine.stored(number, first, stop, reliable=True, now=self.now)

    def fail(self) -> None:
        self.engine.fail(1 + self.source.below(8), "f", self.now)

    def time(self) -> None:
        end = self.now + (0.01, 0.1, 1.0, 5.0, 15.0)[self.source.below(5)]
        for _ in range(500):
            due = self.engine.wake_at
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.turn()
        else:
            raise AssertionError("a deadline is asked for again and again")
        self.now = end

    def link(self) -> None:
        source = self.source
        kind = source.below(6)
        if kind == 0:
            self.engine.handle(DatagramOutcome(source.below(40), DatagramFate.LEFT), self.now)
        elif kind == 1:
            self.engine.handle(DatagramOutcome(source.below(40), DatagramFate.REFUSED), self.now)
        elif kind == 2:
            self.engine.handle(DatagramLimit(300 + 4 * source.byte()), self.now)
        elif kind == 3:
            self.engine.handle(LinkRoom(source.byte() * 40), self.now)
        elif kind == 4:
            self.engine.pause()
        else:
            self.engine.resume(self.now)

    def close(self) -> None:
        if self.source.byte() > 200:
            self.engine.handle(StreamBytes(0, b"x", False), self.now)


_STEPS: tuple[Callable[[_Run], None], ...] = (
    _Run.packet, _Run.packet, _Run.packet, _Run.raw, _Run.open, _Run.send, _Run.process,
    _Run.fail, _Run.time, _Run.link, _Run.close,
)  # fmt: skip


def run(data: bytes) -> None:
    source = ByteSource(data)
    given = _Run(source)
    while source.left:
        source.choice(_STEPS)(given)
        if source.flag():
            given.turn()
    given.turn()
    given.engine.handle(LinkLost(0, "", True), given.now)
    given.turn()
    assert given.engine.closed is not None
    assert given.engine.wake_at is None
    assert given.engine.footprint.size == 0
