"""One end of a link in memory: an engine, and what it has on the way to the other end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aqueduct_core.engine.engine import Engine
from aqueduct_core.engine.inputs import Input, LinkLost
from aqueduct_core.engine.streams import STEP, is_bidirectional, is_client
from aqueduct_core.transport.in_memory.path import MemoryPath

OnEndEvents = Callable[[list[Any]], None]


@dataclass(slots=True)
class Outgoing:
    """What one end has written on one stream and the other end has room for, or not yet.

    ``reset``: the code with which it is to be abandoned as soon as it may be opened.
    """

    waiting: deque[bytes] = field(default_factory=deque)
    ending: bool = False
    ended: bool = False
    reset: int | None = None
    sent: int = 0
    left: int = 0
    consumed: int = 0
    arrives: float = 0.0


@dataclass(slots=True)
class MemoryCounts:
    """What one end sent. ``datagrams_lost`` includes those that found the path's queue full."""

    stream_bytes: int = 0
    datagrams: int = 0
    datagrams_lost: int = 0
    datagrams_doubled: int = 0


class MemoryEnd:
    """An engine at one end.

    ``events`` collects all its events; ``on_events``, where given, is called with those of each
    turn. The rest is for the link.
    """

    def __init__(
        self, engine: Engine[Any], on_events: OnEndEvents | None = None, *, client: bool
    ) -> None:
        self.engine = engine
        self.on_events = on_events
        self.client = client
        self.events: list[Any] = []
        self.lost: LinkLost | None = None
        self.counts = MemoryCounts()
        self.peer: MemoryEnd
        self.path: MemoryPath | None = None
        self.room = 0
        self.streams: dict[int, Outgoing] = {}
        self.limits: dict[bool, int | None] = {}
        """How many streams it may open in all, by whether they are bidirectional."""
        self.granted: dict[bool, int] = {}
        """The same, as the other end has granted it, which we may not know yet."""
        self.left: dict[int, int] = {}
        """Bytes of streams that have left since its engine was told, by stream."""
        self.heard: set[int] = set()
        """Streams of the peer that have ended, while our half of them has not."""
        self.sent = 0
        self.consumed = 0
        self.arriving: list[tuple[float, int, Input]] = []
        self.at_once: list[Input] = []
        self.kicked = False

    def kick(self) -> None:
        """Have the link carry out, at this moment, what commands of the engine brought about: for
        ``on_events`` that gives some, as ``Driver.kick`` is."""
        self.kicked = True

    @property
    def unsent(self) -> int:
        """Bytes written that the other end has no room for yet, and what waits for the path."""
        unsent = sum(len(part) for s in self.streams.values() for part in s.waiting)
        if self.path is not None:
            unsent += self.path.waiting
        return unsent

    def opened(self, stream_id: int) -> bool:
        """Whether it is this end that opens the stream."""
        return is_client(stream_id) == self.client

    def may_send(self, stream_id: int) -> bool:
        """Whether the stream is open, or the limit lets us open it."""
        if not self.opened(stream_id):
            return True
        limit = self.limits[is_bidirectional(stream_id)]
        return limit is None or stream_id // STEP < limit

    def over(self, stream_id: int) -> bool:
        """Whether a stream of the peer has ended both ways, told once."""
        if stream_id not in self.heard:
            return False
        if is_bidirectional(stream_id):
            ours = self.streams.get(stream_id)
            if ours is None or not ours.ended:
                return False
        self.heard.discard(stream_id)
        return True
