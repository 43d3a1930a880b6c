"""When intakes are launched again, which number they have, and when few messages wait: tables."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import DataLoss, IntakeFailed, InvalidOption
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.flight.subscription_status import EndpointState, SubscriptionStatus
from aqueduct_spark.model.offsets import SpoolPosition, StreamOffset
from aqueduct_spark.planning.admission_delay import AdmissionDelay
from aqueduct_spark.planning.dialling import check_dialled, dialled_elsewhere
from aqueduct_spark.planning.launches import MAX_COPIES, MAX_LAUNCHES, Launches
from aqueduct_spark.planning.placement import numbered
from aqueduct_spark.planning.views import Seen

# --- launches -------------------------------------------------------------------------------------


def test_an_intake_that_does_not_stay_is_given_up() -> None:
    launches = Launches(60.0)
    for n in range(MAX_LAUNCHES):
        launches.note([0, 1] if n else [0], {}, {}, float(n))
        assert launches.copies(0) == 1
    with pytest.raises(IntakeFailed, match="Intake 0 was launched 5 times") as failed:
        launches.note([0, 1], {}, {}, 9.0)
    assert failed.value.subclass == "UNREACHABLE"


def test_an_intake_that_came_counts_anew() -> None:
    launches = Launches(60.0)
    for n in range(3 * MAX_LAUNCHES):
        launches.note([0] if n % 3 else [], {}, {}, float(n))


def test_pauses_grow() -> None:
    launches = Launches(60.0)
    assert launches.pause() == 0
    pauses = []
    for n in range(MAX_LAUNCHES):
        launches.note([0], {}, {}, float(n))
        pauses.append(launches.pause())
    assert pauses == sorted(pauses)
    assert pauses[0] == 0
    assert pauses[-1] == 1


def test_fault_42_a_spool_that_nobody_sees_is_unreachable_and_not_replaced() -> None:
    launches = Launches(60.0)
    copies = []
    for n in range(3 * MAX_LAUNCHES):
        launches.note([0], {0: {f"host-{n}": None}} if n else {}, {0: "a"}, float(n))
        copies.append(launches.copies(0))
    assert copies[:4] == [1, 2, 4, MAX_COPIES]
    assert set(copies[4:]) == {MAX_COPIES}
    words = r"UNREACHABLE.*Spool a of intake 0 .*host-1, host-10, .*lostSpools=a"
    with pytest.raises(IntakeFailed, match=words):
        launches.note([0], {}, {0: "a"}, 61.0)


def test_fault_42_a_spool_in_the_place_of_another_is_an_error_that_names_the_way_out() -> None:
    launches = Launches(60.0)
    launches.note([0], {0: {"g": None, "h": "b"}}, {0: "a"}, 0.0)
    launches.note([0], {0: {"g": None}}, {0: "a"}, 59.0)
    words = r"SPOOL_REPLACED.*Spool a .*spool b is in its place.*lostSpools=a"
    with pytest.raises(DataLoss, match=words):
        launches.note([0], {}, {0: "a"}, 60.0)


# --- dialling -------------------------------------------------------------------------------------


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


# --- placement ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "served", "found"),
    [
        ({}, [], {}),
        ({}, ["a", "b"], {0: 0, 1: 1}),
        ({}, [None, "b"], {1: 1}),
        ({0: "a", 1: "b"}, ["b", "a"], {0: 1, 1: 0}),  # the order of addresses has no say
        ({0: "a", 1: "b"}, [None, "a"], {0: 1}),
        ({0: "a", 1: "b"}, ["c", None], {}),  # its number may be that of the one not seen
        ({0: "a"}, ["b", "a"], {0: 1, 1: 0}),  # one more, named first
        ({0: "a"}, ["a", "b", "c"], {0: 0, 1: 1, 2: 2}),
        ({0: "a"}, ["b", None, "c"], {2: 2, 1: 0}),
        ({0: "a", 1: "b"}, ["a", "c"], {0: 0, 1: 1}),  # replaced: planning tells of the loss
        ({0: "a", 1: "b"}, ["c", "a"], {0: 1, 1: 0}),
        ({0: "a", 1: "b"}, ["b"], {1: 0}),  # fewer addresses: planning refuses them
    ],
)
def test_numbers_of_standalone_intakes(
    known: dict[int, str], served: list[str | None], found: dict[int, int]
) -> None:
    assert numbered(known, served) == found


def test_an_intake_named_twice_is_refused() -> None:
    with pytest.raises(InvalidOption, match="spool a twice"):
        numbered({}, ["a", "b", "a"])


# --- patience -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "rows", "now", "remaining"),
    [
        (None, 1, 0.0, 0.0),
        (10, 0, 0.0, 0.0),
        (10, 1, 0.0, 60.0),
        (10, 9, 59.0, 1.0),
        (10, 9, 60.0, 0.0),
        (10, 10, 0.0, 0.0),
    ],
)
def test_few_messages_wait_but_not_for_ever(
    least: int | None, rows: int, now: float, remaining: float
) -> None:
    patience = AdmissionDelay(least, 60.0).seeing(min(rows, 1), 0.0).seeing(rows, now)
    assert patience.remaining(rows, now) == remaining


def test_the_wait_begins_with_the_first_message() -> None:
    patience = AdmissionDelay(10, 60.0).seeing(0, 0.0).seeing(1, 100.0).seeing(2, 130.0)
    assert patience.remaining(2, 130.0) == 30.0
    assert patience.seeing(0, 140.0).seeing(1, 150.0).remaining(1, 150.0) == 60.0
