"""Whose datagrams are taken in next, so that each connection has its part of the time.

Start-time fair queueing over processor time: who has used least comes first, and who was silent has
nothing saved up. A connection whose datagrams cost much has short turns, and what it sends beyond
what it has time for is dropped, which its own loss recovery makes up for.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")
D = TypeVar("D")

LONGEST_TURN = 0.004
"""Seconds of a turn, about, beyond which the next one goes to somebody else."""
WAITING = 8_192
"""Datagrams that wait in all, about; beyond it those of connections that have more than their part
of them are dropped."""
FIRST_COST = 400e-6
"""Seconds for a datagram before any was measured: what those of a stranger may cost."""


class _Turn(Generic[D]):
    """One connection: what waits, the time that it has used, what a datagram costs, and whether it
    is in the queue."""

    __slots__ = ("cost", "queued", "used", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[D] = deque()
        self.used = 0.0
        self.cost = FIRST_COST
        self.queued = False


class FairTurns(Generic[T, D]):
    """Datagrams ``D`` that wait for connections ``T``.

    Call ``add`` for what was read, then ``next`` and ``spent`` in turn until nothing waits or
    others are to have the loop. A single connection has all the time there is.
    """

    def __init__(self) -> None:
        self._turns: dict[T, _Turn[D]] = {}
        self._heap: list[tuple[float, int, T]] = []
        self._count = 0
        self._least = 0.0
        self._waiting = 0
        self._active = 0

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._heap)

    def add(self, connection: T, datagram: D) -> bool:
        """Let it wait for its turn; False: it is dropped, since too many wait already."""
        turn = self._turns.get(connection)
        if turn is None:
            turn = self._turns[connection] = _Turn()
        if not turn.waiting:
            turn.used = max(turn.used, self._least)
            self._active += 1
            self._push(connection, turn)
        elif self._waiting >= WAITING and len(turn.waiting) >= WAITING // self._active:
            return False
        turn.waiting.append(datagram)
        self._waiting += 1
        return True

    def next(self) -> tuple[T, list[D]] | None:
        """Whose turn it is, and the datagrams of it; None: nothing waits."""
        while self._heap:
            used, _, connection = heapq.heappop(self._heap)
            turn = self._turns.get(connection)
            if turn is None or not turn.waiting:
                continue  # it was forgotten meanwhile
            turn.queued = False
            self._least = used
            waiting = turn.waiting
            count = min(len(waiting), max(1, int(LONGEST_TURN / turn.cost)))
            batch = [waiting.popleft() for _ in range(count)]
            self._waiting -= count
            self._active -= not waiting
            return connection, batch
        return None

    def spent(self, connection: T, datagrams: int, seconds: float) -> None:
        """The turn took so long; what is left of it waits for the next one."""
        turn = self._turns.get(connection)
        if turn is None:
            return
        turn.used += seconds
        turn.cost += (seconds / datagrams - turn.cost) / 4
        if turn.waiting:
            self._push(connection, turn)

    def forget(self, connection: T) -> None:
        """It is gone, and so is what waited for it."""
        turn = self._turns.pop(connection, None)
        if turn is not None and turn.waiting:
            self._waiting -= len(turn.waiting)
            self._active -= 1

    def _push(self, connection: T, turn: _Turn[D]) -> None:
        if turn.queued:
            return
        turn.queued = True
        self._count += 1
        heapq.heappush(self._heap, (turn.used, self._count, connection))
