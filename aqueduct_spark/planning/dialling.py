"""Whether each endpoint of a query is dialled by one of its intakes: a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.status import IntakeStatus


def check_dialled(endpoints: Sequence[str], statuses: Mapping[int, IntakeStatus]) -> None:
    """``statuses`` are those of all intakes of the query, by number.

    An endpoint that was dialled stays with its intake, which a query with a new checkpoint and
    fewer intakes does not have; and an intake that outlived its query dials what it was told then.

    Raises:
        InvalidOption: CONFLICT, naming an endpoint that none of them dials.
    """
    dialled = {
        endpoint.address
        for status in statuses.values()
        if status.subscriptions is not None
        for endpoint in status.subscriptions.endpoints
    }
    missed = [endpoint for endpoint in endpoints if endpoint not in dialled]
    if missed:
        count = len(statuses)
        raise InvalidOption(
            "CONFLICT",
            f"option endpoint names {missed[0]}, which no intake of this query dials "
            f"(numIntakes is {count})",
            "If more intakes shared this spool before, set numIntakes to as many; if the endpoint "
            "was added since they were launched, let them end first: stop the query for as long "
            "as option lease says",
        )
