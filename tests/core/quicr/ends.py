"""Two engines of QUICR joined by a link in memory, and what their applications do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.events import (
    FinalPoint,
    Fragments,
    ObjectsDropped,
    Posted,
    QuicrEvent,
    Requested,
    StartPoint,
    TransactionEnded,
)
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.transport.in_memory.end import MemoryEnd
from aqueduct_core.transport.in_memory.link import MemoryLink

Objects = dict[Position, tuple[int, bytes]]
"""Flags and payload; of a hole b""."""


def media(*groups: int, size: int = 300, flags: int = 0) -> Objects:
    """Groups of so many objects; each object tells where it stands, and sizes differ."""
    return {
        Position(group, number): (
            flags,
            f"{group}/{number}:".encode().ljust(size + 7 * number + group, b"."),
        )
        for group, count in enumerate(groups)
        for number in range(count)
    }


def queue_of(objects: Objects, *, finished: bool = True, now: float = 0.0) -> ObjectQueue:
    queue = ObjectQueue(min(objects, default=Position(0, 0)))
    for position, (flags, payload) in objects.items():
        queue.append(position, payload, flags, now)
    if finished:
        queue.finish()
    return queue


class Received:
    """One media as it came, put together without any care for memory."""

    def __init__(self) -> None:
        self.objects: Objects = {}
        self.final: Position | None = None
        self.sure = True
        self.start: Position | None = None
        self.ended: TransactionEnded | None = None
        self.fragments = 0
        self.delays: list[int] = []
        self._bytes: dict[Position, dict[int, bytes]] = {}
        self._sizes: dict[Position, int] = {}
        self._counts: dict[int, int] = {}

    @property
    def payloads(self) -> dict[Position, bytes]:
        return {position: self.objects[position][1] for position in sorted(self.objects)}

    @property
    def complete(self) -> bool:
        """All objects up to the final point are here, as far as groups say how many they have."""
        if self.final is None:
            return False
        start = self.start or Position(0, 0)
        for group in range(start.group, self.final.group + 1):
            last = group == self.final.group
            count = self.final.object if last else self._counts.get(group)
            if count is None:
                return False
            first = start.object if group == start.group else 0
            if any(Position(group, number) not in self.objects for number in range(first, count)):
                return False
        return True

    def add(self, event: Fragments) -> None:
        for fragment in event.fragments:
            self.fragments += 1
            self.delays.append(fragment.queue_delay)
            position = fragment.position
            if fragment.previous is not None and position.group:
                self._counts[position.group - 1] = fragment.previous
            if fragment.is_hole:
                self.objects.setdefault(position, (fragment.flags, b""))  # begun or not
                continue
            if fragment.last:
                self._sizes[position] = fragment.stop
            pieces = self._bytes.setdefault(position, {})
            for at, byte in enumerate(fragment.data, fragment.offset):
                pieces[at] = bytes((byte,))
            if len(pieces) == self._sizes.get(position):
                payload = b"".join(pieces[at] for at in range(len(pieces)))
                self.objects[position] = fragment.flags, payload


class Application:
    """What one end does with what its engine tells: takes every POST, serves what it has, and
    confirms a media that is complete."""

    def __init__(self, engine: QuicrEngine, *, datagram: bool = False) -> None:
        self.engine = engine
        self.events: list[QuicrEvent] = []
        self.received: dict[int, Received] = {}
        self.serves: dict[bytes, ObjectQueue] = {}
        self.dropped: list[Position] = []
        self.credit = True
        self.takes = True
        self.end: MemoryEnd
        self.link: MemoryLink
        self._datagram = datagram

    def hear(self, events: list[Any]) -> None:
        self.events += events
        engine, now = self.engine, self.link.now
        self.end.kick()
        for event in events:
            match event:
                case Posted(stream, _, _) if not self.takes:
                    engine.cancel(stream, now)
                case Posted(stream, _, _):
                    engine.accept(stream, datagram=self._datagram, now=now)
                case Requested(stream, url, _) if url in self.serves:
                    engine.serve(stream, self.serves[url], now)
                case StartPoint(stream, start):
                    self.of(stream).start = start
                case Fragments(stream, _, size):
                    self.of(stream).add(event)
                    if self.credit:
                        engine.consumed(stream, size, now)
                case FinalPoint(stream, final, sure):
                    self.of(stream).final, self.of(stream).sure = final, sure
                case ObjectsDropped(_, positions):
                    self.dropped += positions
                case TransactionEnded(stream, _, _):
                    self.of(stream).ended = event
        for stream, received in self.received.items():
            if received.complete and received.ended is None:
                engine.confirm(stream, now)

    def of(self, stream: int) -> Received:
        return self.received.setdefault(stream, Received())

    def told(self, *kinds: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]


class Pair:
    """A client and a server with their applications. ``datagram``: the server takes POSTs so."""

    def __init__(
        self,
        *,
        config: QuicrConfig | None = None,
        datagram: bool = False,
        **link: Any,
    ) -> None:
        self.client = Application(QuicrEngine(client=True, config=config))
        self.server = Application(QuicrEngine(client=False, config=config), datagram=datagram)
        link = {"stream_progress": True, "datagram_outcomes": True, "max_streams_bidi": 100} | link
        self.link = MemoryLink(
            self.client.engine,
            self.server.engine,
            on_client_events=self.client.hear,
            on_server_events=self.server.hear,
            **link,
        )
        self.client.link = self.server.link = self.link
        self.client.end, self.server.end = self.link.ends
        self.link.kick()

    @property
    def now(self) -> float:
        return self.link.now

    def ended(self, streams: Iterable[int]) -> bool:
        """Whether these transactions of the client are over at both ends."""
        return all(
            side.of(stream).ended is not None
            for stream in streams
            for side in (self.client, self.server)
        )

    def finish(self, *streams: int, limit: float = 60.0) -> None:
        """Let time pass until these transactions of the client are over at both ends."""
        self.link.run_until(lambda: self.ended(streams), limit)
