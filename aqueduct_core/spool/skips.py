"""Rows that were given up by hand, because their records are damaged or lost.

They are kept in one small file, which is replaced as a whole; with its checksum, and the id of the
spool that it speaks of. Without the file, or with a damaged one, nothing is skipped: reads name the
damage again, and the same act can be repeated.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.spool.disk import Disk

log = logging.getLogger(__name__)

SKIPS = "skipped.json"
VERSION = 1
MAX_REASON = 200
"""Characters of a reason that are kept."""

MAX_OFFSET = 1 << 62
"""To which rows may be skipped: offsets have 63 bits, and rows have to follow."""

RowState: TypeAlias = Literal["stored", "skipped", "gone"]


class Skip(NamedTuple):
    """Offsets ``[start, end)`` of a partition, given up for a reason at a time (seconds since
    1970)."""

    partition: int
    start: int
    end: int
    reason: str
    time: float


class Stretch(NamedTuple):
    """Offsets ``[start, end)``: ``stored``, given up (``skipped``), or in no segment (``gone``)."""

    start: int
    end: int
    state: RowState


def load_skips(directory: Path, spool: str) -> tuple[Skip, ...]:
    """
    Raises:
        OSError: the disk failed.
    """
    path = directory / SKIPS
    try:
        content = json.loads(path.read_bytes())
        crc = content.pop("crc")
        if crc != _checksum(content) or content["v"] != VERSION or content["id"] != spool:
            raise ValueError
        return tuple(
            Skip(int(partition), int(start), int(end), str(reason), float(time))
            for partition, start, end, reason, time in content["skipped"]
        )
    except FileNotFoundError:
        return ()
    except (ValueError, KeyError, TypeError, AttributeError):
        log.warning("%s is damaged, or of another spool: nothing counts as skipped", path)
        return ()


def save_skips(directory: Path, spool: str, skips: Sequence[Skip], disk: Disk) -> None:
    """Durable when this returns.

    Raises:
        OSError: the disk failed; what was there stands.
    """
    content: dict[str, Any] = {"v": VERSION, "id": spool, "skipped": [list(each) for each in skips]}
    content["crc"] = _checksum(content)
    disk.replace(directory / SKIPS, json.dumps(content).encode() + b"\n")


def still_needed(skips: Iterable[Skip], stored: Sequence[int], passed: Sequence[int]) -> list[Skip]:
    """Without those below what is ``stored``, and ``passed`` by all cursors."""
    low = [min(pair) for pair in zip(stored, passed, strict=True)]
    return [each for each in skips if each.end > low[each.partition]]


def skipped_in(skips: Iterable[Skip], partition: int) -> RangeSet:
    """All that was skipped of a partition."""
    return RangeSet((each.start, each.end) for each in skips if each.partition == partition)


def check_unreadable(partition: int, start: int, end: int, unreadable: RangeSet) -> None:
    """Refuse to skip rows that can be read.

    Raises:
        InvalidOption: CONFLICT, naming them and what of the range may be skipped.
    """
    healthy = unreadable.missing(start, end)
    if not healthy:
        return
    bad = [f"{low} to {high}" for low, high in unreadable.within(start, end)]
    low, high = healthy[0]
    raise InvalidOption(
        "CONFLICT",
        f"partition {partition}: offsets {low} to {high} (exclusive) can be read",
        f"Skip no more than what is damaged: {', '.join(bad)}"
        if bad
        else "There is nothing to be skipped",
    )


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content).encode())
