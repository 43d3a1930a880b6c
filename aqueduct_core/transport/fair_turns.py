"""Whose datagrams are taken in next, so that each connection has its part of the time.

Start-time fair queueing over processor time: who has used least comes first, and who was silent has
nothing saved up. A connection whose datagrams cost much has short turns, and what it sends beyond
what it has time for is dropped, which its own loss recovery makes up for.

Turns come in rounds. While others wait, a connection has no more than its share of a round; the
rest of it is for them, and where these have had theirs too, for whatever else the process has to
do. Where nobody else waits it has all the time there is.

Turns are short while several connections are at work, since what others wait for comes in between.
But what a datagram brings cannot be taken in by halves, and some cost as much as a hundred others.
All connections with such ones, and those that have shown nothing yet, have less than the share of
one together, by the clock, while there are others. Of that each of the two kinds has half while
both wait, so that strangers, however many, leave as much to who is known. Of strangers those come
first that have used least since they came: a newcomer, who needs two or three turns to be known.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
D = TypeVar("D")

ROUND = 0.008
"""Seconds of work for what was read, before the socket is read again."""
LONGEST_TURN = 0.004
"""Seconds of a turn, about, beyond which the next one goes to somebody else."""
COMPANY = 0.5
"""Both are half as long while another connection had a turn within so many seconds."""
DEAR = 500e-6
"""Seconds for a datagram: honest ones that are full take a tenth of it."""
DEAR_PART = 2 / 3
"""Of the share of one connection: what all of those have together, by the clock."""
SHORTEST_TURN = 0.001
"""Seconds left of a round with which nothing more is begun: each turn has costs of its own."""
WAITING = 8_192
"""Datagrams that wait in all, about; beyond it those of connections that have more than their part
of them are dropped."""
WAITING_BYTES = 16 << 20
"""The same of their bytes: a datagram may have 64 KiB."""
DATAGRAM_BYTES = 256
"""Memory of a datagram that waits, beside its bytes: three objects and its sender's address."""
FIRST_COST = 200e-6
"""Seconds for a datagram before any was measured: what those of a stranger may cost."""
FIRST = 4
"""So many datagrams are taken to have cost that."""
MOST = 4 * DEAR
"""Seconds that one is taken to have cost at most: what takes longer once may be the fault of
somebody else, as the collection of garbage is."""
AHEAD = 0.01
"""Seconds by which a connection may be ahead of those that have used least, for the same reason."""
SLACK = 64
"""Places in queues of connections that are gone, beside one for each that is there."""
KEPT = 7 / 8
"""Of what turns have cost, is remembered with each further one."""


class _Turn(Generic[D]):
    """One connection: what waits and its bytes, the time that it has used in all and in the last
    ``round`` that it had a turn in, what its last turns have cost for how many datagrams, and
    whether it is in a queue."""

    __slots__ = ("bytes", "datagrams", "queued", "round", "seconds", "taken", "used", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[D] = deque()
        self.bytes = 0
        self.used = 0.0
        self.taken = 0.0
        self.round = 0
        self.seconds = 0.0
        self.datagrams = 0.0
        self.queued = False

    @property
    def cost(self) -> float:
        """Seconds for a datagram, with what it leads to later; a turn has costs of its own, and
        counts as one."""
        return (self.seconds + FIRST * FIRST_COST) / (self.datagrams + FIRST)

    def spent(self, datagrams: int, seconds: float) -> None:
        self.used += seconds
        self.taken += seconds
        self.seconds = KEPT * self.seconds + min(seconds, MOST * (datagrams + 1))
        self.datagrams = KEPT * self.datagrams + datagrams + 1


class _Latest(Generic[T]):
    """Who came last, and when somebody else did."""

    def __init__(self) -> None:
        self._who: T | None = None
        self._when = self._before = -COMPANY

    def note(self, who: T, now: float) -> None:
        if who is not self._who:
            self._who, self._before = who, self._when
        self._when = now

    def other(self, who: T) -> float:
        """When anybody but ``who`` came last."""
        return self._before if who is self._who else self._when

    @property
    def second(self) -> float:
        """When the last but one came."""
        return self._before

    def forget(self, who: T) -> None:
        if who is self._who:
            self._who = None


class FairTurns(Generic[T, D]):
    """Datagrams ``D`` that wait for connections ``T``.

    Call ``add`` for what was read; then, for each round, ``begin``, and ``next`` and ``spent`` in
    turn until nobody is left who may go on, or the round is over. The next round is at once while
    this is true, or else at ``due``.

    Args:
        share: of a round, that a connection has while others wait; above 0, at most 1.
        stranger: whether a connection has yet to show that it may be here.
    """

    def __init__(self, share: float = 1.0, stranger: Callable[[T], bool] = lambda _: False) -> None:
        self._share = share
        self._stranger = stranger
        self._turns: dict[T, _Turn[D]] = {}
        self._cheap: list[tuple[float, int, T]] = []
        self._dear: list[tuple[float, int, T]] = []
        self._strange: list[tuple[float, int, T]] = []
        self._ahead = 0.0  # seconds that strangers have had more of late than those who are dear
        self._dear_from = 0.0
        self._over: list[T] = []
        self._latest: _Latest[T] = _Latest()
        self._latest_cheap: _Latest[T] = _Latest()
        self._now = 0.0
        self._round = 0
        self._left = ROUND
        self._count = 0
        self._least = 0.0
        self._waiting = 0
        self._bytes = 0
        self._active = 0

    def __bool__(self) -> bool:
        """Whether anybody waits who may go on."""
        return bool(self._cheap or self._over or (self._behind and self._now >= self._dear_from))

    @property
    def due(self) -> float | None:
        """When those go on who may not now; None: there are none."""
        for heap in (self._dear, self._strange):
            while heap and heap[0][2] not in self._turns:
                heapq.heappop(heap)
        return self._dear_from if self._behind and self._now < self._dear_from else None

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
            if not self._stranger(connection):
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

    def begin(self, now: float) -> None:
        """A new round: those who have had their share of the last one have it again. ``now`` is
        monotonic, in seconds."""
        self._now = now
        self._round += 1
        self._left = ROUND / 2 if now - self._latest.second < COMPANY else ROUND
        over, self._over = self._over, []
        for connection in over:
            turn = self._turns.get(connection)
            if turn is not None:
                turn.queued = False
                self._push(connection, turn)

    def next(self, *, others: bool = False) -> tuple[T, list[D]] | None:
        """Whose turn it is, and the datagrams of it; None: the round is over, or nobody is left
        who may go on in it.

        ``others`` wait who are not known here."""
        while self._left >= SHORTEST_TURN and (heap := self._first()):
            used, _, connection = heapq.heappop(heap)
            turn = self._turns.get(connection)
            if turn is None or not turn.waiting:
                continue  # it was forgotten meanwhile
            if turn.round != self._round:
                turn.round, turn.taken = self._round, 0.0
            company = self._now - self._latest.other(connection) < COMPANY
            longest = min(LONGEST_TURN / 2 if company else LONGEST_TURN, self._left)
            if others or self._active > 1:
                whole = ROUND / 2 if company else ROUND
                longest = min(longest, self._share * whole - turn.taken)
                if longest <= 0:
                    self._over.append(connection)
                    continue
            turn.queued = False
            if heap is not self._strange:
                self._least = used
            self._latest.note(connection, self._now)
            waiting = turn.waiting
            most = int(longest / turn.cost)
            if company:
                # what these cost may not be known yet, or be more than they are taken to
                most = 1 if turn.cost > DEAR else min(most, int(2 * turn.datagrams))
            count = min(len(waiting), max(1, most))
            size = turn.bytes * count // len(waiting)  # those of all, if all go
            batch = [waiting.popleft() for _ in range(count)]
            turn.bytes -= size
            self._bytes -= size
            self._waiting -= count
            self._active -= not waiting
            return connection, batch
        return None

    def prompt(self, connection: T) -> bool:
        """Whether it may do at once what it has to do without a datagram: then tell what that took
        by ``spent``."""
        turn = self._turns.get(connection)
        return turn is not None and self._queue(connection, turn) is self._cheap

    def spent(self, connection: T, datagrams: int, seconds: float) -> None:
        """The turn took so long, with so many datagrams; what is left of it waits for the next
        one."""
        self._left -= seconds
        self._now += seconds
        turn = self._turns.get(connection)
        if turn is None:
            return
        turn.spent(datagrams, seconds)
        queue = self._queue(connection, turn)
        if queue is self._cheap:
            self._latest_cheap.note(connection, self._now)
        else:
            more = seconds if queue is self._strange else -seconds
            self._ahead = max(-AHEAD, min(AHEAD, self._ahead + more))
            if self._now - self._latest_cheap.other(connection) < COMPANY:
                self._dear_from = self._now + seconds * (1 / (DEAR_PART * self._share) - 1)
        if turn.waiting:
            self._push(connection, turn)

    def forget(self, connection: T) -> None:
        """It is gone, and so is what waited for it."""
        self._latest.forget(connection)
        self._latest_cheap.forget(connection)
        turn = self._turns.pop(connection, None)
        if turn is not None and turn.waiting:
            self._waiting -= len(turn.waiting)
            self._bytes -= turn.bytes
            self._active -= 1
            self._tidy()

    def _tidy(self) -> None:
        """Drop the places of those who are gone before they are most of a queue."""
        for heap in (self._cheap, self._dear, self._strange):
            if len(heap) > 2 * len(self._turns) + SLACK:
                heap[:] = [entry for entry in heap if entry[2] in self._turns]
                heapq.heapify(heap)

    def _first(self) -> list[tuple[float, int, T]]:
        """The queue of whoever has used least of those who may go on."""
        behind = self._behind
        if not behind or self._now < self._dear_from:
            return self._cheap
        return min(self._cheap, behind, key=lambda heap: heap[0]) if self._cheap else behind

    @property
    def _behind(self) -> list[tuple[float, int, T]]:
        """The queue of those who come next of all that have little time together."""
        if self._dear and self._strange:
            return self._dear if self._ahead >= 0 else self._strange
        return self._dear or self._strange

    def _queue(self, connection: T, turn: _Turn[D]) -> list[tuple[float, int, T]]:
        if self._stranger(connection):
            return self._strange
        return self._dear if turn.cost > DEAR else self._cheap

    def _push(self, connection: T, turn: _Turn[D]) -> None:
        if turn.queued:
            return
        turn.queued = True
        self._count += 1
        heap = self._queue(connection, turn)
        if heap is not self._strange:
            turn.used = min(turn.used, self._least + AHEAD)
        heapq.heappush(heap, (turn.used, self._count, connection))
