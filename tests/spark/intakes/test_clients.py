"""How a planner finds its intakes and holds its cursors, without Spark: real intakes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.errors import AuthFailed, IntakeFailed, SpoolFailed, TlsFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_spark.intakes import cursor_leases
from aqueduct_spark.intakes.clients import IntakeClients
from aqueduct_spark.intakes.discovery import LaunchedIntakes, StandaloneIntakes
from aqueduct_spark.intakes.rendezvous import Rendezvous
from aqueduct_spark.model.offsets import SpoolPosition, StreamOffset
from aqueduct_spark.planning.views import Reader
from tests.spark.intakes.test_launch import Ground
from tests.spark.producing import numbered, produce

QUERY = Reader("query")


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path / "spool")
    yield ground
    ground.close()


@pytest.fixture
def fleets(ground: Ground) -> Iterator[list[IntakeClients]]:
    made: list[IntakeClients] = []
    yield made
    for fleet in made:
        fleet.close()


def launched(
    ground: Ground,
    fleets: list[IntakeClients],
    *readers: Reader,
    rendezvous: Rendezvous | None = None,
    credentials: Credentials | None = None,
) -> IntakeClients:
    roster = LaunchedIntakes(rendezvous or ground.rendezvous, 1)
    fleets.append(
        IntakeClients(roster, lambda: credentials or ground.credentials, readers or [QUERY])
    )
    return fleets[-1]


def test_a_fleet_finds_by_registration_and_by_offset(
    ground: Ground, fleets: list[IntakeClients]
) -> None:
    held = ground.ensure()
    known = StreamOffset({0: SpoolPosition(held.id, held.at, held.epoch, (0, 0))})
    stranger = StreamOffset({0: SpoolPosition("other", held.at, 1, (0, 0))})
    first = launched(ground, fleets)
    assert first.observe(StreamOffset())[0].id == held.id
    first.close()
    with Rendezvous("127.0.0.1", ground.credentials) as empty:
        restarted = launched(ground, fleets, rendezvous=empty)
        assert restarted.observe(StreamOffset()) == {}
        assert restarted.observe(stranger) == {}
        assert restarted.observe(known)[0].id == held.id
        # Tasks find an adopted intake as they find a launched one.
        adopted = ground.ensure(ground.order(rendezvous=f"127.0.0.1:{empty.port}"))
        assert (adopted.pid, adopted.at) == (held.pid, held.at)
    foreign = launched(ground, fleets, credentials=Credentials.fresh())
    assert foreign.observe(known) == {}


def test_a_renewal_without_the_id_that_comes_late_is_not_another_query(
    ground: Ground, fleets: list[IntakeClients], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was on its way when the cursor was claimed with the id that the query got meanwhile."""
    held = ground.ensure()
    fleet = launched(ground, fleets)
    fleet.observe(StreamOffset())
    hold = IntakeClient.hold

    def overtaken(client: IntakeClient, cursor: str, owner: str, **given: Any) -> None:
        monkeypatch.setattr(IntakeClient, "hold", hold)
        assert fleet.own("id of the query")
        fleet.observe(StreamOffset())
        hold(client, cursor, owner, **given)

    monkeypatch.setattr(IntakeClient, "hold", overtaken)
    fleet.renew_holds()
    assert fleet.observe(StreamOffset())[0].id == held.id
    fleet.renew_holds()
    assert fleet.observe(StreamOffset())[0].id == held.id


def test_an_intake_is_told_once(
    ground: Ground, fleets: list[IntakeClients], caplog: pytest.LogCaptureFixture
) -> None:
    """Looking at it again and again says nothing new to the log, and forgets nothing of it."""
    held = ground.ensure()
    fleet = launched(ground, fleets)
    with caplog.at_level("INFO"):
        for _ in range(3):
            fleet.observe(StreamOffset())
    assert [record for record in caplog.records if "listens on" in record.message] == []
    assert ground.rendezvous.registered()[0] == held


def test_a_fleet_holds_its_cursors_and_commits_for_them(
    ground: Ground, fleets: list[IntakeClients]
) -> None:
    held = ground.ensure()
    produce(f"aqueduct://{held.listen}", numbered(10), name="x")
    events = Reader("events", "events")
    fleet = launched(ground, fleets, QUERY, events)
    seen = fleet.observe(StreamOffset())[0]
    assert sum(seen.ends) >= 10
    fleet.commit(StreamOffset({0: SpoolPosition(seen.id, seen.at, 1, seen.ends)}))
    status = fleet.statuses()[0]
    fleet.commit_cursor(0, events, status.events[1:], seen.id)
    with IntakeClient(held.at, ground.credentials) as client:
        status = client.status()
        assert status.committed == {"query": seen.ends}
        assert status.events_committed == {"events": status.events[1]}
        with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
            client.hold("query", "somebody else")


def test_fault_32_a_second_planner_of_a_cursor_is_refused(
    ground: Ground, fleets: list[IntakeClients], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor_leases, "TAKE_OVER", 0.5)
    ground.ensure()
    first, second = launched(ground, fleets), launched(ground, fleets)
    first.observe(StreamOffset())
    with pytest.raises(SpoolFailed) as refused:
        second.observe(StreamOffset())
    assert refused.value.subclass == "CURSOR_IN_USE"
    # One with another name reads beside it, and one that went makes way at once.
    assert launched(ground, fleets, Reader("other")).observe(StreamOffset())
    first.close()
    assert second.observe(StreamOffset())


def test_fault_32_a_planner_that_died_is_followed_and_fenced(
    ground: Ground, fleets: list[IntakeClients], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor_leases, "HOLD", 1.0)
    held = ground.ensure()
    first, second = launched(ground, fleets), launched(ground, fleets)
    first.observe(StreamOffset())
    # It is not renewed, as that of a planner that was killed or halted.
    seen = second.observe(StreamOffset())[0]
    with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
        first.commit(StreamOffset({0: SpoolPosition(held.id, held.at, 1, seen.ends)}))
    first.renew_holds()
    with pytest.raises(SpoolFailed, match="taken over"):
        first.observe(StreamOffset())
    second.renew_holds()
    assert second.observe(StreamOffset())


def test_a_hold_outlives_its_intake(ground: Ground, fleets: list[IntakeClients]) -> None:
    held = ground.ensure()
    fleet = launched(ground, fleets)
    fleet.observe(StreamOffset())
    ground.kill(held.pid)
    fleet.renew_holds()
    assert fleet.observe(StreamOffset()) == {}
    ground.ensure()
    assert fleet.observe(StreamOffset())[0].epoch > held.epoch
    at = ground.rendezvous.registered()[0].at
    with (
        IntakeClient(at, ground.credentials) as client,
        pytest.raises(SpoolFailed, match="CURSOR_IN_USE"),
    ):
        client.hold("query", "somebody else")


def test_news_end_the_wait(ground: Ground, fleets: list[IntakeClients]) -> None:
    held = ground.ensure()
    fleet = launched(ground, fleets)
    seen = fleet.observe(StreamOffset())
    fleet.await_news(seen, 0.05)
    producing = threading.Thread(
        target=produce, args=(f"aqueduct://{held.listen}", numbered(1)), kwargs={"name": "x"}
    )
    producing.start()
    fleet.await_news(seen, 30.0)
    producing.join()
    assert sum(fleet.observe(StreamOffset())[0].ends) > 0


def test_standalone_intakes_are_known_by_their_spools(
    ground: Ground, fleets: list[IntakeClients]
) -> None:
    one = ground.ensure()
    two = ground.ensure(ground.other_order(1))
    nobody = f"127.0.0.1:{ground.rendezvous.port}"
    standalone = IntakeClients(
        StandaloneIntakes([two.at, one.at], 60.0), lambda: ground.credentials, [QUERY]
    )
    fleets.append(standalone)
    seen = standalone.observe(StreamOffset())
    assert {number: status.id for number, status in seen.items()} == {0: two.id, 1: one.id}
    known = StreamOffset({0: SpoolPosition(one.id, "h:1", 1, (0, 0))})
    seen = standalone.observe(known)
    assert {number: status.id for number, status in seen.items()} == {0: one.id, 1: two.id}
    impatient = IntakeClients(StandaloneIntakes([nobody], 0.0), lambda: ground.credentials, [QUERY])
    fleets.append(impatient)
    assert impatient.observe(known) == {}
    with pytest.raises(IntakeFailed, match=f"{nobody}.*{one.id}") as failed:
        impatient.observe(known)
    assert failed.value.subclass == "UNREACHABLE"
    stranger = Credentials.fresh()
    wrong = replace(ground.credentials, token=stranger.token)
    for credentials, error in ((wrong, AuthFailed), (stranger, TlsFailed)):
        fleets.append(
            IntakeClients(StandaloneIntakes([one.at], 60.0), lambda c=credentials: c, [QUERY])  # type: ignore[misc]
        )
        with pytest.raises(error):
            fleets[-1].observe(known)
