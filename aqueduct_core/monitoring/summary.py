"""What several intakes are together: of their statuses, pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor

from msgspec import structs

from aqueduct_core.flight.activity import ActivityStatus, CursorLag, Distribution, HistorySample
from aqueduct_core.flight.status import IntakeStatus

RECENT = 4
"""Samples of history from which the rate of the moment is had."""

SPACING = 2
STOPPED = 10.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class RateSample:
    """Messages and bytes a second, and messages behind, at a moment (seconds since 1970)."""

    at: float
    messages: float
    bytes: float
    lag: int


@dataclass(frozen=True, slots=True)
class Summary:
    """All intakes together. ``behind``: messages that the slowest query has not committed, or with
    no query yet (``read`` is false) all that are stored. ``oldest``: age of the oldest message that
    some query has not committed; ``acked``: seconds in which 95 % of groups were acked, None before
    the first; ``limit``: what all spools may take, 0 where it is not known."""

    messages: float
    bytes: float
    read: bool
    behind: int
    oldest: float
    stored: int
    limit: int
    connections: int
    channels: int
    repeated: int
    lost: int
    acked: float | None
    cursors: tuple[CursorLag, ...]
    history: tuple[RateSample, ...]

    @classmethod
    def of(cls, statuses: Sequence[IntakeStatus]) -> Summary:
        acting = [each.activity for each in statuses if each.activity is not None]
        cursors = _together(statuses)
        lags = [each.records for each in cursors if each.view == "messages"]
        kept = sum(each.history[-1].lag for each in acting if each.history)
        return cls(
            messages=sum(_rate(each, "messages") for each in acting),
            bytes=sum(_rate(each, "bytes") for each in acting),
            read=bool(lags),
            behind=max(lags, default=kept),
            oldest=max((age for each in statuses for age in each.oldest or ()), default=0.0),
            stored=sum(each.bytes for each in statuses),
            limit=sum(each.use.limit for each in statuses if each.use is not None),
            connections=sum(each.connections for each in statuses),
            channels=sum(each.channels for each in statuses),
            repeated=_counted(statuses, "deduped"),
            lost=_counted(statuses, "nacked") + _counted(statuses, "unreliable_dropped"),
            acked=_added([each.ack_seconds for each in acting]).quantile(0.95),
            cursors=cursors,
            history=_history(acting),
        )


def _counted(statuses: Iterable[IntakeStatus], name: str) -> int:
    return sum(each.counters.get(name, 0) for each in statuses)


def _rate(activity: ActivityStatus, what: str) -> float:
    samples = activity.history[-RECENT:]
    if len(samples) < 2:
        return 0.0
    more: int = getattr(samples[-1], what) - getattr(samples[0], what)
    return max(0.0, more / max(1.0, samples[-1].at - samples[0].at))


def _together(statuses: Iterable[IntakeStatus]) -> tuple[CursorLag, ...]:
    """A query has a cursor of one name on each of its intakes."""
    found: dict[tuple[str, str], CursorLag] = {}
    for lag in (lag for status in statuses for lag in status.lag or ()):
        known = found.get((lag.view, lag.cursor))
        if known is not None:
            lag = structs.replace(
                lag,
                records=lag.records + known.records,
                bytes=lag.bytes + known.bytes,
                seconds=max(lag.seconds, known.seconds),
                held=lag.held and known.held,
            )
        found[lag.view, lag.cursor] = lag
    return tuple(sorted(found.values(), key=lambda lag: (-lag.records, lag.cursor)))


def _added(distributions: Sequence[Distribution]) -> Distribution:
    alike = [each for each in distributions if each.bounds == distributions[0].bounds]
    if not alike:
        return Distribution()
    counts = zip(*(each.counts for each in alike), strict=True)
    return Distribution(alike[0].bounds, tuple(map(sum, counts)), sum(e.total for e in alike))


def _history(acting: Iterable[ActivityStatus]) -> tuple[RateSample, ...]:
    """At moments two seconds apart, at each of which every intake counts once, though their samples
    are of other moments. It ends where the first of them ends, but for one that has stopped."""
    histories = [each.history for each in acting if len(each.history) > 1]
    ends = [each[-1].at for each in histories]
    until = max(min(ends), max(ends) - STOPPED) if ends else 0.0
    found: dict[int, RateSample] = {}
    for before, after in (pair for each in histories for pair in pairwise(each)):
        for number in range(floor(before.at / SPACING) + 1, floor(after.at / SPACING) + 1):
            slot = number * SPACING
            known = found.get(slot, RateSample(slot, 0.0, 0.0, 0))
            found[slot] = RateSample(
                slot,
                known.messages + _between(before, after, "messages"),
                known.bytes + _between(before, after, "bytes"),
                known.lag + after.lag,
            )
    return tuple(found[slot] for slot in sorted(found) if slot <= until)


def _between(before: HistorySample, after: HistorySample, what: str) -> float:
    more: int = getattr(after, what) - getattr(before, what)
    return max(0.0, more / max(0.5, after.at - before.at))
