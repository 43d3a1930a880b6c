"""What waits for the link: failures first, then acks, then content of the channels in turn.

A packet is made when it goes, with the newest ack (T6, T15); so no more is handed to the link than
its room, where a newer one could not overtake it.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from aqueduct_core.engine.actions import Action, SendDatagram
from aqueduct_core.engine.inputs import DatagramFate, DatagramOutcome

MAX_URGENT = 1_024
"""Packets that wait ahead of all channels. Each answers one of the peer's, or is a failure of a
channel; what comes on top is as if it were lost."""


class PacketSource(Protocol):
    """A channel, to who sends for it."""

    number: int

    def next_size(self) -> int | None:
        """Bytes of the next packet with content, at most; None: there is none."""

    def next_packet(self, now: float, limit: int) -> bytes:
        """The next packet with content, of at most ``limit`` bytes."""

    def ack_packet(self, now: float, limit: int) -> bytes | None:
        """One without content; None: there is nothing to ack."""


class PacketEgress:
    """``oversized``: channels whose next packet does not fit any more, as the path carries less
    than before."""

    def __init__(self, max_packet: int, write_ahead: int) -> None:
        self.ready = False
        self.limit = self._max_packet = max_packet
        self.oversized: list[int] = []
        self.urgent_bytes = 0
        self._write_ahead = self._room = write_ahead
        self._room_known = False
        self._in_link: deque[tuple[int, int]] = deque()  # tokens and sizes
        self._in_link_bytes = 0
        self._tokens = 0
        self._urgent: deque[bytes] = deque()
        self._acks: dict[int, PacketSource] = {}
        self._turns: dict[int, PacketSource] = {}
        self._out: list[Action] = []

    # what the link says

    def on_limit(self, max_datagram: int) -> None:
        """What fits a packet, of which a carrier may know more in time."""
        self.limit = min(self._max_packet, max_datagram)

    def on_room(self, size: int) -> None:
        self._room_known = True
        self._room = min(size, self._write_ahead)

    def on_outcome(self, outcome: DatagramOutcome) -> None:
        token, fate = outcome
        queue = self._in_link
        if fate is DatagramFate.LEFT:
            while queue and queue[0][0] <= token:
                self._in_link_bytes -= queue.popleft()[1]
        elif fate is DatagramFate.REFUSED:
            for index, (refused, size) in enumerate(queue):
                if refused == token:
                    del queue[index]
                    self._in_link_bytes -= size
                    break

    # what the channels say

    def urgent(self, data: bytes) -> None:
        """A packet that goes ahead of all others."""
        if len(self._urgent) < MAX_URGENT:
            self._urgent.append(data)
            self.urgent_bytes += len(data)

    def want_ack(self, source: PacketSource) -> None:
        """An ack is to go now, with content or without."""
        self._acks[source.number] = source

    def want(self, source: PacketSource) -> None:
        """It has content, behind all that want a turn already."""
        self._turns.setdefault(source.number, source)

    def acked(self, number: int) -> None:
        """What was to be acked has gone with something else."""
        self._acks.pop(number, None)

    def forget(self, number: int) -> None:
        self._acks.pop(number, None)
        self._turns.pop(number, None)

    def clear(self) -> None:
        self._urgent.clear()
        self.urgent_bytes = 0
        self._acks.clear()
        self._turns.clear()

    # turns

    def actions(self, now: float) -> list[Action]:
        """What has to be sent now."""
        if self.ready and (self._urgent or self._acks or self._turns):
            self._pump(now)
        taken, self._out = self._out, []
        return taken

    def _pump(self, now: float) -> None:
        urgent, acks, turns = self._urgent, self._acks, self._turns
        while urgent and self._may_send(len(urgent[0])):
            data = urgent.popleft()
            self.urgent_bytes -= len(data)
            self._send(data)
        while acks and self._may_send(self.limit):
            number = next(iter(acks))
            source = acks.pop(number)
            if number in turns and self._content(source, now):
                continue
            packet = source.ack_packet(now, self.limit)
            if packet is not None:
                self._send(packet)
        while turns and self._may_send(self.limit):
            number = next(iter(turns))
            source = turns.pop(number)
            if self._content(source, now) and source.next_size() is not None:
                turns[number] = source

    def _content(self, source: PacketSource, now: float) -> bool:
        size = source.next_size()
        if size is None:
            return False
        if size > self.limit:
            self.oversized.append(source.number)
            return False
        self._send(source.next_packet(now, self.limit))
        return True

    def _may_send(self, size: int) -> bool:
        return not self._in_link or self._in_link_bytes + size <= self._room

    def _send(self, data: bytes) -> None:
        self._tokens = token = self._tokens + 1
        if self._room_known:
            self._in_link.append((token, len(data)))
            self._in_link_bytes += len(data)
        self._out.append(SendDatagram(data, token))
