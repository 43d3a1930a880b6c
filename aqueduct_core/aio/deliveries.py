"""What a sender knows of its messages: numbers given, acked, nacked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from aqueduct_core.primitives.ranges import RangeSet


@dataclass(frozen=True, slots=True)
class SenderStatistics:
    """Totals of a sender. ``sent`` = ``acked`` + ``nacked`` + ``pending``.

    The reliable ones of them are counted apart: those a good end has all acked.
    """

    sent: int
    acked: int
    nacked: int
    reliable_sent: int
    reliable_acked: int

    @property
    def pending(self) -> int:
        return self.sent - self.acked - self.nacked


class DeliveryMark(NamedTuple):
    """How far both number spaces had come at some moment."""

    reliable: int
    unreliable: int


class NumberSpace:
    """One number space of a channel (AQ-SEND-4).

    Holds: the numbers from 0 to ``next`` were sent; those in ``known`` have an outcome. ``base``
    is the number of the first message on the network: over 0 where a channel was local first.
    """

    __slots__ = ("base", "known", "nacked", "next")

    def __init__(self) -> None:
        self.base = 0
        self.next = 0
        self.nacked = 0
        self.known = RangeSet()

    def settle(self, first: int, stop: int, acked: bool) -> None:
        fresh = self.known.add(first, stop)
        if not acked:
            self.nacked += sum(b - a for a, b in fresh)

    def rewind(self, count: int) -> None:
        """The last ``count`` messages, counted as acked, are to be sent once more."""
        self.known.remove(self.next - count, self.next)
        self.next -= count
        self.base = self.next

    def nack_rest(self) -> None:
        self.settle(0, self.next, acked=False)

    @property
    def open(self) -> int:
        return self.next - self.known.count

    @property
    def acked(self) -> int:
        return self.known.count - self.nacked


class Deliveries:
    """Both number spaces of a sender, in the numbers that its application sees.

    Messages without a number yet are counted as they come: ``entered`` of them, ``left`` of
    these got a number or were ``dropped``, which counts as nacked.
    """

    __slots__ = ("dropped", "entered", "left", "reliable", "unreliable")

    def __init__(self) -> None:
        self.reliable = NumberSpace()
        self.unreliable = NumberSpace()
        self.entered = 0
        self.left = 0
        self.dropped = 0

    @property
    def waiting(self) -> int:
        return self.entered - self.left

    def wait(self, count: int) -> None:
        """Messages are on their way without a number."""
        self.entered += count

    def leave(self, count: int) -> None:
        """The oldest of those are about to get one."""
        self.left += count

    def drop(self, count: int) -> None:
        """The oldest of those will not go."""
        self.left += count
        self.dropped += count

    def space(self, reliable: bool) -> NumberSpace:
        return self.reliable if reliable else self.unreliable

    def sent(self, reliable: bool, number: int | None, count: int = 1) -> int:
        """Count messages that left, from ``number`` on there; the number of the first here.

        ``number`` is None where the engine will number the message later: numbers of a space
        are given in order, so it is the next one.
        """
        space = self.space(reliable)
        first = space.next if number is None else space.base + number
        space.next = max(space.next, first + count)
        return first

    def rerouted(self, datagram: int, reliable: int) -> None:
        """A message was refused as datagram and went as a reliable one (AQ-SEND-5)."""
        self.unreliable.next = self.unreliable.base + datagram
        self.sent(True, reliable)

    def settle(self, reliable: bool, first: int, stop: int, acked: bool) -> tuple[int, int]:
        """Messages ``first`` to ``stop`` of the channel have an outcome; their numbers here."""
        space = self.space(reliable)
        space.settle(space.base + first, space.base + stop, acked)
        return space.base + first, space.base + stop

    def nack_rest(self) -> int:
        """Every message without an outcome is nacked (AQ-LIFE-13); how many these were."""
        rest = self.open
        self.drop(self.waiting)
        self.reliable.nack_rest()
        self.unreliable.nack_rest()
        return rest

    @property
    def open(self) -> int:
        """Messages without an outcome."""
        return self.reliable.open + self.unreliable.open + self.waiting

    @property
    def total(self) -> int:
        return self.reliable.next + self.unreliable.next + self.waiting + self.dropped

    def mark(self) -> DeliveryMark:
        return DeliveryMark(self.reliable.next, self.unreliable.next)

    def reached(self, mark: DeliveryMark) -> bool:
        """Whether every message up to ``mark`` has an outcome."""
        return self.reliable.known.covers(0, mark.reliable) and self.unreliable.known.covers(
            0, mark.unreliable
        )

    def statistics(self) -> SenderStatistics:
        return SenderStatistics(
            self.total,
            self.reliable.acked + self.unreliable.acked,
            self.reliable.nacked + self.unreliable.nacked + self.dropped,
            self.reliable.next,
            self.reliable.acked,
        )
