"""Credit for the bytes of streams: it goes back when they are done with, and for the beginning of a
message before that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Stream:
    """``held``: bytes of messages that the application has. ``advanced``: of those that are not
    consumed yet, credited already."""

    held: int = 0
    advanced: int = 0


class StreamCredits:
    """What the streams of a connection have been given credit for, and what not yet.

    A message is read when all of it is here, and may be longer than the flow control of its stream
    allows, or than what other streams leave of that of the connection: its peer would wait for
    credit, and we for its end. So bytes of a message that is not whole are credited by `advance`,
    as long as nothing else of the stream waits to be consumed; and they are not credited again
    later. Who reads slowly holds its peer back all the same: at most one message is ahead.

    Args:
        give: gives credit for so many bytes of a stream, never 0.
    """

    def __init__(self, give: Callable[[int, int], None]) -> None:
        self._give = give
        self._streams: dict[int, _Stream] = {}

    def hold(self, stream: int, size: int) -> None:
        """The application has so many bytes more, and is going to consume them."""
        self._streams.setdefault(stream, _Stream()).held += size

    def consume(self, stream: int, size: int) -> None:
        """So many bytes are done with, which no application had."""
        credit = self._streams.get(stream)
        if credit is not None:
            repaid = min(credit.advanced, size)
            credit.advanced -= repaid
            size -= repaid
            if not credit.held and not credit.advanced:
                del self._streams[stream]
        if size:
            self._give(stream, size)

    def release(self, stream: int, size: int) -> None:
        """The application has consumed so many of the bytes that it had."""
        credit = self._streams.get(stream)
        if credit is not None:
            credit.held = max(0, credit.held - size)
        self.consume(stream, size)

    def advance(self, stream: int, pending: int) -> None:
        """So many bytes of a message are here that is not whole."""
        credit = self._streams.setdefault(stream, _Stream())
        if not credit.held and pending > credit.advanced:
            given, credit.advanced = pending - credit.advanced, pending
            self._give(stream, given)
