"""When to launch intakes again, and when to give up: no clock, no asking.

Times are monotonic seconds, given by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from aqueduct_core.errors import DataLoss, IntakeFailed

MAX_LAUNCHES = 5
"""Launches in a row after each of which the intake was not there: it ends as soon as it runs."""

SHOWN = 8
"""Hosts named in an error."""

MAX_COPIES = 8
"""Launch tasks for one intake in one batch, when its spool is searched for on executors."""


@dataclass(slots=True)
class _Search:
    since: float
    launches: int = 0
    searching_since: float | None = None
    rounds: int = 0
    hosts: set[str] = field(default_factory=set)


class Launches:
    """Keeps count of the launches of the intakes that are missing.

    A launch on an executor where the spool of the intake is not starts nothing and says so: the
    task is then offered to more executors at once, until ``timeout`` seconds are over. Then the
    spool is lost: with ``fail_on_data_loss`` that is an error, else a new one may be made.
    """

    def __init__(self, timeout: float, fail_on_data_loss: bool) -> None:
        self._timeout = timeout
        self._fail = fail_on_data_loss
        self._missing: dict[int, _Search] = {}

    def note(
        self,
        missing: Sequence[int],
        absent: Mapping[int, Iterable[str]],
        spools: Mapping[int, str],
        now: float,
    ) -> None:
        """``missing`` intakes are about to be launched.

        ``absent`` are the hosts that reported since the last call that the spool is not there,
        ``spools`` the ids that the offset knows.

        Raises:
            IntakeFailed: UNREACHABLE when one was launched in vain too often.
            DataLoss: SPOOL_REPLACED when a spool was searched for long enough.
        """
        for intake in [i for i in self._missing if i not in missing]:
            del self._missing[intake]
        for intake in missing:
            search = self._missing.setdefault(intake, _Search(now))
            hosts = set(absent.get(intake, ()))
            if hosts:
                search.hosts |= hosts
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

    def may_replace(self, intake: int, now: float) -> bool:
        """Whether a new spool may take the place of the one that the offset knows."""
        search = self._missing.get(intake)
        return (
            not self._fail
            and search is not None
            and search.searching_since is not None
            and now - search.searching_since >= self._timeout
        )

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
        began = search.searching_since
        if self._fail and began is not None and now - began >= self._timeout:
            hosts = ", ".join(sorted(search.hosts)[:SHOWN])
            raise DataLoss(
                "SPOOL_REPLACED",
                f"Spool {spools.get(intake, '?')} of intake {intake} was found on none of the "
                f"executors asked within {self._timeout:g} s ({hosts})",
                "Bring it back or share it between executors, raise 'launchTimeout', start with a "
                "new checkpoint, or set failOnDataLoss=false to go on with a new spool",
            )
