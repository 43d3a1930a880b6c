"""Rows on their way, and the account of them: what routes, retries and connections hand around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.primitives.ranges import Numbers, RangeSet


class Destination(NamedTuple):
    """Where rows go: those of one channel name and one reliability keep their order.

    ``source``: only rows that come from there, as the writer was told; empty: any.
    """

    channel: str
    reliability: str
    source: str = ""

    @property
    def reliable(self) -> bool:
        return self.reliability != "unreliable"


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Messages for one destination, in order.

    ``rows`` are their places among all rows of the task; where a message is many rows, that of its
    first one. ``headers`` is None when none of them has any. ``numbers`` are their offsets in the
    source of the destination, where it has one.
    """

    destination: Destination
    payloads: list[bytes]
    rows: Sequence[int]
    headers: HeaderColumn | None = None
    numbers: Numbers | None = None

    @property
    def size(self) -> int:
        """Bytes of the payloads."""
        return sum(map(len, self.payloads))

    def part(self, first: int, stop: int) -> RowBatch:
        """Messages ``[first, stop)`` of it."""
        if (first, stop) == (0, len(self.payloads)):
            return self
        return replace(
            self,
            payloads=self.payloads[first:stop],
            rows=self.rows[first:stop],
            headers=None if self.headers is None else self.headers.part(first, stop),
            numbers=None if self.numbers is None else self.numbers[first:stop],
        )


class RowRun(NamedTuple):
    """Messages that follow each other; the first is row ``first`` of their destination."""

    batch: RowBatch
    first: int

    @property
    def destination(self) -> Destination:
        return self.batch.destination

    @property
    def stop(self) -> int:
        return self.first + len(self.batch.payloads)


class RowAccount:
    """What became of the rows of one destination, on whatever connections they went.

    Holds: rows ``[0, given)`` were taken in. Those of a reliable destination are acked by their
    number, so that none counts twice; unreliable ones have no number that stays, and are counted.
    """

    __slots__ = ("_acked_count", "acked_rows", "given", "lost")

    def __init__(self) -> None:
        self.given = 0
        self.acked_rows = RangeSet()
        self.lost = 0
        self._acked_count = 0

    @property
    def acked(self) -> int:
        return self.acked_rows.count + self._acked_count

    @property
    def settled(self) -> bool:
        """Every row given has its outcome, once."""
        numbered = self.acked_rows.count
        return self.acked + self.lost == self.given and self.acked_rows.covers(0, numbered)

    def take(self, count: int) -> int:
        """``count`` more rows; the number of the first one."""
        first, self.given = self.given, self.given + count
        return first

    def count(self, acked: int, lost: int) -> None:
        """The outcome of so many unreliable rows."""
        self._acked_count += acked
        self.lost += lost
