"""Which intake of a query dials which endpoint, as the query knows it: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_spark.model.offsets import StreamOffset
from aqueduct_spark.planning.views import Seen


def dialled_elsewhere(
    intake: int, offset: StreamOffset, seen: Mapping[int, Seen]
) -> tuple[str, ...]:
    """The endpoints that stay with other intakes than this one: as they say, and as those that are
    away said before."""
    others = [each.dials for number, each in seen.items() if number != intake]
    others += [each.dials for number, each in offset.spool.items() if number != intake]
    return tuple(sorted({endpoint for dials in others for endpoint in dials}))


def check_dialled(endpoints: Sequence[str], statuses: Mapping[int, IntakeStatus]) -> None:
    """Whether each endpoint is dialled by one intake. ``statuses`` are those of all intakes of the
    query, by number.

    An endpoint that was dialled stays with its intake, which a query with a new checkpoint and
    fewer intakes does not have; and intakes on hosts that share no volume may have taken one each
    for itself, before the query knew of both.

    Raises:
        InvalidOption: CONFLICT, naming an endpoint that none of them dials, or two do.
    """
    told = {
        number: status.subscriptions
        for number, status in statuses.items()
        if status.subscriptions is not None
    }
    for endpoint in endpoints:
        dialling = [
            number
            for number, each in sorted(told.items())
            if endpoint in each.claims or any(one.address == endpoint for one in each.endpoints)
        ]
        if not dialling:
            raise InvalidOption(
                "CONFLICT",
                f"option endpoint names {endpoint}, which no intake of this query dials "
                f"(numIntakes is {len(statuses)})",
                "If more intakes shared this spool before, set numIntakes to as many",
            )
        if len(dialling) > 1:
            from aqueduct_core.intake.sessions.endpoint_claims import claim_name

            first, second = dialling[:2]
            raise InvalidOption(
                "CONFLICT",
                f"option endpoint names {endpoint}, which intakes {first} and {second} both dial: "
                "each has claimed it on a host of its own",
                "Settle which of them keeps it: stop the query until its intakes have ended "
                f"(option lease), remove the claim {claim_name(endpoint)} in the folder "
                "endpoints of option spool on the host of the other one, and start the query again",
            )
