"""Where in a spool a command begins or ends: an edge, an offset, so many rows before the end, or a
time."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from aqueduct_core.primitives import units
from aqueduct_core.spool import SpoolReader

if TYPE_CHECKING:
    import pyarrow as pa

FORMS = (
    "earliest, latest, an offset, -N (the last N rows of each partition), a time such as "
    "2026-01-31T12:00Z (UTC where it has no zone), or an age such as 15m"
)
"""What `offset_spec` takes, for people."""

_EDGES: dict[str, Literal["earliest", "latest"]] = {
    "earliest": "earliest",
    "beginning": "earliest",
    "latest": "latest",
    "end": "latest",
}


@dataclass(frozen=True, slots=True)
class Edge:
    """The first offset that is stored, or the one behind the last."""

    which: Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True)
class Offset:
    """An offset, of one partition."""

    at: int


@dataclass(frozen=True, slots=True)
class Last:
    """So many rows before the end of each partition, or all where there are fewer."""

    rows: int


@dataclass(frozen=True, slots=True)
class Moment:
    """The first row that was received at that time or later; microseconds since 1970, UTC."""

    microseconds: int


OffsetSpec: TypeAlias = Edge | Offset | Last | Moment


def offset_spec(text: str) -> OffsetSpec:
    """Read one of `FORMS`; also kcat's ``beginning``, ``end`` and ``s@MILLISECONDS``. For argparse,
    which makes a usage error of ArgumentTypeError."""
    if text in _EDGES:
        return Edge(_EDGES[text])
    if re.fullmatch(r"[0-9]{1,18}", text):
        return Offset(int(text))
    if re.fullmatch(r"-[0-9]{1,18}", text):
        return Last(-int(text))
    if found := re.fullmatch(r"s@([0-9]{1,15})", text):
        return Moment(int(found[1]) * 1_000)
    try:
        return Moment(int((time.time() - units.duration(text)) * 1_000_000))
    except ValueError:
        pass
    try:
        return Moment(units.timestamp(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no offset: write {FORMS}") from None


def offsets_of(
    at: OffsetSpec,
    reader: SpoolReader,
    partitions: Sequence[int],
    newest: Callable[[pa.RecordBatch], int],
) -> tuple[int, ...]:
    """The offset of a position in each of some partitions; an `Offset` as it is, stored or not.

    Args:
        newest: when the last row of a batch was received, in microseconds since 1970.
    """
    starts, ends = reader.starts(), reader.ends()
    match at:
        case Edge("earliest"):
            return tuple(starts[each] for each in partitions)
        case Edge():
            return tuple(ends[each] for each in partitions)
        case Offset(offset):
            return (offset,) * len(partitions)
        case Last(rows):
            return tuple(max(starts[each], ends[each] - rows) for each in partitions)
        case Moment(sought):
            return tuple(
                reader.bisect(each, lambda batch: newest(batch) < sought) for each in partitions
            )
