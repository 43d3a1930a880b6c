"""When to launch intakes again, and when to give up: no clock, no asking.

Times are monotonic seconds, given by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from aqueduct_core.errors import DataLoss, IntakeFailed
from aqueduct_core.flight.error_codec import ErrorForm
from aqueduct_spark.planning.progress import give_up

MAX_LAUNCHES = 5
"""Launches in a row after each of which the intake was not there: it ends as soon as it runs."""

SHOWN = 8
"""Hosts named in an error."""

MAX_COPIES = 8
"""Launch tasks for one intake in one batch, when its spool is searched for on executors."""


Absent: TypeAlias = Mapping[int, Mapping[str, str | None]]
"""By intake the hosts that do not have its spool, with the spool in its place, if there is one."""


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """What a task that launches an intake says of it.

    ``pid`` is of the task's process. ``cause`` is why the intake does not run yet, ``failed``: this
    task has given up for it.
    """

    host: str
    pid: int
    cause: ErrorForm | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class PendingLaunch:
    """An intake that is to run and is not registered yet. ``since`` is when it was ordered, or its
    task reported, ``report`` the last report: None: no task has begun. Monotonic seconds."""

    since: float
    report: LaunchReport | None = None


@dataclass(slots=True)
class _Search:
    since: float
    launches: int = 0
    searching_since: float | None = None
    rounds: int = 0
    hosts: dict[str, str | None] = field(default_factory=dict)

    @property
    def other(self) -> str | None:
        """Another spool in its place, on some host."""
        return next((found for found in self.hosts.values() if found is not None), None)


class Launches:
    """Keeps count of the launches of the intakes that are missing.

    A launch on an executor where the spool of the intake is not starts nothing and says so: the
    task is then offered to more executors at once, until ``timeout`` seconds are over. Then it is
    an error, whatever was found in its place: Spark does not say which hosts there are, or were,
    and a volume that is not mounted looks like an empty directory, or like that of an earlier
    query. A spool that nobody sees is not lost.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._missing: dict[int, _Search] = {}

    def note(
        self,
        missing: Sequence[int],
        absent: Absent,
        spools: Mapping[int, str],
        now: float,
    ) -> None:
        """``missing`` intakes are about to be launched.

        ``absent`` are the hosts that reported since the last call that the spool is not there,
        ``spools`` the ids that the offset knows.

        Raises:
            IntakeFailed: UNREACHABLE when one was launched in vain too often, or its spool was
                searched for long enough.
            DataLoss: SPOOL_REPLACED when meanwhile another one was found in its place.
        """
        for intake in [i for i in self._missing if i not in missing]:
            del self._missing[intake]
        for intake in missing:
            search = self._missing.setdefault(intake, _Search(now))
            hosts = absent.get(intake)
            if hosts:
                search.hosts.update(hosts)
                search.rounds += 1
                search.launches = 0
                if search.searching_since is None:
                    search.searching_since = now
            self._check(intake, search, spools, now)
            search.launches += 1

    def copies(self, intake: int) -> int:
        """How many tasks are to be offered the launch: more with each time it was in vain."""
        search = self._missing.get(intake)
        return 1 if search is None else min(MAX_COPIES, 2**search.rounds)

    def searched(self) -> dict[int, list[str]]:
        """By intake whose spool is searched for, the hosts that do not have it."""
        return {i: sorted(search.hosts)[:SHOWN] for i, search in self._missing.items()}

    def _over(self, search: _Search, now: float) -> bool:
        began = search.searching_since
        return began is not None and now - began >= self._timeout

    def pause(self) -> float:
        """Seconds to wait before the next launch, longer with each that was in vain."""
        most = max((search.launches for search in self._missing.values()), default=0)
        return 0.0 if most <= 1 else min(1.0, 0.1 * 2**most)

    def _check(self, intake: int, search: _Search, spools: Mapping[int, str], now: float) -> None:
        if search.launches >= MAX_LAUNCHES:
            raise IntakeFailed(
                "UNREACHABLE",
                f"Intake {intake} was launched {search.launches} times in a row and did not stay",
                "Read intake.log in its spool directory",
            )
        if not self._over(search, now):
            return
        hosts = ", ".join(sorted(search.hosts)[:SHOWN])
        spool = spools.get(intake, "?")
        what = (
            f"Spool {spool} of intake {intake} was found on none of the "
            f"executors asked within {self._timeout:g} s ({hosts})"
        )
        if search.other is None:
            raise IntakeFailed(
                "UNREACHABLE",
                what,
                "Mount its volume or bring its directory back, share it between executors, raise "
                f"'launchTimeout', or start with a new checkpoint; {give_up(spool)}",
            )
        raise DataLoss(
            "SPOOL_REPLACED",
            f"{what}, and spool {search.other} is in its place",
            "Bring it back or share it between executors, raise 'launchTimeout', or start with a "
            f"new checkpoint; {give_up(spool)}",
        )
