"""Which segment may go, and where cursors stand: pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from aqueduct_core.errors import InvalidOption
from aqueduct_core.spool.format.segment import Segment

LogPositions = Sequence[int | None]
"""Per partition what a reader is done with, exclusive; None for one that it does not read."""

Cursors = Mapping[str, LogPositions]


class RowsBetween(Protocol):
    """Rows of each partition, from its start to its end: a segment, wherever it lies."""

    @property
    def starts(self) -> Sequence[int]: ...
    @property
    def ends(self) -> Sequence[int]: ...


def passed(segment: RowsBetween, cursors: Cursors, owed: int) -> bool:
    """Whether every cursor, and there is one, has passed all rows of the segment in the
    partitions that it reads, and none of the first ``owed`` has rows here that no cursor reads."""
    for partition, (start, end) in enumerate(zip(segment.starts, segment.ends, strict=True)):
        read = [at for position in cursors.values() if (at := position[partition]) is not None]
        if any(at < end for at in read) or (not read and partition < owed and start < end):
            return False
    return bool(cursors)


def removable(
    segments: Sequence[Segment], cursors: Cursors, now: float, retention: float, owed: int
) -> Segment | None:
    """The oldest segment if it may be unlinked at ``now`` (seconds since 1970).

    The newest never goes: its head and records hold the state that has to survive.
    """
    if len(segments) < 2:
        return None
    oldest = segments[0]
    if oldest.sealed is None or oldest.sealed + retention > now:
        return None
    return oldest if passed(oldest, cursors, owed) else None


def lowest(cursors: Iterable[LogPositions], partitions: int) -> list[int]:
    """What all cursors have passed of each partition; 0 where none reads it."""
    positions = list(cursors)
    return [
        min((at for each in positions if (at := each[partition]) is not None), default=0)
        for partition in range(partitions)
    ]


def raised(old: LogPositions | None, new: LogPositions) -> list[int | None]:
    """A cursor after a commit: it never falls back in any partition."""
    if old is None:
        return list(new)
    return [
        a if b is None else b if a is None else max(a, b) for a, b in zip(old, new, strict=True)
    ]


def lowered(old: LogPositions, new: LogPositions) -> list[int | None]:
    """A cursor that is to fall back: it goes on in no partition."""
    return [None if a is None or b is None else min(a, b) for a, b in zip(old, new, strict=True)]


def check_reads(name: str, reads: Sequence[bool], old: LogPositions | None) -> None:
    """A cursor reads at least one partition, and the same ones for ever.

    Raises:
        InvalidOption: BAD_VALUE.
    """
    if not any(reads):
        raise InvalidOption(
            "BAD_VALUE", f"cursor {name!r} would read no partition", "Name at least one to read"
        )
    if old is not None and list(reads) != [at is not None for at in old]:
        partitions = [partition for partition, at in enumerate(old) if at is not None]
        raise InvalidOption(
            "BAD_VALUE",
            f"cursor {name!r} reads the partitions {partitions}, not"
            f" {[each for each, read in enumerate(reads) if read]}",
            "Give the query another cursor, or drop this one",
        )
