"""Whether an intake that runs already may go on for a query: it got its options at its start, and
the query may have come back with others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.intake.settings.in_force import differing, in_force
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.intake.settings.recorded import admission_of, check_same
from aqueduct_spark.intakes.cursor_leases import PlannerLeases

log = logging.getLogger(__name__)


class Adoption:
    """Looks once at each life of an intake.

    One that runs with other options ends in good order, to be launched with those of this query;
    unless another query uses it, which would lose what it needs. That happens once for each
    intake in a run: of two queries that come at a time with different options one is refused, and
    they do not end each other's intakes in turn.

    Args:
        wanted: the settings that the query has for the intake of that number, whose spool has
            that id.
    """

    def __init__(self, wanted: Callable[[int, str], IntakeSettings]) -> None:
        self._wanted = wanted
        self._adopted: set[tuple[str, int]] = set()
        self._ended: set[int] = set()

    def accepts(
        self, intake: int, status: IntakeStatus, client: IntakeClient, leases: PlannerLeases
    ) -> bool:
        """False: it is about to end. May wait for planners that are gone (`PlannerLeases.others`).

        Raises:
            InvalidOption: CONFLICT, naming the option.
            SpoolFailed: CURSOR_IN_USE: it is not for this query to end it.
            AqueductError: the intake does not answer.
        """
        life = status.id, status.epoch
        if life in self._adopted:
            return True
        settings = self._wanted(intake, status.id)
        # one of an earlier release does not say what it runs with
        if status.settings or status.subscriptions is not None:
            check_same(admission_of(settings), status.settings, Path(settings.spool))
        wanted, running = in_force(settings), status.in_force
        options = differing(wanted, running) if running else []
        if not options:
            self._adopted.add(life)
            return True
        users = leases.others(status, client)
        if users or intake in self._ended:
            first = options[0]
            raise _conflict(intake, first, wanted.get(first), running.get(first), users)
        log.info("intake %d ends, to be started with other options: %s", intake, ", ".join(options))
        client.drain()
        self._ended.add(intake)
        return False


def _conflict(
    intake: int, option: str, wanted: str | None, running: str | None, users: Sequence[str]
) -> InvalidOption:
    there = "none" if running is None else "another one" if _hidden(running) else running
    cursors = f"cursor {', '.join(users)}" if users else "another cursor"
    return InvalidOption(
        "CONFLICT",
        f"option {option} {_shown(wanted)}, and intake {intake}, which a query with {cursors} "
        f"uses, runs with {there}",
        f"Give all queries of the spool the same {option}; or stop the other one, and start this "
        "one again: the intake then ends and comes back with the options of this query",
    )


def _shown(value: str | None) -> str:
    if value is None:
        return "is not given"
    return "has changed" if _hidden(value) else f"is {value!r}"


def _hidden(value: str) -> bool:
    return value.startswith("#")
