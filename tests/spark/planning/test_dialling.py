"""Which intake dials which endpoint, as the query knows it."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.flight.subscription_status import EndpointState, SubscriptionStatus
from aqueduct_spark.model.offsets import SpoolPosition, StreamOffset
from aqueduct_spark.planning.dialling import check_dialled, dialled_elsewhere
from aqueduct_spark.planning.views import Seen


def dials(*endpoints: str, claims: tuple[str, ...] = ()) -> IntakeStatus:
    told = SubscriptionStatus(endpoints=tuple(map(EndpointState, endpoints)), claims=claims)
    return IntakeStatus("a", 1, (), (), {}, "", "h:1", 1, subscriptions=told)


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        ({0: dials("a:1", "b:2")}, None),
        ({0: dials("a:1"), 1: dials("b:2")}, None),
        ({0: dials("a:1", "b:2", "c:3"), 1: dials("c:3")}, None),  # nobody wants that one
        ({0: dials("a:1")}, r"names b:2, which no intake .*set numIntakes to as many"),
        ({0: dials("a:1", "b:2"), 1: dials("b:2")}, r"b:2, which intakes 0 and 1 .*b%3A2\.json"),
        ({0: dials("a:1", claims=("b:2",)), 1: dials("b:2")}, r"intakes 0 and 1 both dial"),
    ],
)
def test_each_endpoint_is_dialled_by_one_intake(
    statuses: dict[int, IntakeStatus], words: str | None
) -> None:
    if words is None:
        check_dialled(["a:1", "b:2"], statuses)
        return
    with pytest.raises(InvalidOption, match=rf"CONFLICT.*{words}"):
        check_dialled(["a:1", "b:2"], statuses)


def test_what_others_dial_is_known_of_those_that_are_away_too() -> None:
    offset = StreamOffset(
        {
            number: SpoolPosition(f"s{number}", "h:1", 1, (0,), endpoints)
            for number, endpoints in enumerate([("a:1",), ("b:2", "c:3"), ()])
        }
    )
    seen = {2: Seen("s2", 1, "h:1", (0,), (0,), (0,), 0, 0, ("d:4",))}
    assert dialled_elsewhere(0, offset, seen) == ("b:2", "c:3", "d:4")
    assert dialled_elsewhere(1, offset, seen) == ("a:1", "d:4")
    assert dialled_elsewhere(3, offset, seen) == ("a:1", "b:2", "c:3", "d:4")
