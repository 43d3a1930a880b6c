"""What a receiver has to ack and nack, in both number spaces (AQ-ACK-1…15).

Everything is kept as ranges. ``stored`` is what may be acked: in ack mode *on receipt* the same
set as ``received``, in *on stored* what the application reported.
"""

from __future__ import annotations

from collections import deque

from aqueduct_core.aqueduct.config import AckMode, Config
from aqueduct_core.aqueduct.faults import Code, PeerFault
from aqueduct_core.primitives.ranges import Range, RangeSet


class ReliableAcks:
    """Numbers of messages that came on streams."""

    __slots__ = ("_config", "_to_ack", "received", "stored")

    def __init__(self, config: Config) -> None:
        self._config = config
        self.received = RangeSet()
        self.stored = RangeSet() if config.ack_mode is AckMode.ON_STORED else self.received
        self._to_ack = RangeSet()

    def _reachable(self, first: int, stop: int) -> bool:
        """Whether the window is kept, number by number, as they come in turn."""
        lowest = self.received.lowest_missing()
        return first <= lowest or stop - 1 <= lowest + self._config.max_reliable_window

    def admits(self, first: int, stop: int) -> bool:
        return not self.received.overlaps(first, stop) and self._reachable(first, stop)

    def arrive(self, first: int, stop: int) -> None:
        """Note ``[first, stop)``.

        Raises:
            PeerFault: a number seen before (AQ-ACK-4), too far ahead or too many holes.
        """
        received, config = self.received, self._config
        if received.overlaps(first, stop):
            raise PeerFault(Code.STATE, f"reliable message {first} came twice")
        if not self._reachable(first, stop):
            raise PeerFault(Code.RESOURCE_LIMIT, f"reliable message {stop - 1} is too far ahead")
        received.add(first, stop)
        if len(received) > config.max_ranges_per_space:
            raise PeerFault(Code.RESOURCE_LIMIT, "too many holes in the reliable numbers")
        if self.stored is received:
            self._to_ack.add(first, stop)

    def store(self, first: int, stop: int) -> None:
        """The application stored ``[first, stop)``; each number is acked once (AQ-ACK-3)."""
        for new in self.stored.add(first, stop):
            self._to_ack.add(*new)

    def complete(self, sent: int) -> bool:
        """Whether all of ``[0, sent)`` is here and may be acked."""
        return self.stored.covers(0, sent)

    @property
    def owing(self) -> bool:
        return bool(self._to_ack)

    def acked(self, first: int, stop: int) -> list[Range]:
        """The pieces of ``[first, stop)`` whose acks were taken."""
        acked = RangeSet(self.stored.within(first, stop))
        for piece in self._to_ack.within(first, stop):
            acked.remove(*piece)
        return list(acked)

    def take(self) -> list[Range]:
        """The ranges to ack now; empty: none."""
        ranges = list(self._to_ack)
        self._to_ack.clear()
        return ranges


class UnreliableAcks:
    """Numbers of messages that came in datagrams.

    Holds: all below ``mark`` were acked or nacked, all below ``frozen`` (≥ mark) are past their
    deadline, so what has not come by then is ignored for good; ``declared`` ≥ frozen is the sum
    of all SENT_UNRELIABLE. Every answer ends on a declared sum (AQ-ACK-7), but for the last one.
    """

    __slots__ = ("_config", "_expired", "_pending", "_refused", "declared", "frozen", "mark",
                 "received", "stored")  # fmt: skip

    def __init__(self, config: Config) -> None:
        self._config = config
        self.mark = 0
        self.frozen = 0
        self.declared = 0
        self.received = RangeSet()
        self.stored = RangeSet() if config.ack_mode is AckMode.ON_STORED else self.received
        self._pending: deque[tuple[int, float]] = deque()  # declared sum, deadline
        self._expired: list[int] = []
        self._refused = RangeSet()

    def arrive(self, number: int) -> bool:
        """Note a datagram message; False: it is to be ignored as lost (AQ-ACK-10, 14).

        Raises:
            PeerFault: a number above the mark that came twice (AQ-ACK-11).
        """
        if number < self.mark:
            return False
        if number in self.received or number in self._refused:
            raise PeerFault(Code.STATE, f"datagram message {number} came twice")
        if number < self.frozen or number > self.mark + self._config.max_unreliable_window:
            return False
        if len(self.received) >= self._config.max_ranges_per_space:
            return False
        self.received.add(number, number + 1)
        return True

    def declare(self, count: int, deadline: float) -> None:
        """``count`` more were sent; those not here by ``deadline`` are lost."""
        if not count:
            return
        self.declared += count
        if self.declared >= 1 << 62:
            raise PeerFault(Code.RESOURCE_LIMIT, "declared messages at or above 2^62")
        pending, most = self._pending, self._config.max_unanswered_declarations
        if pending and (pending[-1][1] == deadline or len(pending) >= most):
            pending.pop()
        self._pending.append((self.declared, deadline))

    @property
    def entries(self) -> int:
        """What is kept: ranges that came, and declarations that wait for their answer."""
        return len(self.received) + len(self._pending) + len(self._expired)

    @property
    def deadline(self) -> float | None:
        return self._pending[0][1] if self._pending else None

    def expire(self, now: float) -> None:
        """Freeze every batch whose deadline is due."""
        while self._pending and self._pending[0][1] <= now:
            self.frozen = self._pending.popleft()[0]
            self._expired.append(self.frozen)
            if len(self._expired) > self._config.max_unanswered_declarations:
                del self._expired[:-1:2]  # what ended there is answered with the next one

    def store(self, first: int, stop: int) -> None:
        self.stored.add(max(first, self.mark), stop)

    def refuse(self, first: int, stop: int) -> list[Range]:
        """The application will never store these: they count as not received. Those it was."""
        refused = self.received.remove(max(first, self.mark), stop)
        for piece in refused:
            self._refused.add(*piece)
        return refused

    @property
    def whole(self) -> bool:
        """All that is declared came in and may be acked, before any deadline (AQ-ACK-12)."""
        return (
            self._config.early_unreliable_ack
            and self.mark < self.declared
            and self.stored.covers(self.mark, self.declared)
        )

    def _answerable(self) -> int:
        """How far an answer may go now: to the furthest batch that is whole, or past its
        deadline with all that came stored."""
        if self.whole:
            return self.declared
        if self.stored is self.received:
            return self.frozen
        clear = self._first_unstored()
        return max((past for past in self._expired if past <= clear), default=self.mark)

    def _first_unstored(self) -> int:
        """The lowest number past its deadline that came and is not stored; ``frozen``: none."""
        for piece in self.received.within(self.mark, self.frozen):
            for first, _ in self.stored.missing(*piece):
                return first
        return self.frozen

    @property
    def owing(self) -> bool:
        return self._answerable() > self.mark

    @property
    def settled(self) -> bool:
        """Everything declared was acked or nacked."""
        return self.mark == self.declared

    def answer(self) -> tuple[list[int], list[Range]]:
        """Lengths to ack and nack in turn from the old mark on, and the nacked ranges.

        Empty when nothing is due. The mark moves.
        """
        return self._answer(self._answerable())

    def last_answer(self) -> tuple[list[int], list[Range]]:
        """As ``answer``, at the end of the state machine: up to the highest stored (B30)."""
        return self._answer(max(self._answerable(), self.stored.stop))

    def _answer(self, boundary: int) -> tuple[list[int], list[Range]]:
        if boundary <= self.mark:
            return [], []
        lengths: list[int] = []
        nacked: list[Range] = []
        position = self.mark
        for first, stop in self.stored.within(self.mark, boundary):
            if first > position:
                if not lengths:
                    lengths.append(0)
                lengths.append(first - position)
                nacked.append((position, first))
            lengths.append(stop - first)
            position = stop
        if position < boundary:
            if not lengths:
                lengths.append(0)
            lengths.append(boundary - position)
            nacked.append((position, boundary))
        self.mark = boundary
        self.frozen = max(self.frozen, boundary)
        self.received.remove(0, boundary)
        self.stored.remove(0, boundary)
        self._refused.remove(0, boundary)
        while self._pending and self._pending[0][0] <= boundary:
            self._pending.popleft()
        self._expired = [past for past in self._expired if past > boundary]
        return lengths, nacked
