"""What one channel sends: reliably, kept until acked and sent again at most once a second each; or
not, and gone when it was sent."""

from __future__ import annotations

from collections import deque

from aqueduct_core.telehash.config import MAX_SEQ
from aqueduct_core.telehash.faults import SequenceExhausted

RESEND_INTERVAL = 1.0
"""Seconds between two times that a packet is sent again, however often it is asked for (T13)."""
PROBE_INTERVAL = 2.0
"""Seconds without an ack after which the last packet is sent again, unasked (T16)."""
PACKET_BYTES = 300
"""Memory of a packet that is kept, beside its bytes."""


class OutgoingPacket:
    """A packet with content; ``fields`` and ``body`` are the same each time it is sent (T15), and
    have ``size`` bytes with all else, at most."""

    __slots__ = ("body", "fields", "resent_at", "sent_at", "seq", "size")

    def __init__(self, seq: int, fields: bytes, body: bytes, size: int) -> None:
        self.seq = seq
        self.fields = fields
        self.body = body
        self.size = size
        self.sent_at = 0.0
        self.resent_at: float | None = None

    def may_go_at(self) -> float:
        """When it may be sent again at the earliest (T13); the first time, at once."""
        return 0.0 if self.resent_at is None else self.resent_at + RESEND_INTERVAL


class SendingHalf:
    """Numbers packets, keeps them until they are acked, and says which one goes next.

    Holds: ``acked <= sent <= next_seq``; below ``acked`` the peer has processed all (T9), below
    ``sent`` all have gone to the link at least once, and from ``acked`` on all are kept (T4).

    Args:
        window: packets that may be kept.
        timeout: seconds; see `tick`.
    """

    __slots__ = (
        "_packets",
        "_progress_at",
        "_resend",
        "_timeout",
        "_wanted",
        "_window",
        "acked",
        "ended",
        "next_seq",
        "sent",
        "size",
    )  # fmt: skip

    def __init__(self, window: int, timeout: float) -> None:
        self.acked = 0
        self.sent = 0
        self.next_seq = 0
        self.ended = False
        self.size = 0
        self._packets: dict[int, OutgoingPacket] = {}
        self._resend: dict[int, None] = {}  # to go again now
        self._wanted: set[int] = set()  # the same, when their second is over
        self._window = window
        self._timeout = timeout
        self._progress_at = 0.0

    @property
    def unacked(self) -> int:
        return len(self._packets)

    @property
    def room(self) -> int:
        """Packets that may be added now."""
        return 0 if self.ended else max(0, self._window - len(self._packets))

    @property
    def complete(self) -> bool:
        """Our end, and all before it, was processed by the peer (T17)."""
        return self.ended and not self._packets

    @property
    def ready(self) -> bool:
        """Whether a packet is to go now."""
        return self.sent < self.next_seq or bool(self._resend)

    def check(self, *, end: bool) -> None:
        """Whether a packet may have the next number (T3).

        Raises:
            SequenceExhausted: only an end may.
        """
        if self.next_seq == MAX_SEQ and not end:
            raise SequenceExhausted(f"only an end may have the number {MAX_SEQ}")

    def add(self, fields: bytes, body: bytes, size: int, *, end: bool) -> int:
        """A packet with the next number, which it gives."""
        seq, self.next_seq = self.next_seq, self.next_seq + 1
        self._packets[seq] = OutgoingPacket(seq, fields, body, size)
        self.size += PACKET_BYTES + size
        self.ended = end
        return seq

    def take(self, now: float) -> OutgoingPacket | None:
        """The packet that is to go now, which counts as sent; those asked for first."""
        if self._resend:
            seq = next(iter(self._resend))
            del self._resend[seq]
            self._wanted.discard(seq)
            packet = self._packets[seq]
            packet.resent_at = packet.sent_at = now
            return packet
        if self.sent == self.next_seq:
            return None
        if self.sent == self.acked:
            self._progress_at = now
        packet = self._packets[self.sent]
        packet.sent_at = now
        self.sent += 1
        return packet

    def peek(self) -> OutgoingPacket | None:
        """The packet that `take` will give."""
        return self._packets.get(next(iter(self._resend), self.sent))

    def on_ack(self, ack: int, now: float) -> bool:
        """All up to ``ack`` were processed; whether that is new. An older one changes nothing (T6).

        The peer acks only what was sent: the caller has looked.
        """
        if ack < self.acked:
            return False
        for seq in range(self.acked, ack + 1):
            self.size -= PACKET_BYTES + self._packets.pop(seq).size
            self._resend.pop(seq, None)
            self._wanted.discard(seq)
        self.acked = ack + 1
        self._progress_at = now
        return True

    def on_miss(self, miss: list[int], now: float) -> None:
        """The peer misses these: they go again, at once or when their second is over (T12, T13).

        Those that are acked, or were never sent, are passed over.
        """
        for seq in miss:
            if self.acked <= seq < self.sent:
                if self._packets[seq].may_go_at() <= now:
                    self._resend[seq] = None
                else:
                    self._wanted.add(seq)

    @property
    def due(self) -> float | None:
        """When `tick` is wanted; None: nothing is under way."""
        if self.acked == self.sent:
            return None
        due = self._progress_at + self._timeout
        for seq in (self.acked, self.sent - 1):
            if seq not in self._resend:
                due = min(due, self._packets[seq].sent_at + PROBE_INTERVAL)
        for seq in self._wanted:
            due = min(due, self._packets[seq].may_go_at())
        return due

    def tick(self, now: float) -> bool:
        """Have packets go again that it is time for; False: the peer has acked nothing for so long
        that the channel fails (T16).

        Of those that nobody asked for: the last (T16), and the first, which a receiver that keeps
        nothing out of order, or asks only once, needs to go on. The very first also has the type.
        """
        if self.acked == self.sent:
            return True
        if now >= self._progress_at + self._timeout:
            return False
        for seq in (self.acked, self.sent - 1):
            if now >= self._packets[seq].sent_at + PROBE_INTERVAL:
                self._resend[seq] = None
        for seq in sorted(self._wanted):
            if now >= self._packets[seq].may_go_at():
                self._wanted.discard(seq)
                self._resend[seq] = None
        return True

    def clear(self) -> None:
        """Nothing of it is sent any more."""
        self._packets.clear()
        self._resend.clear()
        self._wanted.clear()
        self.sent = self.next_seq = self.acked
        self.ended = True
        self.size = 0


class UnreliableQueue:
    """What waits for the link of a channel without numbers, at most ``window`` packets."""

    __slots__ = ("_packets", "_window", "ended", "size")

    def __init__(self, window: int) -> None:
        self.ended = False
        self.size = 0
        self._packets: deque[OutgoingPacket] = deque()
        self._window = window

    @property
    def unacked(self) -> int:
        return len(self._packets)

    @property
    def room(self) -> int:
        return 0 if self.ended else max(0, self._window - len(self._packets))

    @property
    def complete(self) -> bool:
        return self.ended and not self._packets

    @property
    def ready(self) -> bool:
        return bool(self._packets)

    def add(self, fields: bytes, body: bytes, size: int, *, end: bool) -> None:
        self._packets.append(OutgoingPacket(0, fields, body, size))
        self.size += PACKET_BYTES + size
        self.ended = end

    def take(self, now: float) -> OutgoingPacket | None:
        if not self._packets:
            return None
        packet = self._packets.popleft()
        self.size -= PACKET_BYTES + packet.size
        return packet

    def peek(self) -> OutgoingPacket | None:
        return self._packets[0] if self._packets else None

    def clear(self) -> None:
        self._packets.clear()
        self.ended = True
        self.size = 0
