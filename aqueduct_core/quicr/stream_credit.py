"""Credit for the bytes of streams: it goes back when they are done with, and for the beginning of a
message before that."""

from __future__ import annotations


class StreamCredit:
    """What one stream has been given credit for, and what not yet.

    A message is read when all of it is here, and may be longer than the flow control of the stream
    allows, or than what other streams leave of that of the connection: its peer would wait for
    credit, and we for its end. So bytes of a message that is not whole are credited in ``advance``,
    as long as nothing else of the stream waits to be consumed; and they are not credited again
    later. Who reads slowly holds its peer back all the same: at most one message is ahead.
    """

    __slots__ = ("_advanced", "_held")

    def __init__(self) -> None:
        self._held = 0  # bytes of messages that the application has
        self._advanced = 0  # of those that are not consumed yet, credited already

    @property
    def settled(self) -> bool:
        """There is nothing to remember."""
        return not self._held and not self._advanced

    def hold(self, size: int) -> None:
        """The application has so many bytes more, which it will consume."""
        self._held += size

    def release(self, size: int) -> int:
        """The application has consumed so many of them; the credit to give now."""
        self._held = max(0, self._held - size)
        return self.consume(size)

    def consume(self, size: int) -> int:
        """So many bytes are done with that no application has; the credit to give now."""
        repaid = min(self._advanced, size)
        self._advanced -= repaid
        return size - repaid

    def advance(self, pending: int) -> int:
        """So many bytes of a message are here that is not whole; the credit to give now."""
        if self._held or pending <= self._advanced:
            return 0
        given, self._advanced = pending - self._advanced, pending
        return given
