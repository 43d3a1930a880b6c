"""How much of what waits goes into the next batch, and when: pure functions.

Shares are max-min fair: a partition gets what it has as long as that is no more than anybody else
may have, and what quiet ones leave goes to the busy ones. So a partition that is flooded slows
down itself. Limits are soft: a partition with anything to give gives at least one message, or one
that is larger than the limit would stop its partition for ever.

Times are monotonic seconds, given by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aqueduct_spark.planning.ranges import SizeIndex, offset_of, size_of


def apportion(available: Sequence[int], limit: int | None) -> list[int]:
    """How many of its waiting messages each partition gives to the next batch.

    The sum is at most ``limit``, or the number of partitions with data when that is more. ``limit``
    None takes everything.
    """
    if limit is None or sum(available) <= limit:
        return list(available)
    shares = _level(available, limit)
    return [max(share, min(1, count)) for share, count in zip(shares, available, strict=True)]


def apportion_bytes(
    firsts: Sequence[int],
    shares: Sequence[int],
    indexes: Sequence[SizeIndex | None],
    limit: int | None,
) -> list[int]:
    """The same shares, cut back so that their stored bytes are about ``limit`` in all.

    ``firsts`` are the offsets at which the shares begin, and the indexes with them. A share whose
    sizes are not known (None) is left as it is and counts nothing.
    """
    sizes = [
        size_of(known, first, first + share) if known and share else 0
        for first, share, known in zip(firsts, shares, indexes, strict=True)
    ]
    if limit is None or sum(sizes) <= limit:
        return list(shares)
    budgets = _level(sizes, limit)
    return [
        max(1, min(share, offset_of(known, first, budget) - first)) if known and share else share
        for first, share, known, budget in zip(firsts, shares, indexes, budgets, strict=True)
    ]


def _level(wanted: Sequence[int], total: int) -> list[int]:
    """``total`` poured over ``wanted`` like water; what is left over by rounding goes to the first.

    ``total`` is less than the sum of ``wanted``.
    """
    left, vessels = total, len(wanted)
    level = 0
    for amount in sorted(wanted):
        if amount * vessels > left:
            level, spare = divmod(left, vessels)
            break
        left -= amount
        vessels -= 1
    else:
        return list(wanted)
    shares = []
    for amount in wanted:
        share = min(amount, level)
        if amount > level and spare:
            share, spare = share + 1, spare - 1
        shares.append(share)
    return shares


@dataclass(frozen=True, slots=True)
class AdmissionDelay:
    """When few messages are worth a batch: ``minOffsetsPerTrigger`` with ``maxTriggerDelay``.

    Waits for ``least`` messages, but no longer than ``longest`` seconds since the first of them
    was seen.

    ``since`` is when messages were first seen waiting; None: none are, or a batch took them.
    """

    least: int | None
    longest: float
    since: float | None = None

    def seeing(self, rows: int, now: float) -> AdmissionDelay:
        """With ``rows`` waiting at ``now``."""
        if not rows:
            return AdmissionDelay(self.least, self.longest)
        return AdmissionDelay(self.least, self.longest, now if self.since is None else self.since)

    def remaining(self, rows: int, now: float) -> float:
        """Seconds for which ``rows`` waiting messages are to be held back; 0.0: take them."""
        if self.least is None or rows >= self.least or self.since is None:
            return 0.0
        return max(0.0, self.since + self.longest - now)
