"""Whose datagrams are taken in next, so that each connection has its part of the time.

Start-time fair queueing over processor time: who has used least comes first, and who was silent has
nothing saved up. A connection whose datagrams cost much has short turns, and what it sends beyond
what it has time for is dropped, which its own loss recovery makes up for.

Turns come in rounds. While others wait, a connection has no more than its share of a round; the
rest of it is for them, and where these have had theirs too, for whatever else the process has to
do. Where nobody else waits it has all the time there is.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")
D = TypeVar("D")

ROUND = 0.008
"""Seconds of work for what was read, before the socket is read again."""
LONGEST_TURN = 0.004
"""Seconds of a turn, about, beyond which the next one goes to somebody else."""
SHORTEST_TURN = 0.001
"""Seconds left of a round with which nothing more is begun: each turn has costs of its own."""
WAITING = 8_192
"""Datagrams that wait in all, about; beyond it those of connections that have more than their part
of them are dropped."""
WAITING_BYTES = 16 << 20
"""The same of their bytes: a datagram may have 64 KiB."""
DATAGRAM_BYTES = 256
"""Memory of a datagram that waits, beside its bytes: three objects and its sender's address."""
FIRST_COST = 400e-6
"""Seconds for a datagram before any was measured: what those of a stranger may cost."""


class _Turn(Generic[D]):
    """One connection: what waits and its bytes, the time that it has used in all and in the last
    ``round`` that it had a turn in, what a datagram costs, and whether it is in the queue."""

    __slots__ = ("bytes", "cost", "queued", "round", "taken", "used", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[D] = deque()
        self.bytes = 0
        self.used = 0.0
        self.taken = 0.0
        self.round = 0
        self.cost = FIRST_COST
        self.queued = False


class FairTurns(Generic[T, D]):
    """Datagrams ``D`` that wait for connections ``T``.

    Call ``add`` for what was read; then, for each round, ``begin``, and ``next`` and ``spent`` in
    turn until nobody is left who may go on, or the round is over.

    Args:
        share: of a round, that a connection has while others wait; above 0, at most 1.
    """

    def __init__(self, share: float = 1.0) -> None:
        self._part = share * ROUND
        self._turns: dict[T, _Turn[D]] = {}
        self._heap: list[tuple[float, int, T]] = []
        self._resting: list[T] = []
        self._round = 0
        self._left = ROUND
        self._count = 0
        self._least = 0.0
        self._waiting = 0
        self._bytes = 0
        self._active = 0

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._heap) or bool(self._resting)

    def memory(self, connection: T) -> int:
        """Bytes of memory that it has waiting here, about."""
        turn = self._turns.get(connection)
        return 0 if turn is None else turn.bytes + DATAGRAM_BYTES * len(turn.waiting)

    def add(self, connection: T, datagram: D, size: int = 0) -> bool:
        """Let it wait for its turn; False: it is dropped, since too much waits already."""
        turn = self._turns.get(connection)
        if turn is None:
            turn = self._turns[connection] = _Turn()
        if not turn.waiting:
            turn.used = max(turn.used, self._least)
            self._active += 1
            self._push(connection, turn)
        elif (self._waiting >= WAITING and len(turn.waiting) >= WAITING // self._active) or (
            self._bytes >= WAITING_BYTES and turn.bytes >= WAITING_BYTES // self._active
        ):
            return False
        turn.waiting.append(datagram)
        turn.bytes += size
        self._waiting += 1
        self._bytes += size
        return True

    def begin(self) -> None:
        """A new round: those who have had their share of the last one have it again."""
        self._round += 1
        self._left = ROUND
        resting, self._resting = self._resting, []
        for connection in resting:
            turn = self._turns.get(connection)
            if turn is not None:
                turn.queued = False
                self._push(connection, turn)

    def next(self, *, others: bool = False) -> tuple[T, list[D]] | None:
        """Whose turn it is, and the datagrams of it; None: the round is over, or nobody is left
        who may go on in it.

        ``others`` wait who are not known here."""
        while self._heap and self._left >= SHORTEST_TURN:
            used, _, connection = heapq.heappop(self._heap)
            turn = self._turns.get(connection)
            if turn is None or not turn.waiting:
                continue  # it was forgotten meanwhile
            if turn.round != self._round:
                turn.round, turn.taken = self._round, 0.0
            longest = min(LONGEST_TURN, self._left)
            if others or self._active > 1:
                longest = min(longest, self._part - turn.taken)
                if longest <= 0:
                    self._resting.append(connection)
                    continue
            turn.queued = False
            self._least = used
            waiting = turn.waiting
            count = min(len(waiting), max(1, int(longest / turn.cost)))
            size = turn.bytes * count // len(waiting)  # those of all, if all go
            batch = [waiting.popleft() for _ in range(count)]
            turn.bytes -= size
            self._bytes -= size
            self._waiting -= count
            self._active -= not waiting
            return connection, batch
        return None

    def spent(self, connection: T, datagrams: int, seconds: float) -> None:
        """The turn took so long; what is left of it waits for the next one."""
        self._left -= seconds
        turn = self._turns.get(connection)
        if turn is None:
            return
        turn.used += seconds
        turn.taken += seconds
        turn.cost += (seconds / datagrams - turn.cost) / 4
        if turn.waiting:
            self._push(connection, turn)

    def forget(self, connection: T) -> None:
        """It is gone, and so is what waited for it."""
        turn = self._turns.pop(connection, None)
        if turn is not None and turn.waiting:
            self._waiting -= len(turn.waiting)
            self._bytes -= turn.bytes
            self._active -= 1

    def _push(self, connection: T, turn: _Turn[D]) -> None:
        if turn.queued:
            return
        turn.queued = True
        self._count += 1
        heapq.heappush(self._heap, (turn.used, self._count, connection))
