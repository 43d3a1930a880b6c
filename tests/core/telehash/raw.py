"""One engine of Telehash against packets that are written by hand."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from aqueduct_core.engine.actions import Action, Admit, CloseLink, SendDatagram
from aqueduct_core.engine.inputs import Datagram, Input, LinkReady
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import PacketBatch, PacketsDropped
from aqueduct_core.telehash.faults import PacketFault


class SentPacket(NamedTuple):
    """A packet of the engine, decoded: its head as JSON."""

    at: float
    head: Any
    body: bytes
    size: int


def packet(head: dict[str, Any] | str | bytes, body: bytes = b"") -> bytes:
    """A packet with this head: as JSON, or as it is."""
    if isinstance(head, dict):
        head = json.dumps(head, separators=(",", ":"))
    data = head.encode() if isinstance(head, str) else head
    return len(data).to_bytes(2) + data + body


def parsed(data: bytes, at: float = 0.0) -> SentPacket:
    size = int.from_bytes(data[:2])
    return SentPacket(at, json.loads(data[2 : 2 + size]), data[2 + size :], len(data))


class Raw:
    """An engine whose peer is the test. ``out``: all that it sent; ``odd``: what the engine is, so
    that the channels of the test are even unless it says otherwise."""

    def __init__(
        self,
        *,
        odd: bool = True,
        config: TelehashConfig | None = None,
        max_datagram: int = 1_156,
    ) -> None:
        self.engine = TelehashEngine(odd=odd, config=config)
        self.now = 0.0
        self.out: list[SentPacket] = []
        self.events: list[Any] = []
        self.admitted = False
        self.closed: CloseLink | None = None
        self._given = 0
        self.handle(LinkReady(max_datagram))
        self.events.clear()

    def handle(self, *inputs: Input) -> list[Any]:
        """The events that these inputs, one turn, brought about."""
        for input in inputs:
            self.engine.handle(input, self.now)
        return self.turn()

    def turn(self) -> list[Any]:
        """Carry out what commands have brought about; the events."""
        due = self.engine.wake_at
        if due is not None and due <= self.now:
            self.engine.tick(self.now)
        for action in self.engine.actions():
            self._carry(action)
        events = self.engine.events()
        self.events += events
        return events

    def hear(self, head: dict[str, Any] | str | bytes, body: bytes = b"") -> list[Any]:
        """A packet of the peer comes, alone."""
        return self.handle(Datagram(packet(head, body)))

    def hear_all(self, *heads: dict[str, Any]) -> list[Any]:
        """Packets come in one turn, with bodies that tell their seq."""
        return self.handle(*(Datagram(packet(head, b"%d" % head.get("seq", 0))) for head in heads))

    def wait(self, seconds: float) -> list[Any]:
        """Time passes, and each deadline is kept; the events of it."""
        end, seen = self.now + seconds, len(self.events)
        while (due := self.engine.wake_at) is not None and due <= end:
            self.now = max(self.now, due)
            self.turn()
        self.now = end
        return self.events[seen:]

    def sent(self) -> list[SentPacket]:
        """What was sent since the last call."""
        taken, self._given = self.out[self._given :], len(self.out)
        return taken

    def heads(self) -> list[Any]:
        """The heads of that."""
        return [each.head for each in self.sent()]

    def faults(self) -> dict[PacketFault, int]:
        return dict(self.engine.counts)

    def told(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def bodies(self, channel: int) -> list[bytes]:
        return [
            item.payload
            for batch in self.told(PacketBatch)
            if batch.channel == channel
            for item in batch.messages()
        ]

    def dropped(self) -> list[tuple[PacketFault, int, int | None]]:
        return [tuple(event) for event in self.told(PacketsDropped)]

    def _carry(self, action: Action) -> None:
        assert self.closed is None
        match action:
            case SendDatagram(data, _):
                self.out.append(parsed(data, self.now))
            case CloseLink():
                self.closed = action
            case Admit():
                self.admitted = True
            case _:
                raise AssertionError(action)


def receiving(*, done: int = 1, **more: Any) -> Raw:
    """An engine whose peer has opened channel 2, with ``done`` packets that were processed."""
    raw = Raw(**more)
    raw.hear({"c": 2, "seq": 0, "type": "_t"}, b"0")
    for seq in range(1, done):
        raw.hear({"c": 2, "seq": seq}, b"%d" % seq)
    if done:
        raw.engine.done(2, done, raw.now)
        raw.turn()
        raw.wait(0.05)
    raw.sent()
    return raw


def sending(packets: int = 1, **more: Any) -> Raw:
    """An engine that has opened channel 1 and sent so many packets, of which none is acked."""
    raw = Raw(**more)
    raw.engine.open("_t", reliable=True, body=b"0", now=raw.now)
    for seq in range(1, packets):
        assert raw.engine.send(1, body=b"%d" % seq, now=raw.now) == seq
    raw.turn()
    return raw
