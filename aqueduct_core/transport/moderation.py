"""How long a socket is left alone where little arrives: what network cards call interrupt
moderation.

To read one datagram, and do all that follows from it, costs hardly less than to read ten. So where
datagrams come steadily and one by one, the socket rests behind each read, for a multiple of the
processor time that went by since the read before: what comes meanwhile is read together. Where they
come seldom there is nothing to join, and where much comes it is there already; both are read at
once. So is what a peer sends in answer to us: there is one of it, perhaps with its acknowledgement,
however long the socket rests, which a rest that joins nothing tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

SHARE = 3
"""Seconds that a socket rests for each of processor time: what comes one by one may take a quarter
of a processor."""
LITTLE = 16 << 10
"""Bytes of a read behind which the socket may rest."""
FEW = 16
"""The same in datagrams."""
WHOLE = 1_150
"""Bytes of a datagram that has no room for more, at least. Where most are such, a sender is in the
midst of its window, which is small on a new connection and after a loss, and should hear soon that
it may go on."""
JOINS = 3
"""Arrivals in a rest, at least, that has joined something, unless they are a flight, whose sender
waited for us. A peer that answers us may send two: what it has to say, and its acknowledgement."""
IN_VAIN = 7
"""Rests that joined nothing, one after the other, up to which each has twice as many reads without
a rest behind it as the one before: none at first, as that happens to a steady sender, too, and 32
in the end, so that who sends a message behind the ack of another hardly waits."""


class Moderation:
    """Says after each read how long the socket is to rest.

    Args:
        most: seconds that it rests at most.
        eager: whether somebody waits for an answer to what comes next, so that it does not rest.
        clock: monotonic seconds.
        processor: seconds of processor time of this thread.
    """

    __slots__ = (
        "_clock",
        "_eager",
        "_left",
        "_most",
        "_processor",
        "_read",
        "_rests",
        "_used",
        "_vain",
    )

    def __init__(
        self,
        most: float,
        eager: Callable[[], bool],
        clock: Callable[[], float],
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        self._most = most
        self._eager = eager
        self._clock = clock
        self._processor = processor
        self._read = float("-inf")
        self._used = processor()
        self._rests = False
        self._vain = 0  # such rests, the last ones
        self._left = 0  # reads without a rest

    def rest(self, arrivals: int, sizes: Sequence[int]) -> float:
        """Seconds to rest behind a read of datagrams of these sizes; 0: none. Called when what
        follows from them at once is done. ``arrivals`` are they as they came: several that the
        system hands over as one are one."""
        now, used = self._clock(), self._processor()
        took = used - self._used
        steady = self._rests or now - self._read < self._most
        self._read, self._used = now, used
        little = _is_little(arrivals, sizes)
        if self._rests:
            joined = arrivals >= JOINS and little
            self._vain = 0 if joined else min(self._vain + 1, IN_VAIN)
            self._left = 2**self._vain // 4
        elif self._left:
            self._left -= 1
        self._rests = steady and not self._left and little and not self._eager()
        return min(self._most, SHARE * took) if self._rests else 0.0

    def idle(self) -> None:
        """Nothing came while it rested."""
        self._rests = False


def _is_little(arrivals: int, sizes: Sequence[int]) -> bool:
    """Whether nobody seems to be in the midst of a flight: of one datagram behind the other,
    without a pause, or with no room in them for more."""
    count = len(sizes)
    if count > FEW or count > 2 * arrivals or sum(sizes) > LITTLE:
        return False
    return 2 * sum(size >= WHOLE for size in sizes) <= count
