"""Which segment may go: pure functions of segments and cursors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aqueduct_core.spool.segment import Segment

Cursors = Mapping[str, Sequence[int]]


def passed(segment: Segment, cursors: Cursors) -> bool:
    """Whether every cursor, and there is one, has passed all rows of the segment."""
    return bool(cursors) and all(
        all(at >= end for at, end in zip(position, segment.ends, strict=True))
        for position in cursors.values()
    )


def removable(
    segments: Sequence[Segment], cursors: Cursors, now: float, retention: float
) -> Segment | None:
    """The oldest segment if it may be unlinked at ``now`` (seconds since 1970).

    The newest never goes: its head and records hold the state that has to survive.
    """
    if len(segments) < 2:
        return None
    oldest = segments[0]
    if oldest.sealed is None or oldest.sealed + retention > now:
        return None
    return oldest if passed(oldest, cursors) else None


def raised(old: Sequence[int] | None, new: Sequence[int]) -> list[int]:
    """A cursor after a commit: it never falls back in any partition."""
    return [max(a, b) for a, b in zip(old, new, strict=True)] if old is not None else list(new)
