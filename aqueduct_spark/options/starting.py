"""Where a new query starts, or a read ends: earliest, latest, at offsets, or at a time.

Parsed once at the door and matched everywhere else. It has no say over a query that continues
from its checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

EARLIEST_MARK = -2
"""In JSON, as in Spark's Kafka source: the earliest offset still stored."""
LATEST_MARK = -1
"""In JSON, as in Spark's Kafka source: behind the last offset stored now."""

_ALLOWED = (
    'earliest, latest, or JSON of offsets by intake and partition, such as {"0":{"0":120,"1":-2}} '
    "(-2 is earliest, -1 is latest)"
)


@dataclass(frozen=True, slots=True)
class Earliest:
    """At the first offset that is still stored."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Behind the last offset that is stored when the intake is seen first; where the query has it
    launched, when it starts."""


@dataclass(frozen=True, slots=True)
class Specific:
    """At one offset for each partition, or one of the two marks. Keys are intake numbers."""

    offsets: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class AtTime:
    """Before the first message received at that time or later; microseconds since the epoch."""

    microseconds: int


Starting: TypeAlias = Earliest | Latest | Specific | AtTime


def parse_starting(value: str) -> Starting:
    """``earliest``, ``latest`` or JSON; ``ValueError`` says what is allowed."""
    match value.strip().lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    try:
        raw = json.loads(value)
        named = {
            int(intake): {int(partition): offset for partition, offset in offsets.items()}
            for intake, offsets in raw.items()
        }
    except (ValueError, TypeError, AttributeError):
        raise ValueError(_ALLOWED) from None
    return Specific({intake: _partitions(intake, named[intake]) for intake in named})


def _partitions(intake: int, named: Mapping[int, object]) -> tuple[int, ...]:
    offsets = []
    for partition in range(len(named)):
        if partition not in named:
            raise ValueError(
                f"JSON with all partitions from 0 on, and of intake {intake} it lacks {partition}: "
                f"{EARLIEST_MARK} is earliest, {LATEST_MARK} is latest"
            )
        offset = named[partition]
        if type(offset) is not int or offset < EARLIEST_MARK:
            raise ValueError(_ALLOWED)
        offsets.append(offset)
    return tuple(offsets)


def starting_positions(
    starting: Starting,
    intake: int,
    starts: Sequence[int],
    ends: Sequence[int],
    located: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The first offset to read of each partition of one intake.

    ``starts`` is the earliest offset stored of each partition, ``ends`` the durable end
    (exclusive) that counts as the latest, ``located`` what the intake found for a time. Offsets
    asked for are given back as they are, also when they are not stored: to tell about that is not
    the task of this function.

    Raises:
        ValueError: offsets name another number of partitions than there is, or a time was not
            located.
    """
    match starting:
        case Earliest():
            return tuple(starts)
        case Latest():
            return tuple(ends)
        case AtTime():
            if located is None:
                raise ValueError("a time has to be located by the intake")
            return tuple(located)
        case Specific(offsets):
            asked = offsets[intake]
            if len(asked) != len(starts):
                raise ValueError(
                    f"offsets name {len(asked)} partitions of intake {intake}, and it has "
                    f"{len(starts)}"
                )
            marks = {EARLIEST_MARK: starts, LATEST_MARK: ends}
            return tuple(
                marks[offset][p] if offset in marks else offset for p, offset in enumerate(asked)
            )
