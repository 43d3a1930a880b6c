"""One planner owns a cursor at a time."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_spark.intakes import cursor_leases
from aqueduct_spark.intakes.clients import IntakeClients
from aqueduct_spark.model.offsets import SpoolPosition, StreamOffset
from aqueduct_spark.planning.views import Reader
from tests.spark.ground import Ground
from tests.spark.intakes.planners import launched


def test_a_renewal_without_the_id_that_comes_late_is_not_another_query(
    ground: Ground, planners: list[IntakeClients], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was on its way when the cursor was claimed with the id that the query got meanwhile."""
    held = ground.ensure()
    clients = launched(ground, planners)
    clients.observe(StreamOffset())
    hold = IntakeClient.hold

    def overtaken(client: IntakeClient, cursor: str, owner: str, **given: Any) -> None:
        monkeypatch.setattr(IntakeClient, "hold", hold)
        assert clients.own("id of the query")
        clients.observe(StreamOffset())
        hold(client, cursor, owner, **given)

    monkeypatch.setattr(IntakeClient, "hold", overtaken)
    clients.renew_cursors()
    assert clients.observe(StreamOffset())[0].id == held.id
    clients.renew_cursors()
    assert clients.observe(StreamOffset())[0].id == held.id


def test_fault_32_a_second_planner_of_a_cursor_is_refused(
    ground: Ground, planners: list[IntakeClients], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor_leases, "TAKE_OVER", 0.5)
    ground.ensure()
    first, second = launched(ground, planners), launched(ground, planners)
    first.observe(StreamOffset())
    with pytest.raises(SpoolFailed) as refused:
        second.observe(StreamOffset())
    assert refused.value.subclass == "CURSOR_IN_USE"
    # One with another name reads beside it, and one that went makes way at once.
    assert launched(ground, planners, Reader("other")).observe(StreamOffset())
    first.close()
    assert second.observe(StreamOffset())


def test_fault_32_a_planner_that_died_is_followed_and_fenced(
    ground: Ground, planners: list[IntakeClients], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor_leases, "LEASE_SECONDS", 1.0)
    held = ground.ensure()
    first, second = launched(ground, planners), launched(ground, planners)
    first.observe(StreamOffset())
    # It is not renewed, as that of a planner that was killed or halted.
    seen = second.observe(StreamOffset())[0]
    with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
        first.commit(StreamOffset({0: SpoolPosition(held.id, held.at, 1, seen.ends)}))
    first.renew_cursors()
    with pytest.raises(SpoolFailed, match="taken over"):
        first.observe(StreamOffset())
    second.renew_cursors()
    assert second.observe(StreamOffset())


def test_a_lease_outlives_its_intake(ground: Ground, planners: list[IntakeClients]) -> None:
    held = ground.ensure()
    clients = launched(ground, planners)
    clients.observe(StreamOffset())
    ground.kill(held.pid)
    clients.renew_cursors()
    assert clients.observe(StreamOffset()) == {}
    ground.ensure()
    assert clients.observe(StreamOffset())[0].epoch > held.epoch
    at = ground.rendezvous.registered()[0].at
    with (
        IntakeClient(at, ground.credentials) as client,
        pytest.raises(SpoolFailed, match="CURSOR_IN_USE"),
    ):
        client.hold("query", "somebody else")
