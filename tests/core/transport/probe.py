"""A small engine for tests of transport alone: it counts, echoes and sends what it is told."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from aqueduct_core.engine.actions import (
    Action,
    Admit,
    CloseLink,
    Consumed,
    ResetStream,
    SendDatagram,
    StopStream,
    WriteStream,
)
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.engine import Footprint
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramOutcome,
    Input,
    LinkLost,
    LinkReady,
    StreamBytes,
    StreamLimit,
    StreamReset,
    StreamStopped,
)
from aqueduct_core.engine.streams import STEP, first_stream, is_bidirectional, is_client

NOTHING = Footprint(0)


class Got(NamedTuple):
    """All events of a probe: one input as it came."""

    input: Input


@dataclass
class Probe:
    """Takes in everything, consumes it (or not), and can echo: on a stream of its own, or on the
    same one where that is bidirectional.

    ``streams`` has the number of bytes of each stream, ``digests`` a running hash, ``ended`` the
    ids whose end came.
    """

    client: bool
    consumes: bool = True
    echoes: bool = False
    admits: bool = True
    on_input: Callable[[Input], None] | None = None
    ready: LinkReady | None = None
    lost: LinkLost | None = None
    streams: dict[int, int] = field(default_factory=dict)
    digests: dict[int, hashlib._Hash] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    resets: dict[int, int] = field(default_factory=dict)
    stops: dict[int, int] = field(default_factory=dict)
    datagrams: list[bytes] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    ticks: list[float] = field(default_factory=list)
    wake_at: float | None = None
    opened: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    limits: dict[bool, int] = field(default_factory=dict)
    owed: list[Consumed] = field(default_factory=list)
    footprint: Footprint = NOTHING
    _actions: list[Action] = field(default_factory=list)
    _events: list[Got] = field(default_factory=list)
    _partners: dict[int, int] = field(default_factory=dict)

    # The engine contract

    def handle(self, input: Input, now: float) -> None:
        if self.on_input is not None:
            self.on_input(input)
        match input:
            case LinkReady():
                self.ready = input
                if self.admits and not self.client:
                    self._actions.append(Admit())
            case LinkLost():
                self.lost = input
            case StreamBytes(stream_id, data, end):
                self._bytes(stream_id, data, end)
            case StreamReset(stream_id, code):
                self.resets[stream_id] = code
            case StreamStopped(stream_id, code):
                self.stops[stream_id] = code
            case StreamLimit(streams, bidirectional):
                self.limits[bidirectional] = streams
            case Datagram(data):
                self.datagrams.append(data)
                if self.echoes:
                    self._actions.append(SendDatagram(data, 0))
            case DatagramOutcome(token, DatagramFate.REFUSED):
                self.refused.append(token)
        self._events.append(Got(input))

    def tick(self, now: float) -> None:
        self.ticks.append(now)
        self.wake_at = None

    def actions(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    def events(self) -> list[Got]:
        events, self._events = self._events, []
        return events

    # Commands

    def open(self, *, bidirectional: bool = False) -> int:
        """The id of the next stream of ours of that kind."""
        first = first_stream(client=self.client, bidirectional=bidirectional)
        stream_id = first + STEP * self.opened[bidirectional]
        self.opened[bidirectional] += 1
        return stream_id

    def write(self, stream_id: int, data: bytes, end: bool = False) -> None:
        self._actions.append(WriteStream(stream_id, data, end))

    def datagram(self, data: bytes, token: int = 0) -> None:
        self._actions.append(SendDatagram(data, token))

    def reset(self, stream_id: int, code: int) -> None:
        self._actions.append(ResetStream(stream_id, code))

    def stop(self, stream_id: int, code: int) -> None:
        self._actions.append(StopStream(stream_id, code))

    def close(self, code: int, reason: str, origin: CloseOrigin = CloseOrigin.APPLICATION) -> None:
        self._actions.append(CloseLink(code, reason, origin))

    def consume_owed(self) -> None:
        """Consume all that was kept back (``consumes=False``)."""
        self._actions += self.owed
        self.owed = []

    @property
    def received(self) -> int:
        return sum(self.streams.values())

    def _bytes(self, stream_id: int, data: bytes, end: bool) -> None:
        self.streams[stream_id] = self.streams.get(stream_id, 0) + len(data)
        self.digests.setdefault(stream_id, hashlib.sha256()).update(data)
        if end:
            self.ended.add(stream_id)
        (self._actions if self.consumes else self.owed).append(Consumed(stream_id, len(data)))
        if self.echoes:
            if stream_id not in self._partners:
                both = is_bidirectional(stream_id)
                if both and is_client(stream_id) == self.client:
                    return  # the answer on one of ours
                self._partners[stream_id] = stream_id if both else self.open()
            self.write(self._partners[stream_id], data, end)
