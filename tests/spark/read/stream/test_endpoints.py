"""Who dials which endpoint, whatever number of intakes there is: real intakes, no Spark."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_spark.intakes import attach
from aqueduct_spark.model.offsets import StreamOffset
from aqueduct_spark.model.partitions import LaunchOrder
from tests.spark.read.stream.loop import Loop, Yard
from tests.spark.scene import PATIENCE
from tests.support.remote import End, RemoteThread, Script, payloads
from tests.support.waiting import wait_until


@pytest.fixture
def hosts(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each intake has a host of its own: its spool is beside no other one."""
    yard.spool.mkdir()
    real = attach.launch_order

    def elsewhere(*given: Any) -> LaunchOrder:
        order = real(*given)
        home = yard.home / f"host-{order.intake}" / f"intake-{order.intake}"
        home.parent.mkdir(exist_ok=True)
        seen = yard.spool / home.name  # by the tests
        if not seen.is_symlink():
            seen.symlink_to(home)
        return replace(order, settings=structs.replace(order.settings, spool=str(home)))

    monkeypatch.setattr(attach, "launch_order", elsewhere)


def dial(yard: Yard, remotes: list[RemoteThread], count: int, begin: StreamOffset | None) -> Loop:
    return yard.loop(
        begin,
        endpoint="aqueduct://" + ",".join(remote.endpoint for remote in remotes),
        tls_insecure="true",
        subscribe="a",
        numIntakes=str(count),
    )


def asked(loop: Loop) -> bool:
    """Whether all that was asked for has come: its end, or as much as there is."""
    loop.batch()
    statuses = loop.planner._clients.statuses().values()
    told = [one.subscriptions for one in statuses if one.subscriptions is not None]
    came = sum(one.counters["rows"] + one.counters["deduped"] for one in statuses)
    return sum(one.finished for one in told) >= 2 or (
        sum(one.open for one in told) >= 2 and came >= 30
    )


@pytest.mark.parametrize("rounds", [(1, 2, 1), pytest.param((2, -2, 1), marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("end", "place"),
    [
        ("finish", "hosts"),
        pytest.param("stay", "hosts", marks=pytest.mark.long),
        ("stay", ""),
    ],
)
def test_fault_41_what_was_asked_for_belongs_to_the_endpoint(
    yard: Yard,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    end: End,
    place: str,
    rounds: tuple[int, ...],
) -> None:
    """30 rows of two endpoints, whatever number of intakes asks for them, in which order they are
    named (-2: the other way round), and whether each intake is on a host of its own."""
    if place:
        request.getfixturevalue(place)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    script = Script(15, end=end)
    with (
        RemoteThread({"a": script}, tmp_path / "one", producer="1", sequence_start=0) as one,
        RemoteThread({"a": script}, tmp_path / "two", producer="2", sequence_start=0) as two,
    ):
        rows = []
        at = None
        for count in rounds:
            remotes = [one, two] if count > 0 else [two, one]
            loop = dial(yard, remotes, abs(count), at)
            wait_until(partial(asked, loop), PATIENCE, "the end of what is asked for")
            loop.to_the_end()
            rows += loop.messages()
            at = loop.at
            loop.close()
            for index in at.spool:
                yard.kill(index)
        told = [row["value"] for row in rows]
        assert sorted(told) == sorted(2 * payloads("a", script))


def test_an_endpoint_that_no_intake_of_the_query_dials_is_told(yard: Yard, tmp_path: Path) -> None:
    """It stays with an intake that a new checkpoint does not know."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    script = Script(15, end="stay")
    with (
        RemoteThread({"a": script}, tmp_path / "one") as one,
        RemoteThread({"a": script}, tmp_path / "two") as two,
    ):
        first = dial(yard, [one, two], 2, None)
        first.until(30)
        first.close()
        with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
            client.give_cursor("query")
        again = dial(yard, [one, two], 1, None)
        with pytest.raises(InvalidOption, match="CONFLICT") as refused:
            again.until(1)
        assert two.endpoint in str(refused.value)
        assert "numIntakes" in refused.value.remedy
