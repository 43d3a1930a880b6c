"""How a limit on messages is shared between partitions: a pure function."""

from __future__ import annotations

from collections.abc import Sequence


def apportion(available: Sequence[int], limit: int | None) -> list[int]:
    """How many of its waiting messages each partition gives to the next batch.

    The shares are in proportion to what waits, and a partition with anything to give gives at
    least one, so that a busy partition cannot starve a quiet one. The sum is at most ``limit``,
    or the number of partitions with data when that is more. ``limit`` None takes everything.
    """
    total = sum(available)
    if limit is None or total <= limit:
        return list(available)
    waiting = [i for i, count in enumerate(available) if count]
    if limit <= len(waiting):
        return [1 if count else 0 for count in available]
    # One for each that has any; the rest by largest remainder, ties to the lower number.
    spare = limit - len(waiting)
    surplus = {i: available[i] - 1 for i in waiting}
    weight = sum(surplus.values())
    shares = [0] * len(available)
    for i in waiting:
        shares[i] = 1 + spare * surplus[i] // weight
    leftover = limit - sum(shares)
    by_remainder = sorted(waiting, key=lambda i: (-(spare * surplus[i] % weight), i))
    for i in by_remainder[:leftover]:
        shares[i] += 1
    return shares
