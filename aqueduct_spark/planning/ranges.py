"""Which rows a batch consists of: a pure function of its two offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aqueduct_spark.model.offsets import StreamOffset


@dataclass(frozen=True, slots=True)
class DataRange:
    """The rows ``[first, stop)`` of one partition of a spool. ``at`` is where its intake was."""

    intake: int
    spool: str
    at: str
    partition: int
    first: int
    stop: int


def data_ranges(
    start: StreamOffset, end: StreamOffset, first_logs: Mapping[int, int]
) -> list[DataRange]:
    """The ranges between two offsets, in the order of intake and partition: one for each log.

    ``first_logs`` says which log of a spool the first entry of ``to`` is of, by intake; 0 where it
    is left out. A spool that only ``end`` knows, or that took the place of another one, has no rows
    in this batch: its entry is the starting point of the next one.
    """
    ranges: list[DataRange] = []
    for intake in sorted(end.spool):
        before, after = start.spool.get(intake), end.spool[intake]
        if before is None or before.id != after.id:
            continue
        base = first_logs.get(intake, 0)
        ranges += [
            DataRange(intake, after.id, after.at, base + index, first, stop)
            for index, (first, stop) in enumerate(zip(before.to, after.to, strict=True))
            if first < stop
        ]
    return ranges
