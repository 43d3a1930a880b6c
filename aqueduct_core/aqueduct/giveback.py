"""What a receiver may give back with DEQUEUED (AQ-FLOW-6)."""

from __future__ import annotations


class UnreportedCredit:
    """Bytes of one channel that the application is done with and the sender was not told of.

    A nacked message gives nothing back, for its sender takes it off by itself (AQ-FLOW-4). With
    acks on storage the application may be done with a datagram message before it is decided
    whether that is acked; so bytes *in doubt*, and those that were refused, are kept out.
    """

    __slots__ = ("_doubtful", "_sizes", "gathered")

    def __init__(self) -> None:
        self.gathered = 0
        self._doubtful = 0
        self._sizes: dict[int, int] = {}  # of the datagram messages whose ack is open

    def doubt(self, number: int, size: int) -> None:
        """A datagram message came whose ack depends on the application."""
        self._sizes[number] = size
        self._doubtful += size

    def acked(self, first: int, stop: int) -> None:
        """Datagram messages ``[first, stop)``, which all came, are acked."""
        if self._sizes:
            for number in range(first, stop):
                self._doubtful -= self._sizes.pop(number, 0)

    def refused(self, first: int, stop: int) -> None:
        """They came and will be nacked: their bytes never go back."""
        if self._sizes:
            for number in range(first, stop):
                del self._sizes[number]

    def take(self, queued: int) -> int:
        """The bytes to give back now, while the application has ``queued`` more to use."""
        count = max(0, self.gathered - max(0, self._doubtful - queued))
        self.gathered -= count
        return count
