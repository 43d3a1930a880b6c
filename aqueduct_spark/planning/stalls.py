"""What keeps a query from going on, from what its planner knows: pure functions.

An intake tells what stands still with it (`IntakeStatus.stalls`); a query adds the intakes that do
not answer or are not there yet. Times are monotonic seconds, given by the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from aqueduct_core.errors import AqueductError, IntakeFailed
from aqueduct_core.flight.stalls import Stall
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.primitives.units import written_duration
from aqueduct_spark.planning.admission import AdmissionDelay
from aqueduct_spark.planning.launches import PendingLaunch

LAUNCHED_AGAIN = "Its intake.log in its directory of the spool says how it ended"
STARTED_BY_OTHERS = "Start it again, or name its Flight address in option intakes"


class Held(NamedTuple):
    """Rows that wait for more to come, by the options of the query."""

    rows: int
    delay: AdmissionDelay


def told_by_intakes(statuses: Mapping[int, IntakeStatus], *, launched: bool) -> Iterator[Stall]:
    """What the intakes say. Those that run on their own may call their spools the same."""
    for status in statuses.values():
        for stall in status.stalls:
            name = f"{stall.subject} (intake at {status.flight})"
            yield stall if launched else structs.replace(stall, subject=name)


def intakes_down(troubles: Mapping[str, AqueductError], *, launched: bool) -> Iterator[Stall]:
    """The intakes that do not answer, by what they are called."""
    remedy = LAUNCHED_AGAIN if launched else STARTED_BY_OTHERS
    meanwhile = "the next batch starts it again" if launched else "it is waited for"
    for name, error in troubles.items():
        cause = error.what.removeprefix(f"the {name} does not answer: ")
        yield Stall.of("intake-down", name, cause, cause_remedy=remedy, meanwhile=meanwhile)


def launches_waiting(
    pending: Mapping[int, PendingLaunch], spool: str, now: float
) -> Iterator[Stall]:
    """Intakes that are to be started and do not run yet."""
    for intake, launch in pending.items():
        name, report = f"intake {intake}", launch.report
        seconds = max(0.0, now - launch.since)
        if report is None:
            stall = Stall.of("launch-waits", name)
        else:
            cause = None if report.cause is None else report.cause.error
            place = f"host {report.host}"
            if report.failed:
                cause = cause or IntakeFailed("UNREACHABLE", "for no known reason", "Try again")
                stall = Stall.of("launch-fails", name, cause, place=place)
            else:
                said = "its process has not said so" if cause is None else cause.what
                directory = f"{spool}/intake-{intake}"
                stall = Stall.of("launch-slow", name, said, place=place, directory=directory)
        yield structs.replace(stall, seconds=seconds)


def spools_away(hosts: Mapping[int, Sequence[str]]) -> Iterator[Stall]:
    """Intakes whose spool was looked for on these hosts, in vain."""
    for intake, names in hosts.items():
        if names:
            yield Stall.of("spool-away", f"intake {intake}", place=", ".join(names))


def rows_held(held: Held | None, now: float) -> Iterator[Stall]:
    """Rows that wait because the query wants more at a time."""
    if held is not None and held.delay.since is not None:
        stall = Stall.of(
            "few-rows",
            "the stream",
            count=f"{held.rows:,}",
            limit=held.delay.least,
            seconds=written_duration(held.delay.longest),
        )
        yield structs.replace(stall, seconds=max(0.0, now - held.delay.since))
