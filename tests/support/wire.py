"""An engine on one side, raw bytes on the other: what the peer would put on the wire, by hand."""

from __future__ import annotations

from typing import TypeVar

from aqueduct_core.aqueduct.engine import AqueductEngine, Config, Side
from aqueduct_core.aqueduct.events import Closed, End, Ended, Event
from aqueduct_core.aqueduct.wire.codec import VERSION
from aqueduct_core.engine.actions import (
    Action,
    CloseLink,
    Consumed,
    ResetStream,
    SendDatagram,
    WriteStream,
)
from aqueduct_core.engine.inputs import Datagram, StreamBytes, StreamReset
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.turns import proceed

N = TypeVar("N")

CARRIER_8 = "030004000002080000"
"""Message 0 of the entrypoint, which carries channel 8."""


def unhex(text: str) -> bytes:
    """``V`` stands for the VERSION frame."""
    return bytes.fromhex(text.replace("V", VERSION.hex()))


class Wire:
    """Plays the peer of ``engine``. Streams of the peer are numbered as QUIC does."""

    def __init__(self, engine: AqueductEngine) -> None:
        self.engine = engine
        self.now = 0.0
        self.seen: list[Event] = []
        self.actions: list[Action] = []
        self.received = 0
        self._next = 3 if engine.side is Side.CLIENT else 2

    @classmethod
    def server(cls, config: Config | None = None) -> Wire:
        """A server whose handshake is over; the peer's stream 2 carried it."""
        wire = cls(AqueductEngine(Side.SERVER, (), config or Config(auto_accept=True)))
        wire.stream("V0200", end=True)
        wire.pump()
        wire.stream("01", end=True)
        return wire.fresh()

    @classmethod
    def client(cls, config: Config | None = None) -> Wire:
        wire = cls(AqueductEngine(Side.CLIENT, (), config or Config()))
        wire.pump()
        wire.stream("V020001", end=True)
        wire.pump()
        return wire.fresh()

    def fresh(self) -> Wire:
        self.pump()
        self.seen.clear()
        self.actions.clear()
        return self

    def stream(self, text: str, stream_id: int | None = None, *, end: bool = False) -> int:
        """The peer writes on a new stream, or goes on with one."""
        if stream_id is None:
            stream_id = self._next
            self._next += 4
        data = unhex(text)
        self.received += len(data)
        self.engine.handle(StreamBytes(stream_id, data, end), self.now)
        proceed(self.engine, self.now)
        return stream_id

    def reset(self, stream_id: int) -> None:
        self.engine.handle(StreamReset(stream_id, 0), self.now)

    def datagram(self, text: str) -> None:
        self.engine.handle(Datagram(unhex(text)), self.now)

    def pump(self) -> None:
        """What a driver does after a burst: actions first, then events."""
        self.actions += self.engine.actions()
        self.seen += self.engine.events()

    def advance(self, seconds: float) -> None:
        """Let time pass, firing each deadline when it is due."""
        until = self.now + seconds
        self.pump()
        while (wake := self.engine.wake_at) is not None and wake <= until:
            self.now = max(self.now, wake)
            self.engine.tick(self.now)
            self.pump()
        self.now = until

    def sent(self) -> list[str]:
        """What left since the last call: ``stream: hex [FIN]``, ``RESET stream``, ``d: hex``."""
        self.pump()
        out = []
        for action in self.actions:
            match action:
                case WriteStream(stream_id, data, end):
                    text = data.hex().replace(VERSION.hex(), "V")
                    out.append(f"{stream_id}: {text}{' FIN' if end else ''}")
                case ResetStream(stream_id, _):
                    out.append(f"RESET {stream_id}")
                case SendDatagram(data, _):
                    out.append(f"d: {data.hex().replace(VERSION.hex(), 'V')}")
                case CloseLink(code, _):
                    out.append(f"CLOSE {code}")
                case Consumed():
                    pass
        self.actions = [action for action in self.actions if isinstance(action, Consumed)]
        return out

    @property
    def credit(self) -> int:
        """Bytes whose credit came back so far."""
        self.pump()
        return sum(action.count for action in self.actions if isinstance(action, Consumed))

    def events(self, kind: type[N]) -> list[N]:
        """All events of one kind since the last call with it."""
        self.pump()
        found: list[N] = [event for event in self.seen if isinstance(event, kind)]
        self.seen = [event for event in self.seen if not isinstance(event, kind)]
        return found

    def all_events(self) -> list[Event]:
        self.pump()
        seen, self.seen = self.seen, []
        return seen

    @property
    def code(self) -> int | None:
        """The error code that the engine closed with; None: it is open."""
        closed = self.engine.closed
        assert closed is None or isinstance(closed, Closed)
        return None if closed is None else closed.code


def ends(wire: Wire) -> list[tuple[int, End]]:
    """The channels that have ended since the last call, and how."""
    return [(ended.channel, ended.end) for ended in wire.events(Ended)]


def payloads(wire: Wire) -> list[tuple[int, bytes]]:
    """The messages since the last call, each with its channel."""
    batches = wire.events(MessageBatch)
    return [(batch.channel, item.payload) for batch in batches for item in batch.messages()]
