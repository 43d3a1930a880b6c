"""What of a producer's messages has no ack yet: one buffer for each reliable channel."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.primitives.ranges import RangeSet

OVERHEAD_BYTES = 64
"""What a message costs apart from its payload and headers, about."""


class ResendEntry(NamedTuple):
    number: int
    payload: bytes
    headers: Headers

    @property
    def size(self) -> int:
        return size_of(self.payload, self.headers)


def size_of(payload: bytes, headers: Headers) -> int:
    """Bytes that a message takes in the buffer."""
    return OVERHEAD_BYTES + len(payload) + sum(len(key) + len(value) for key, value in headers)


class ResendBuffer:
    """Messages by logical number, kept until they and all before them are acked.

    Holds: everything below ``low`` is acked or was skipped, and is gone; then come the messages
    that the present connection was given, and then those that wait. An acked message above an
    un-acked one is kept: numbers of a channel have no holes, so it goes out again with the others
    after a reconnect, and a receiver that knows its number drops it.
    """

    def __init__(self, start: int = 0) -> None:
        self.acked = RangeSet()
        self.skipped = RangeSet()
        self._settled = RangeSet()
        self.start = start
        self.low = start
        self.next = start
        self._given: deque[ResendEntry] = deque()
        self._waiting: deque[ResendEntry] = deque()

    def __len__(self) -> int:
        return len(self._given) + len(self._waiting)

    @property
    def sent(self) -> int:
        return self.next - self.start - self.skipped.count

    @property
    def upcoming(self) -> int:
        """The number of the message that goes to the present connection next."""
        return self._waiting[0].number if self._waiting else self.next

    def skip(self, number: int) -> None:
        """The numbers from the next one up to ``number`` (exclusive) will never be sent."""
        self.skipped.add(self.next, number)
        self._settled.add(self.next, number)
        self.next = number
        self.low = self._settled.lowest_missing(self.low)

    def add(self, payload: bytes, headers: Headers) -> ResendEntry:
        """Keep a new message under the next number."""
        entry = ResendEntry(self.next, payload, headers)
        self._waiting.append(entry)
        self.next += 1
        return entry

    def take(self, size: int) -> list[ResendEntry]:
        """The next messages for the present connection: one at least, up to ``size`` bytes,
        without a hole, and all of them with headers or all without."""
        taken: list[ResendEntry] = []
        waiting = self._waiting
        at = self.upcoming
        while (
            waiting
            and size > 0
            and waiting[0].number == at + len(taken)
            and bool(waiting[0].headers) is bool((taken or waiting)[0].headers)
        ):
            entry = waiting.popleft()
            size -= entry.size
            taken.append(entry)
        self._given.extend(taken)
        return taken

    def ack(self, first: int, stop: int) -> int:
        """Messages ``first`` to ``stop`` are stored; the bytes that are free by that."""
        self.acked.add(first, stop)
        self._settled.add(first, stop)
        self.low = self._settled.lowest_missing(self.low)
        freed = 0
        while self._given and self._given[0].number < self.low:
            freed += self._given.popleft().size
        return freed

    def rewind(self) -> int:
        """A new connection: everything kept waits again; how many were given before."""
        again = len(self._given)
        self._waiting.extendleft(reversed(self._given))
        self._given.clear()
        return again
