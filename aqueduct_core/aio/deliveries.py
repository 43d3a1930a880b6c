"""What a sender knows of its messages: numbers given, acked, nacked, and who waits for one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

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


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """What became of one message.

    Attributes:
        number: as ``send`` returns it.
        acked: the receiver has it, which at an intake means that it is stored. False: it is nacked,
            and will not be received any more.
        reason: why it was nacked; empty where it was acked.
    """

    number: int
    acked: bool
    reason: str = ""


Verdict: TypeAlias = "asyncio.Future[bool | None]"
"""Of one message: acked or nacked; None where its channel ended before either was known."""


class DeliveryMark(NamedTuple):
    """How far both number spaces had come at some moment."""

    reliable: int
    unreliable: int


class NumberSpace:
    """One number space of a channel (AQ-SEND-4).

    Holds: the numbers from 0 to ``next`` were sent; those in ``known`` have an outcome. ``base``
    is the number of the first message on the network: over 0 where a channel was local first.
    ``awaited`` has those without an outcome for which somebody waits.
    """

    __slots__ = ("awaited", "base", "known", "nacked", "next")

    def __init__(self) -> None:
        self.base = 0
        self.next = 0
        self.nacked = 0
        self.known = RangeSet()
        self.awaited: dict[int, Verdict] = {}

    def settle(self, first: int, stop: int, acked: bool) -> None:
        fresh = self.known.add(first, stop)
        if not acked:
            self.nacked += sum(b - a for a, b in fresh)
        if self.awaited:
            few = len(self.awaited) < stop - first
            numbers = list(self.awaited) if few else range(first, stop)
            for number in numbers:
                if first <= number < stop and number in self.awaited:
                    _resolve(self.awaited.pop(number), acked)

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
    these got a number or were ``dropped``, which counts as nacked. ``latest`` is the space and
    number of the last message, None where it has no number yet; ``_awaited`` are those of these for
    which somebody waits, by how many had entered with them.
    """

    __slots__ = ("_awaited", "dropped", "entered", "latest", "left", "reliable", "unreliable")

    def __init__(self) -> None:
        self.reliable = NumberSpace()
        self.unreliable = NumberSpace()
        self.entered = 0
        self.left = 0
        self.dropped = 0
        self.latest: tuple[bool, int] | None = None
        self._awaited: dict[int, Verdict] = {}

    @property
    def waiting(self) -> int:
        return self.entered - self.left

    def wait(self, count: int) -> None:
        """Messages are on their way without a number."""
        self.entered += count
        self.latest = None

    def leave(self, count: int) -> None:
        """The oldest of those are about to get one."""
        self.left += count

    def drop(self, count: int) -> None:
        """The oldest of those will not go."""
        for verdict in self._leaving(count):
            if verdict is not None:
                _resolve(verdict, False)
        self.left += count
        self.dropped += count

    def number(self, reliable: bool, number: int, count: int) -> None:
        """The oldest of those left, from ``number`` on there."""
        verdicts = self._leaving(count)
        self.left += count
        first = self.sent(reliable, number, count)
        for i, verdict in enumerate(verdicts):
            if verdict is not None:
                self.space(reliable).awaited[first + i] = verdict

    def _leaving(self, count: int) -> list[Verdict | None]:
        """Who waits for each of the oldest ones."""
        if not self._awaited:
            return []
        return [self._awaited.pop(self.left + 1 + i, None) for i in range(count)]

    def await_latest(self, verdict: Verdict) -> None:
        """Tell what became of the message that was sent last, now or when it is known."""
        if self.latest is None:
            self._awaited[self.entered] = verdict
            return
        reliable, number = self.latest
        space = self.space(reliable)
        if space.known.covers(number, number + 1):  # a local channel acks at once
            verdict.set_result(True)
        else:
            space.awaited[number] = verdict

    def leave_unknown(self) -> None:
        """The channel has ended: nobody will learn more."""
        for awaited in (self._awaited, self.reliable.awaited, self.unreliable.awaited):
            for verdict in awaited.values():
                _resolve(verdict, None)
            awaited.clear()

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
        self.latest = reliable, first + count - 1
        return first

    def rerouted(self, datagram: int, reliable: int) -> None:
        """A message was refused as datagram and went as a reliable one (AQ-SEND-5)."""
        number = self.unreliable.next = self.unreliable.base + datagram
        verdict = self.unreliable.awaited.pop(number, None)
        first = self.sent(True, reliable)
        if verdict is not None:
            self.reliable.awaited[first] = verdict

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


def _resolve(verdict: Verdict, acked: bool | None) -> None:
    if not verdict.done():
        verdict.set_result(acked)
