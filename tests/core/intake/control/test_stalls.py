"""From how an intake stands to what it says of that: a table of cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.errors import AqueductError, ConnectFailed, TlsFailed, VersionMismatch
from aqueduct_core.flight.error_codec import ErrorForm
from aqueduct_core.flight.stalls import Stall
from aqueduct_core.flight.status import CursorOwner
from aqueduct_core.flight.subscription_status import EndpointState, SubscriptionStatus
from aqueduct_core.intake.control.stalls import (
    LATE_SECONDS,
    Arrivals,
    SpoolRoom,
    arrival_stalls,
    commit_stalls,
    endpoint_stalls,
    slow_cursors,
    spool_stalls,
)

SPOOL = Path("/data/spool/intake-0")
OWNER = CursorOwner("q1", "host h, process 7", 0.0)


def endpoint(error: AqueductError | None = None, **state: bool) -> list[Stall]:
    form = None if error is None else ErrorForm.of(error)
    one = EndpointState("h:1", attempts=1, failure=form, **state)
    return list(endpoint_stalls(SubscriptionStatus(endpoints=(one,)), "aqueduct"))


@pytest.mark.parametrize(
    ("error", "refused", "kind", "said"),
    [
        (None, False, "endpoint-down", "CONNECT.NO_REPLY"),
        (ConnectFailed("DNS", "no such host", "x"), False, "endpoint-down", "CONNECT.DNS"),
        (TlsFailed("UNKNOWN_CA", "not ours", "Set tls.caFile"), True, "endpoint-refuses", "TLS.UN"),
        (VersionMismatch("", "version 9", "Upgrade"), True, "endpoint-refuses", "VERSION_MISMATCH"),
    ],
)
def test_an_endpoint_that_is_not_connected(
    error: AqueductError | None, refused: bool, kind: str, said: str
) -> None:
    (stall,) = endpoint(error, refused=refused)
    assert (stall.kind, stall.subject) == (kind, "endpoint aqueduct://h:1")
    assert f"[AQUEDUCT_{said}" in str(stall)
    assert error is None or error.what in str(stall)
    assert not refused or (error is not None and error.remedy in str(stall))


def test_an_endpoint_that_nothing_is_wanted_of_is_no_stall() -> None:
    assert endpoint(connected=True) == endpoint(over=True) == []
    assert list(endpoint_stalls(None, "")) == []


def room(**given: bool) -> SpoolRoom:
    return SpoolRoom(SPOOL, 64 << 20, 64 << 20, full=True, **given)


@pytest.mark.parametrize(
    ("held", "words", "remedy"),
    [
        (("a", "b"), "which runs now", "raise spoolMaxBytes"),
        (("a",), "which does not run now", "cursors /data/spool --drop b"),
    ],
)
def test_a_full_spool_names_the_cursor_that_is_furthest_behind(
    held: tuple[str, ...], words: str, remedy: str
) -> None:
    cursors = slow_cursors(
        (100, 1_500, 9),
        {"a": (90, 1_500, None), "b": (0, 0, None), "events": (None, None, 9)},
        {"b": OWNER},
        held,
        {"b": 62.0},
    )
    assert [each.name for each in cursors] == ["a", "b"]
    (stall,) = spool_stalls(room(), cursors)
    said = str(stall)
    assert said.startswith(
        "[AQUEDUCT_SPOOL.FULL] spool /data/spool/intake-0 is full (64.0 MiB of spoolMaxBytes=64m)"
    )
    assert "cursor 'b' of query q1 (host h, process 7), " in said
    assert f"{words}, is 1,600 rows behind; its last commit was 1 min 2 s ago" in said
    assert remedy in said


def test_a_full_spool_that_nobody_reads_says_so() -> None:
    (stall,) = spool_stalls(room(), [])
    assert "no query reads it" in str(stall)


def test_a_full_disk_is_not_the_fault_of_a_cursor() -> None:
    (stall,) = spool_stalls(room(no_space=True), [])
    assert stall.kind == "disk-full"
    assert "the disk of spool /data/spool/intake-0 is full" in str(stall)


def test_a_spool_with_room_is_no_stall() -> None:
    assert list(spool_stalls(SpoolRoom(SPOOL, 1, 2), [])) == []


@pytest.mark.parametrize(
    ("arrivals", "kind", "said"),
    [
        (
            Arrivals("east", "h:2", 0),
            "no-producer",
            "connected yet to the listener of east at h:2",
        ),
        (
            Arrivals("east", "h:2", 0, 3, "1.2.3.4:5 refused: no token"),
            "producers-refused",
            "has refused 3, the last time so: 1.2.3.4:5 refused: no token",
        ),
        (Arrivals("east", "h:2", 1, 3, "x"), None, ""),
        (Arrivals("east", "", 0), None, ""),
    ],
)
def test_who_came_to_a_listener(arrivals: Arrivals, kind: str | None, said: str) -> None:
    found = list(arrival_stalls(arrivals))
    assert [stall.kind for stall in found] == ([] if kind is None else [kind])
    assert all(said in str(stall) for stall in found)


def test_commits_that_come_too_late_are_told_for_a_while() -> None:
    [stall] = commit_stalls("orders", 3, LATE_SECONDS - 1)
    assert stall.subject == "the commits of orders"
    assert "peers have given up 3 channels" in stall.what
    assert "ackLevel=stored" in stall.remedy
    assert not [*commit_stalls("orders", 3, LATE_SECONDS)]
    assert not [*commit_stalls("orders", 0, 0.0)]
