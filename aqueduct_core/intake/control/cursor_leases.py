"""Who owns a cursor at a time: one planner, which says so again and again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from aqueduct_core.errors import SpoolFailed

FENCED = 64
"""Owners of a cursor remembered as taken over. More only where as many planners died in turn."""


@dataclass(slots=True)
class _Claim:
    owner: str
    until: float
    fenced: deque[str] = field(default_factory=lambda: deque(maxlen=FENCED))


class CursorLeases:
    """The holds on cursors, in memory only: a restarted intake knows none, and whoever asks first
    gets one.

    ``now`` is monotonic seconds. An *owner* is a string that a planner makes at random for
    itself. Its hold ends with `release`, or ``seconds`` after it was last renewed; until somebody
    else takes the cursor the owner may just go on. From then on it is *fenced*: it is refused, also
    when its successor is gone, because the rows behind the cursor are the successor's.
    """

    def __init__(self) -> None:
        self._claims: dict[str, _Claim] = {}

    def hold(self, cursor: str, owner: str, seconds: float, now: float) -> None:
        """``owner`` holds ``cursor`` until ``now + seconds``.

        Raises:
            SpoolFailed: CURSOR_IN_USE.
        """
        claim = self._claims.get(cursor)
        if claim is None:
            self._claims[cursor] = _Claim(owner, now + seconds)
            return
        if owner in claim.fenced:
            raise _taken_over(cursor)
        if claim.owner != owner:
            self._refuse_held(cursor, claim, now)
            if claim.owner:
                claim.fenced.append(claim.owner)
            claim.owner = owner
        claim.until = now + seconds

    def release(self, cursor: str, owner: str) -> None:
        """Nobody holds ``cursor`` any more, if it was ``owner`` who did."""
        claim = self._claims.get(cursor)
        if claim is not None and claim.owner == owner:
            claim.owner = ""

    def check(self, cursor: str, owner: str | None, now: float) -> None:
        """Whether ``owner`` may commit: it held the cursor last, or nobody did. None stands for
        somebody who holds nothing: it may while nobody holds the cursor.

        Raises:
            SpoolFailed: CURSOR_IN_USE.
        """
        claim = self._claims.get(cursor)
        if claim is None or not claim.owner:
            return
        if owner is None:
            self._refuse_held(cursor, claim, now)
        elif owner != claim.owner:
            raise _taken_over(cursor)

    def held(self, now: float) -> tuple[str, ...]:
        """The cursors that somebody holds."""
        return tuple(
            cursor for cursor, claim in self._claims.items() if claim.owner and claim.until > now
        )

    def forget(self, cursor: str, now: float) -> None:
        """The cursor is to be dropped.

        Raises:
            SpoolFailed: CURSOR_IN_USE while somebody holds it.
        """
        claim = self._claims.get(cursor)
        if claim is not None:
            self._refuse_held(cursor, claim, now)
            del self._claims[cursor]

    def _refuse_held(self, cursor: str, claim: _Claim, now: float) -> None:
        left = claim.until - now
        if claim.owner and left > 0:
            raise SpoolFailed(
                "CURSOR_IN_USE",
                f"cursor {cursor!r} is held by another query for {left:.1f} s more",
                "Stop that query, or give this one another name with option cursor",
            )


def _taken_over(cursor: str) -> SpoolFailed:
    return SpoolFailed(
        "CURSOR_IN_USE",
        f"cursor {cursor!r} was taken over by another query",
        "Let that query go on and stop this one, or give this one another name with option cursor",
    )
