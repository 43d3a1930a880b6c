"""When intakes are launched again, and when that is given up."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import DataLoss, IntakeFailed
from aqueduct_spark.planning.launches import MAX_COPIES, MAX_LAUNCHES, Launches


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
        assert launches.copies(0) == 1
        assert launches.pause() == (0.4 if n % 3 == 2 else 0.0)


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
