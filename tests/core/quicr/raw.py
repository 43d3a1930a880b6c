"""One engine of QUICR against bytes that are written by hand."""

from __future__ import annotations

from typing import Any

from aqueduct_core.engine.actions import (
    Action,
    CloseLink,
    Consumed,
    ResetStream,
    SendDatagram,
    WriteStream,
)
from aqueduct_core.engine.inputs import Datagram, Input, LinkReady, StreamBytes
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import QuicrEngine


class Raw:
    """An engine whose peer is the test. ``out``: what it wrote, by stream; ``ends``: the streams it
    has ended; ``resets``: those that it has reset."""

    def __init__(
        self, *, client: bool = False, config: QuicrConfig | None = None, max_datagram: int = 1_150
    ) -> None:
        self.engine = QuicrEngine(client=client, config=config)
        self.now = 0.0
        self.out: dict[int, bytes] = {}
        self.ends: set[int] = set()
        self.resets: set[int] = set()
        self.datagrams: list[tuple[int, bytes]] = []
        self.consumed = 0
        self.closed: CloseLink | None = None
        self.events: list[Any] = []
        self.handle(LinkReady(max_datagram, datagram_outcomes=True))
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

    def stream(self, stream: int, text: str, *, end: bool = False) -> list[Any]:
        """Bytes of a stream, in hex."""
        return self.handle(StreamBytes(stream, bytes.fromhex(text), end))

    def datagram(self, text: str) -> list[Any]:
        return self.handle(Datagram(bytes.fromhex(text)))

    def _carry(self, action: Action) -> None:
        match action:
            case WriteStream(stream, data, end):
                assert stream not in self.ends | self.resets
                self.out[stream] = self.out.get(stream, b"") + data
                if end:
                    self.ends.add(stream)
            case ResetStream(stream):
                assert stream not in self.ends | self.resets
                self.resets.add(stream)
            case SendDatagram(data, token):
                self.datagrams.append((token, data))
            case Consumed(_, count):
                self.consumed += count
            case CloseLink():
                assert self.closed is None
                self.closed = action


def message(text: str) -> str:
    """A message with its length, in hex."""
    data = bytes.fromhex(text)
    return (len(data).to_bytes(2) + data).hex()


def url(name: str) -> str:
    """A URL with its length, in hex."""
    return (bytes((len(name),)) + name.encode()).hex()
