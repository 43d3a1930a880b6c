"""How long a socket is left alone where little arrives: what network cards call interrupt
moderation.

To read one datagram, and do all that follows from it, costs hardly less than to read ten. So where
datagrams come steadily and one by one, the socket rests behind each read, for a multiple of the
processor time that went by since the read before: what comes meanwhile is read together. Where they
come seldom there is nothing to join, and where much comes it is there already; both are read at
once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 3
"""Seconds that a socket rests for each of processor time: what comes one by one may take a quarter
of a processor."""
LITTLE = 16 << 10
"""Bytes of a read behind which the socket may rest, and which few senders have sent: a sender with
a large window is in the midst of it, and should hear soon that it may go on."""
FEW = 16
"""The same in datagrams."""


class Moderation:
    """Says after each read how long the socket is to rest.

    Args:
        most: seconds that it rests at most.
        eager: whether somebody waits for an answer to what comes next, so that it does not rest.
        clock: monotonic seconds.
        processor: seconds of processor time of this thread.
    """

    __slots__ = ("_clock", "_eager", "_most", "_processor", "_read", "_rests", "_used")

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

    def rest(self, datagrams: int, size: int) -> float:
        """Seconds to rest behind a read of so many datagrams and bytes; 0: none. Called when what
        follows from them at once is done."""
        now, used = self._clock(), self._processor()
        took = used - self._used
        steady = self._rests or now - self._read < self._most
        self._read, self._used = now, used
        self._rests = steady and datagrams <= FEW and size <= LITTLE and not self._eager()
        return min(self._most, SHARE * took) if self._rests else 0.0

    def idle(self) -> None:
        """Nothing came while it rested."""
        self._rests = False
