"""What a query waits for, from what its planner knows: a table of cases."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from aqueduct_core.errors import ConnectFailed, IntakeFailed, SpoolFailed
from aqueduct_core.flight.error_codec import ErrorForm
from aqueduct_core.flight.stalls import Stall, StallLog
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_spark.planning.admission import AdmissionDelay
from aqueduct_spark.planning.launches import LaunchReport, PendingLaunch
from aqueduct_spark.planning.stalls import (
    Held,
    intakes_down,
    launches_waiting,
    rows_held,
    spools_away,
    told_by_intakes,
)

GONE = IntakeFailed("UNREACHABLE", "the intake at h:7 does not answer: refused", "x")
PORT = ConnectFailed("REFUSED", "0.0.0.0:4433 is in use", "Free the port, or set another 'listen'")
TAKEN = SpoolFailed("LOCKED", "/data/spool/intake-0 is owned by process 7", "Stop it")


def launch(report: LaunchReport | None) -> Iterable[Stall]:
    return launches_waiting({0: PendingLaunch(10.0, report)}, "/data/spool", 15.0)


def report(cause: Exception | None = None, *, failed: bool = False) -> LaunchReport:
    form = None if cause is None else ErrorForm.of(cause)  # type: ignore[arg-type]
    return LaunchReport("worker-3", 42, form, failed)


@pytest.mark.parametrize(
    ("found", "said", "remedy"),
    [
        (
            intakes_down({"intake 0": GONE}, launched=True),
            "[AQUEDUCT_INTAKE.UNREACHABLE] intake 0 does not answer: the intake at h:7",
            "how it ended; the next batch starts it again",
        ),
        (
            intakes_down({"intake at h:7": GONE}, launched=False),
            "[AQUEDUCT_INTAKE.UNREACHABLE] intake at h:7 does not answer: refused. ",
            "name its Flight address in option intakes; it is waited for. ",
        ),
        (
            launch(None),
            "[AQUEDUCT_INTAKE.LAUNCH_TIMEOUT] the launch of intake 0 waits: no executor has begun",
            "a free task slot",
        ),
        (
            launch(report()),
            "[AQUEDUCT_INTAKE.LAUNCH_TIMEOUT] intake 0 is not ready on host worker-3",
            "Read intake.log in /data/spool/intake-0 on that host",
        ),
        (
            launch(report(TAKEN)),
            "[AQUEDUCT_INTAKE.LAUNCH_TIMEOUT] intake 0 is not ready on host worker-3: "
            "/data/spool/intake-0 is owned by process 7",
            "it is waited for, up to launchTimeout",
        ),
        (
            launch(report(PORT, failed=True)),
            "[AQUEDUCT_CONNECT.REFUSED] intake 0 could not be started on host worker-3: "
            "0.0.0.0:4433 is in use",
            "Free the port, or set another 'listen'; Spark tries again",
        ),
        (
            spools_away({0: ["a", "b"], 1: []}),
            "[AQUEDUCT_INTAKE.UNREACHABLE] the spool of intake 0 is on none of the executors that "
            "were asked (a, b)",
            "Mount its volume there",
        ),
        (
            rows_held(Held(1_200, AdmissionDelay(5_000, 900.0, 8.0)), 15.0),
            "1,200 rows wait for more, as minOffsetsPerTrigger=5000 asks",
            "after maxTriggerDelay=900s at the latest",
        ),
    ],
)
def test_each_state_is_said_with_its_cause_and_remedy(
    found: Iterable[Stall], said: str, remedy: str
) -> None:
    (stall,) = found
    assert str(stall).startswith(said)
    assert remedy in str(stall)
    if stall.error is not None:
        assert (stall.error.what, stall.error.remedy) == (stall.what, stall.remedy)
        assert stall.meanwhile not in str(stall.error) or not stall.meanwhile


def test_what_is_done_about_an_intake_takes_the_place_of_what_it_is() -> None:
    """It goes down, is launched again, is slow to start, and runs: one end of it all."""
    log, told = StallLog(), list[str]()
    down = list(intakes_down({"intake 0": GONE}, launched=True))
    for now in range(20):
        pending = {} if now < 6 else {0: PendingLaunch(6.0, report() if now > 8 else None)}
        found = [*down, *launches_waiting(pending, "/s", float(now))]
        told += [line.text for line in log.observe(found if now < 18 else [], float(now))]
    assert [text.split("] ")[-1][:22] for text in told[:2]] == [
        "intake 0 does not answ",
        "intake 0 is not ready ",
    ]
    assert told[2:] == ["intake 0 runs, after 18 s"]


def test_nothing_is_held_where_rows_may_go() -> None:
    assert list(rows_held(None, 1.0)) == []
    assert list(rows_held(Held(0, AdmissionDelay(5, 9.0)), 1.0)) == []


def test_intakes_on_their_own_may_call_their_spools_the_same() -> None:
    own = Stall.of("disk-full", "spool /data/spool")
    statuses = {
        n: IntakeStatus("id", 1, (), (), {}, "", f"h{n}:1", 1, stalls=(own,)) for n in (0, 1)
    }
    subjects = [stall.subject for stall in told_by_intakes(statuses, launched=False)]
    assert subjects == [f"spool /data/spool (intake at h{n}:1)" for n in (0, 1)]
    assert [*told_by_intakes({0: statuses[0]}, launched=True)] == [own]
