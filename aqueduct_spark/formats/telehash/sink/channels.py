"""A channel as an attempt has it: which packet is which row."""

from __future__ import annotations

from collections import deque

from aqueduct_core.telehash.config import MAX_SEQ
from aqueduct_spark.write.batches import RowAccount


class RowChannel:
    """Rows of one destination on a channel, each a packet. Which row a packet was is known until it
    is acked.

    Args:
        number: of the channel on its line.
        account: of the rows.
        seq: of the first packet of this attempt.
    """

    def __init__(self, number: int, account: RowAccount, seq: int = 0) -> None:
        self.number = number
        self.next = seq
        """The number of the next packet."""
        self._account = account
        self._acked = seq
        # (packet, its row): those after it go on in step, up to the next entry
        self._steps: deque[tuple[int, int]] = deque()
        self._next_row: int | None = None

    @property
    def unacked(self) -> int:
        """Packets of this attempt that are not acked."""
        return self.next - self._acked

    @property
    def exhausted(self) -> bool:
        """The next packet is the last that has a number: the channel ends with it (T3)."""
        return self.next == MAX_SEQ

    def sent(self, row: int) -> None:
        """The next packet is that row of the destination."""
        if row != self._next_row:
            self._steps.append((self.next, row))
        self.next += 1
        self._next_row = row + 1

    def acked(self, upto: int) -> bool:
        """The packets below ``upto`` are acked; whether any of them is of this attempt, and new."""
        upto = min(upto, self.next)
        found = upto > self._acked
        while self._acked < upto:
            packet, row = self._steps[0]
            stop = self._steps[1][0] if len(self._steps) > 1 else self.next
            low, high = self._acked, min(upto, stop)
            self._account.acked_rows.add(row + low - packet, row + high - packet)
            self._acked = high
            if high == stop:
                self._steps.popleft()
                if not self._steps:
                    self._next_row = None
        return found
