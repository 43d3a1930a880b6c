"""What keeps messages from coming to an intake, or from leaving it: pure functions from how it
stands to the stalls of its status and its log."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aqueduct_core.errors import ConnectFailed
from aqueduct_core.flight.stalls import Stall, lasted
from aqueduct_core.flight.status import CursorOwner
from aqueduct_core.flight.subscription_status import SubscriptionStatus
from aqueduct_core.intake.storage.layout import named_by_users
from aqueduct_core.primitives.units import written_size

LATE_SECONDS = 60.0
"""For so long it is told that a commit came too late."""


@dataclass(frozen=True, slots=True)
class SpoolRoom:
    """How much a spool has stored of what it may. ``no_space``: its disk takes nothing more."""

    directory: Path
    bytes: int
    limit: int
    full: bool = False
    no_space: bool = False


@dataclass(frozen=True, slots=True)
class SlowCursor:
    """A cursor with rows that it has not passed.

    Args:
        behind: how many.
        quiet: seconds since its last commit; None: there was none in this life of the intake.
        held: a planner has it now.
    """

    name: str
    behind: int
    owner: CursorOwner | None
    held: bool
    quiet: float | None

    def __str__(self) -> str:
        query = "a query without a batch yet" if self.owner is None else f"query {self.owner.query}"
        where = "" if self.owner is None else f" ({self.owner.where})"
        runs = "which runs now" if self.held else "which does not run now"
        last = "no commit came from it since this intake started"
        if self.quiet is not None:
            last = f"its last commit was {lasted(self.quiet)} ago"
        return (
            f"cursor {self.name!r} of {query}{where}, {runs}, is {self.behind:,} rows behind; "
            f"{last}"
        )


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Who came to the listener of the intake ``name``: how many were let in and how many refused,
    and what was said of the last one of these."""

    name: str
    address: str
    accepted: int
    refused: int = 0
    last: str = ""


def endpoint_stalls(subscriptions: SubscriptionStatus | None, scheme: str) -> Iterator[Stall]:
    """Endpoints that something is wanted of, and that are not connected."""
    for endpoint in () if subscriptions is None else subscriptions.endpoints:
        if endpoint.connected or endpoint.over:
            continue
        silent = ConnectFailed("NO_REPLY", "it has not answered yet", "")
        kind = "endpoint-refuses" if endpoint.refused else "endpoint-down"
        subject = f"endpoint {scheme}://{endpoint.address}"
        yield Stall.of(kind, subject, endpoint.error or silent)


def spool_stalls(room: SpoolRoom, cursors: list[SlowCursor]) -> Iterator[Stall]:
    """A spool that takes nothing more, with the cursor that is furthest behind."""
    if room.no_space:
        yield Stall.of("disk-full", f"spool {room.directory}")
    elif room.full:
        slowest = max(cursors, key=lambda each: each.behind, default=None)
        directory = shlex.quote(str(named_by_users(room.directory)))
        if slowest is None:
            cause, remedy = "no query reads it", "Start one: what it has read is given back"
        elif slowest.held:
            cause = str(slowest)
            remedy = (
                "It reads more slowly than producers send: see how long its batches take, or raise "
                "spoolMaxBytes"
            )
        else:
            cause = str(slowest)
            remedy = (
                "Start that query again; where it is gone for good, give it up: aqueduct spool "
                f"cursors {directory} --drop {shlex.quote(slowest.name)}"
            )
        yield Stall.of(
            "spool-full",
            f"spool {room.directory}",
            cause,
            cause_remedy=remedy,
            size=f"{room.bytes / (1 << 20):,.1f} MiB",
            limit=written_size(room.limit),
        )


def arrival_stalls(arrivals: Arrivals) -> Iterator[Stall]:
    """A listener that nobody has come to, or nobody whom it let in."""
    if not arrivals.address or arrivals.accepted:
        return
    subject, at = f"the listener of {arrivals.name}", arrivals.address
    if arrivals.refused:
        yield Stall.of(
            "producers-refused", subject, arrivals.last, address=at, count=arrivals.refused
        )
    else:
        yield Stall.of("no-producer", subject, address=at)


def commit_stalls(name: str, channels: int, since: float) -> Iterator[Stall]:
    """Peers that gave channels up for want of commits; ``since``: seconds, of the last one."""
    if channels and since < LATE_SECONDS:
        yield Stall.of("commits-late", f"the commits of {name}", count=channels)


def slow_cursors(
    ends: Sequence[int],
    positions: Mapping[str, Sequence[int | None]],
    owners: Mapping[str, CursorOwner],
    held: tuple[str, ...],
    quiet: Mapping[str, float],
) -> list[SlowCursor]:
    """The cursors with rows that they have not passed. ``ends`` and positions have an entry for
    each log, None where a cursor does not read it."""
    found = []
    for name, at in positions.items():
        behind = sum(end - to for end, to in zip(ends, at, strict=True) if to is not None)
        if behind:
            found.append(SlowCursor(name, behind, owners.get(name), name in held, quiet.get(name)))
    return found
