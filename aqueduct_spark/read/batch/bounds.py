"""Which rows a bounded read consists of: pure functions from what is stored to ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aqueduct_core.errors import DataLoss, InvalidOption
from aqueduct_spark.model.offsets import DataRange
from aqueduct_spark.options.starting import (
    AtTime,
    Earliest,
    Latest,
    Specific,
    Starting,
    starting_positions,
)

_REMEDY = "Name offsets that are stored, or set failOnDataLoss=false to read what there is"


@dataclass(frozen=True, slots=True)
class Extent:
    """What one spool holds, for each log of a view.

    ``logs`` are their numbers in the spool, ``starts`` the earliest stored offsets, ``ends`` the
    durable ends (exclusive). ``at`` is where the spool is: a directory, or ``host:port``.
    """

    intake: int
    spool: str
    at: str
    logs: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The ranges of one spool, in the order of its logs, and what was asked for but is gone."""

    ranges: tuple[DataRange, ...]
    losses: tuple[DataLoss, ...] = ()


def bounds(
    extent: Extent,
    starting: Starting,
    ending: Starting,
    *,
    located_start: Sequence[int] | None = None,
    located_end: Sequence[int] | None = None,
) -> Bounds:
    """The rows between two positions. Where the start is behind the end there are none.

    The located offsets are those that the spool has for a time; needed for `AtTime` only. What is
    asked for and not stored is a loss each, and the range goes without it.

    Raises:
        InvalidOption: BAD_VALUE for offsets that do not fit the spool.
    """
    firsts = _positions("startingOffsets", extent, starting, located_start)
    stops = _positions("endingOffsets", extent, ending, located_end)
    ranges: list[DataRange] = []
    losses: list[DataLoss] = []
    for log, low, high, first, stop in zip(
        extent.logs, extent.starts, extent.ends, firsts, stops, strict=True
    ):
        where = f"partition {log} of intake {extent.intake} (spool {extent.spool})"
        if first < low and first < stop:
            what = f"offset {first} of {where} is gone, the first stored is {low}"
            losses.append(DataLoss("RANGE_GONE", what, _REMEDY))
        if max(first, stop) > high:
            what = f"offset {max(first, stop)} of {where} is not stored, the end is {high}"
            losses.append(DataLoss("OFFSET_AHEAD", what, _REMEDY))
        first, stop = max(first, low), min(stop, high)
        if first < stop:
            ranges.append(DataRange(extent.intake, extent.spool, extent.at, log, first, stop))
    return Bounds(tuple(ranges), tuple(losses))


def _positions(
    option: str, extent: Extent, position: Starting, located: Sequence[int] | None
) -> tuple[int, ...]:
    if isinstance(position, Specific) and extent.intake not in position.offsets:
        raise InvalidOption(
            "BAD_VALUE",
            f"Option '{option}' names intakes {sorted(position.offsets)}; intake {extent.intake} "
            "is to be read as well",
            f"Name it in '{option}', with -2 for earliest or -1 for latest",
        )
    try:
        return starting_positions(position, extent.intake, extent.starts, extent.ends, located)
    except ValueError as error:
        raise InvalidOption(
            "BAD_VALUE", f"Option '{option}': {error}", f"Correct '{option}'"
        ) from None


def check_known(option: str, position: Starting, intakes: Sequence[int]) -> None:
    """Refuse offsets of intakes that are not there. Raises InvalidOption.BAD_VALUE."""
    if isinstance(position, Earliest | Latest | AtTime):
        return
    unknown = sorted(set(position.offsets) - set(intakes))
    if unknown:
        raise InvalidOption(
            "BAD_VALUE",
            f"Option '{option}' names intakes {unknown}; there are {sorted(intakes)}",
            f"Correct '{option}'",
        )
