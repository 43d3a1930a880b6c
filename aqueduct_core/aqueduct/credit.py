"""What goes back to the peer for what the application has consumed: transport credit for every
byte of its streams (``ReceiveCredit``), and DEQUEUED for messages (``UnreportedCredit``).

Every byte of a stream comes back exactly once: at once, unless it belongs to a whole MESSAGE
that goes to the application; then when the application has consumed it, or when its channel
ended and the queue was thrown away.
"""

from __future__ import annotations

from collections import deque

from aqueduct_core.aqueduct.outbox import Outbox

DATAGRAM = -1
"""In place of a stream: datagrams have no transport credit."""


class ReceiveCredit:
    """Bytes that the application holds, by channel, with the streams they came on.

    ``queued(channel)`` and ``total`` count MESSAGE frame bytes delivered and not consumed;
    ``pieces`` are the batches and changes of stream among them: each costs about half a KiB, also
    where a peer gives every message of one byte a stream and a burst of its own (H5).
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._owed: dict[int, deque[list[int]]] = {}  # [stream, frame bytes, bytes to give back]
        self._queued: dict[int, int] = {}
        self.pieces = 0
        self.total = 0

    def queued(self, channel: int) -> int:
        return self._queued.get(channel, 0)

    def pieces_of(self, channel: int) -> int:
        return len(self._owed.get(channel, ()))

    def delivered(
        self, channel: int, stream_id: int, *, size: int, credit: int, new_batch: bool = False
    ) -> int:
        """``size`` bytes of MESSAGEs went to the application, or wait for it; ``credit`` of them
        were not given back yet. How many pieces it makes more: one or none."""
        owed = self._owed.get(channel)
        if owed is None:
            owed = self._owed[channel] = deque()
        self._queued[channel] = self._queued.get(channel, 0) + size
        self.total += size
        if owed and owed[-1][0] == stream_id and not new_batch:
            owed[-1][1] += size
            owed[-1][2] += credit
            return 0
        owed.append([stream_id, size, credit])
        self.pieces += 1
        return 1

    def consumed(self, channel: int, size: int) -> int:
        """The application is done with ``size`` more bytes; more than was delivered is ignored.
        How many count."""
        owed = self._owed.get(channel)
        if owed is None:
            return 0
        size = counted = min(size, self._queued[channel])
        self._queued[channel] -= size
        self.total -= size
        while size:
            entry = owed[0]
            stream_id, left, credit = entry
            took = min(size, left)
            give = min(took, credit)
            if stream_id != DATAGRAM:
                self._outbox.consumed(stream_id, give)
            size -= took
            if took == left:
                owed.popleft()
                self.pieces -= 1
            else:
                entry[1] = left - took
                entry[2] = credit - give
        if not owed:
            del self._owed[channel], self._queued[channel]
        return counted

    def thrown_away(self, channel: int) -> None:
        """The channel ended and nothing of its queue will be used: give all of it back."""
        self.consumed(channel, self.queued(channel))


class UnreportedCredit:
    """Bytes of one channel that the application is done with and that no DEQUEUED has reported.

    A nacked message gives nothing back, for its sender takes it off by itself (AQ-FLOW-4). With
    acks on storage the application may be done with a datagram message before it is decided
    whether that is acked; so *undecided* bytes, and those that were refused, are kept out.
    """

    __slots__ = ("_sizes", "_undecided", "gathered")

    def __init__(self) -> None:
        self.gathered = 0
        self._undecided = 0
        self._sizes: dict[int, int] = {}  # of the datagram messages whose ack is open

    def arrived(self, number: int, size: int) -> None:
        """A datagram message came whose ack depends on the application."""
        self._sizes[number] = size
        self._undecided += size

    def acked(self, first: int, stop: int) -> None:
        """Datagram messages ``[first, stop)``, which all came, are acked."""
        if self._sizes:
            for number in range(first, stop):
                self._undecided -= self._sizes.pop(number, 0)

    def refused(self, first: int, stop: int) -> None:
        """They came and will be nacked: their bytes never go back."""
        if self._sizes:
            for number in range(first, stop):
                del self._sizes[number]

    def take(self, queued: int) -> int:
        """The bytes to give back now, while the application has ``queued`` more to use."""
        count = max(0, self.gathered - max(0, self._undecided - queued))
        self.gathered -= count
        return count
