"""How a planner finds its intakes and holds its cursors, without Spark: real intakes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from aqueduct_core.errors import IntakeFailed, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_spark.formats.aqueduct.format import AqueductFormat
from aqueduct_spark.intakes.clients import IntakeClients
from aqueduct_spark.intakes.discovery import StandaloneIntakes
from aqueduct_spark.intakes.rendezvous import Rendezvous
from aqueduct_spark.model.offsets import SpoolPosition, StreamOffset
from aqueduct_spark.planning.views import Reader
from tests.spark.ground import Ground
from tests.spark.intakes.planners import QUERY, launched
from tests.spark.producing import numbered, produce
from tests.support.waiting import LONG


def test_intakes_are_found_by_registration_and_by_offset(
    ground: Ground, planners: list[IntakeClients]
) -> None:
    held = ground.ensure()
    known = StreamOffset({0: SpoolPosition(held.id, held.at, held.epoch, (0, 0))})
    stranger = StreamOffset({0: SpoolPosition("other", held.at, 1, (0, 0))})
    first = launched(ground, planners)
    assert first.observe(StreamOffset())[0].id == held.id
    first.close()
    with Rendezvous("127.0.0.1", ground.credentials) as empty:
        restarted = launched(ground, planners, rendezvous=empty)
        assert restarted.observe(StreamOffset()) == {}
        assert restarted.observe(stranger) == {}
        assert restarted.observe(known)[0].id == held.id
        # Tasks find an adopted intake as they find a launched one.
        adopted = ground.ensure(ground.order(rendezvous=f"127.0.0.1:{empty.port}"))
        assert (adopted.pid, adopted.at) == (held.pid, held.at)
    foreign = launched(ground, planners, credentials=Credentials.fresh())
    assert foreign.observe(known) == {}


def test_an_intake_is_told_once(
    ground: Ground, planners: list[IntakeClients], caplog: pytest.LogCaptureFixture
) -> None:
    """Looking at it again and again says nothing new to the log, and forgets nothing of it."""
    held = ground.ensure()
    clients = launched(ground, planners)
    with caplog.at_level("INFO"):
        for _ in range(3):
            clients.observe(StreamOffset())
    assert [record for record in caplog.records if "listens on" in record.message] == []
    assert ground.rendezvous.registered()[0] == held


def test_a_planner_leases_its_cursors_and_commits_for_them(
    ground: Ground, planners: list[IntakeClients]
) -> None:
    held = ground.ensure()
    produce(f"aqueduct://{held.listen}", numbered(10), name="x")
    events = Reader("events", "events")
    clients = launched(ground, planners, QUERY, events)
    seen = clients.observe(StreamOffset())[0]
    assert sum(seen.ends) >= 10
    clients.commit(StreamOffset({0: SpoolPosition(seen.id, seen.at, 1, seen.ends)}))
    status = clients.statuses()[0]
    clients.commit_cursor(0, events, status.events[1:], seen.id)
    with IntakeClient(held.at, ground.credentials) as client:
        status = client.status()
        assert status.committed == {"query": seen.ends}
        assert status.events_committed == {"events": status.events[1]}
        with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
            client.hold("query", "somebody else")


def test_new_rows_end_the_wait(ground: Ground, planners: list[IntakeClients]) -> None:
    held = ground.ensure()
    clients = launched(ground, planners)
    seen = clients.observe(StreamOffset())
    clients.await_rows(seen, 0.05)
    producing = threading.Thread(
        target=produce, args=(f"aqueduct://{held.listen}", numbered(1)), kwargs={"name": "x"}
    )
    producing.start()
    clients.await_rows(seen, 30.0)
    producing.join()
    assert sum(clients.observe(StreamOffset())[0].ends) > 0


def test_intakes_that_do_not_answer_hold_up_the_leases_of_no_other() -> None:
    """Each is called while the others are."""
    together = threading.Barrier(3, timeout=LONG)

    class Registered(StandaloneIntakes):
        def addresses(self) -> set[str]:
            return {"h:1", "h:2", "h:3"}

    class Silent:
        def __init__(self, address: str) -> None:
            self.address = address

        def renew(self, lease: float) -> None:
            together.wait()
            raise IntakeFailed("UNREACHABLE", f"{self.address} is silent", "Wait")

        def close(self) -> None: ...

    class Clients(IntakeClients):
        def _client(self, address: str) -> Any:
            return Silent(address)

    discovery = Registered(["h:1", "h:2", "h:3"], 60.0)
    clients = Clients(discovery, lambda: Credentials("t", b""), [QUERY], AqueductFormat())
    clients.renew_leases(15.0)
    assert not together.broken
    assert len(clients.troubles(0.0)) == 3
