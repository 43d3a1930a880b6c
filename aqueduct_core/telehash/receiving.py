"""What one channel receives: in order and each once where it is reliable, in runs (T5, T7)."""

from __future__ import annotations

import numpy as np

from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.telehash.config import MAX_UNACKED
from aqueduct_core.telehash.events import PacketBatch
from aqueduct_core.telehash.faults import PacketFault
from aqueduct_core.telehash.wire.channel_packets import ChannelPacket

PACKET_BYTES = 400
"""Memory of a packet that waits, beside its bytes."""


class BufferedBytes:
    """Of all channels of a line: packets that wait for one that is missing, at most ``most``; and
    those that wait for `TelehashEngine.events`."""

    __slots__ = ("delivering", "most", "waiting")

    def __init__(self, most: int) -> None:
        self.most = most
        self.waiting = 0
        self.delivering = 0


class ReceivingHalf:
    """Holds: ``done <= next_seq``; below ``done`` the application has processed all (T6), below
    ``next_seq`` it was given all, and what waits is above.

    Args:
        window: packets from ``done`` on that may be here.
    """

    __slots__ = (
        "_buffered",
        "_channel",
        "_js",
        "_out_of_order",
        "_payloads",
        "_run_end",
        "_run_size",
        "_stop",
        "_waiting",
        "_window",
        "acked",
        "done",
        "end_seq",
        "next_seq",
    )  # fmt: skip

    def __init__(self, channel: int, window: int, buffered: BufferedBytes) -> None:
        self.done = 0
        self.acked = 0
        """What of ``done`` the peer was sent as an ack."""
        self.next_seq = 0
        self.end_seq: int | None = None
        self._channel = channel
        self._window = window
        self._buffered = buffered
        self._waiting: dict[int, ChannelPacket] = {}
        self._stop = 0  # behind the highest that came
        self._out_of_order = RangeSet()  # processed above ``done``
        self._payloads: list[bytes] = []
        self._js: list[bytes | None] = []
        self._run_size = 0
        self._run_end = False

    @property
    def has_gap(self) -> bool:
        """Whether a packet is known to be missing."""
        return bool(self._waiting)

    @property
    def ended(self) -> bool:
        """The peer's end was given to the application."""
        return self.end_seq is not None and self.next_seq > self.end_seq

    @property
    def processed(self) -> bool:
        """The application is done with all that came, and nothing is known to be missing."""
        return self.done == self.next_seq and not self._waiting

    def take(self, packet: ChannelPacket, seq: int) -> PacketFault | None:
        """A packet with a number; why it is dropped, if it is. One that was here before is dropped
        without a fault: its ack was lost (T5)."""
        if seq < self.next_seq or seq in self._waiting:
            return None
        if seq >= self.done + self._window:
            return PacketFault.BEYOND_WINDOW
        if self.end_seq is not None and seq > self.end_seq:
            return PacketFault.BEHIND_END
        if seq > self.next_seq:
            return self._keep(packet, seq)
        self._give(packet)
        while self._waiting:
            following = self._waiting.pop(self.next_seq, None)
            if following is None:
                break
            self._buffered.waiting -= PACKET_BYTES + following.size
            self._give(following)
        return None

    def take_unreliable(self, packet: ChannelPacket) -> None:
        """A packet without a number: given as it comes."""
        self._give(packet)

    def _keep(self, packet: ChannelPacket, seq: int) -> PacketFault | None:
        size = PACKET_BYTES + packet.size
        if self._buffered.waiting + size > self._buffered.most:
            return PacketFault.NO_ROOM
        self._buffered.waiting += size
        self._waiting[seq] = packet
        if seq >= self._stop:
            self._stop = seq + 1
        if packet.end:
            self._end_at(seq)
        return None

    def _end_at(self, seq: int) -> None:
        """Nothing behind the end is content, whatever came of it before (T18)."""
        if self.end_seq is None or seq < self.end_seq:
            self.end_seq = seq
            for later in [each for each in self._waiting if each > seq]:
                self._buffered.waiting -= PACKET_BYTES + self._waiting.pop(later).size
            self._stop = min(self._stop, seq + 1)

    def _give(self, packet: ChannelPacket) -> None:
        if packet.end:
            self._end_at(self.next_seq)
            self._run_end = True
        self.next_seq += 1
        self._payloads.append(packet.body)
        self._js.append(packet.js)
        size = PACKET_BYTES + packet.size
        self._run_size += size
        self._buffered.delivering += size

    def batch(self, *, reliable: bool) -> PacketBatch | None:
        """Take what came in order since the last call."""
        count = len(self._payloads)
        if not count:
            return None
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum([len(each) for each in self._payloads], out=offsets[1:])
        batch = PacketBatch(
            self._channel,
            reliable,
            self.next_seq - count,
            count,
            b"".join(self._payloads),
            offsets,
            self._run_size - PACKET_BYTES * count,
            js=self._js,
            end=self._run_end,
        )
        self._buffered.delivering -= self._run_size
        self._payloads, self._js, self._run_size, self._run_end = [], [], 0, False
        return batch

    def missing(self) -> list[int]:
        """The numbers that are known to be missing, in order, at most 100 of them (T11, T12)."""
        if not self._waiting:
            return []
        missing = []
        for seq in range(self.next_seq, self._stop):
            if seq not in self._waiting:
                missing.append(seq)
                if len(missing) == MAX_UNACKED:
                    break
        return missing

    def process(self, first: int, stop: int) -> bool:
        """The application is done with ``[first, stop)`` of what it was given; whether ``done`` has
        moved, which it does in order."""
        stop = min(stop, self.next_seq)
        if first > self.done:
            self._out_of_order.add(first, stop)
            return False
        if stop <= self.done:
            return False
        if self._out_of_order:
            self._out_of_order.add(self.done, stop)
            stop = self._out_of_order.lowest_missing(self.done)
            self._out_of_order.remove(0, stop)
        self.done = stop
        return True

    def clear(self) -> None:
        """What waits will not be given any more."""
        for packet in self._waiting.values():
            self._buffered.waiting -= PACKET_BYTES + packet.size
        self._waiting.clear()
