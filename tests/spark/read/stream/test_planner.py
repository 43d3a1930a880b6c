"""What a streaming query reads, whatever happens to its intakes: real intakes, no Spark."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_spark.intakes import cursor_leases, launch
from aqueduct_spark.model.partitions import LaunchOrder
from tests.spark.producing import numbered, produce
from tests.spark.read.stream.loop import Yard, begun, values
from tests.support.remote import RemoteThread, Script


def test_rows_come_once_and_in_order(yard: Yard) -> None:
    loop = begun(yard)
    produce(yard.url(), numbered(500))
    assert values(loop.until(500)) == numbered(500)
    assert loop.batch() == []  # the tick that brings the commit
    assert loop.batch() is None
    reach = loop.planner.reach()
    assert reach is not None
    assert reach.spool == loop.at.spool
    with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
        assert client.status().committed == {"query": loop.at.spool[0].to}


def test_fault_36_queries_of_different_cursors_share_an_intake(yard: Yard) -> None:
    first = begun(yard, retention="0s")
    slow = begun(yard, cursor="slow")
    pid = yard.intake()["pid"]
    produce(yard.url(), numbered(300))
    assert values(first.until(300)) == numbered(300)
    while first.batch() is not None:
        pass
    assert values(slow.until(300)) == numbered(300)
    assert yard.intake()["pid"] == pid


def test_fault_32_one_cursor_has_one_query(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor_leases, "TAKE_OVER", 0.5)
    first = begun(yard)
    with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
        begun(yard)
    first.close()
    again = yard.loop(first.at)
    produce(yard.url(), numbered(10))
    assert values(again.until(10)) == numbered(10)


def test_events_are_rows_with_offsets_of_their_own(yard: Yard) -> None:
    loop = begun(yard, view="events")
    produce(yard.url(), numbered(20), producer="p")
    seen: list[str] = []
    while "disconnected" not in seen:
        loop.batch()
        seen = [row["kind"] for row in loop.rows]
    [finished] = [
        row for row in loop.rows if row["kind"] == "finished" and row["channel"] == "readings"
    ]
    assert finished["counts"]["reliableStored"] == 20
    assert finished["producer"] == "p"
    assert [row["offset"] for row in loop.rows] == list(range(len(loop.rows)))
    assert {row["partition"] for row in loop.rows} == {2}
    assert len(loop.at.spool[0].to) == 1
    # The same rows again, also when the intake has to be started for them.
    yard.kill()
    start, end = loop.batches[0][0], loop.at
    start = next(s for s, _ in loop.batches if s.spool)
    assert loop.run(start, end) == loop.rows


def test_latest_of_an_intake_that_the_query_launches_is_its_start(yard: Yard) -> None:
    """Else what a producer brings before the query looks again is acked and never read."""
    first = begun(yard)
    produce(yard.url(), numbered(10), name="before")
    first.until(10)
    first.close()
    yard.kill()
    second = yard.loop(startingOffsets="latest", cursor="second")
    assert second.batch() == []  # it launches
    produce(yard.url(), numbered(20))
    assert values(second.until(20)) == numbered(20)
    third = begun(yard, startingOffsets="latest", cursor="third")  # whose intake runs already
    produce(yard.url(), numbered(5), name="after")
    assert values(third.until(5), "after") == numbered(5)
    assert {row["channel"] for row in third.messages()} == {"after"}
    assert {row["channel"] for row in second.messages()} == {"readings"}


def test_endpoints_are_spread_over_intakes(yard: Yard, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    with (
        RemoteThread({"a": Script(40)}, one) as first,
        RemoteThread({"a": Script(30)}, two) as second,
    ):
        loop = yard.loop(
            endpoint=f"aqueduct://{first.endpoint},{second.endpoint}",
            tls_insecure="true",
            subscribe="a",
            numIntakes="2",
        )
        loop.until(70)
        assert sorted(sum(p.to) for p in loop.at.spool.values()) == [30, 40]


def test_a_new_query_with_the_cursor_of_an_old_one_begins_anew(yard: Yard) -> None:
    old = begun(yard)
    produce(yard.url(), numbered(100))
    old.until(100)
    while old.batch() is not None:
        pass
    old.close()
    with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
        client.give_cursor("query")  # an operator's act; else the new one is refused
        new = begun(yard)
        assert client.status().committed["query"] == (0, 0)
    assert values(new.until(100)) == numbered(100)


def test_an_intake_that_is_lost_does_not_hold_up_the_others(yard: Yard) -> None:
    loop = yard.loop(numIntakes="2")
    while len(loop.at.spool) < 2:
        loop.batch()
    produce(yard.url(0), numbered(100), name="one")
    produce(yard.url(1), numbered(100), name="two")
    loop.until(200)
    yard.kill(1)
    produce(yard.url(0), numbered(50), name="three")
    epoch = loop.at.spool[1].epoch
    loop.until(250)
    while loop.at.spool[1].epoch == epoch:
        loop.batch()
    produce(yard.url(1), numbered(50), name="four")
    loop.until(300)
    for name, count in (("one", 100), ("two", 100), ("three", 50), ("four", 50)):
        assert values(loop.rows, name) == numbered(count)


def test_an_intake_that_is_halted_is_waited_for(yard: Yard) -> None:
    loop = begun(yard)
    produce(yard.url(), numbered(100))
    loop.until(100)
    pid = yard.intake()["pid"]
    os.kill(pid, signal.SIGSTOP)
    again = threading.Timer(8.0, os.kill, args=(pid, signal.SIGCONT))
    again.start()
    launches = loop.at.launch
    while loop.at.launch == launches:
        loop.batch()  # it counts as lost, and the task that is to start it waits for it
    again.join()
    produce(yard.url(), numbered(50), name="more")
    assert values(loop.until(150), "more") == numbered(50)
    assert yard.intake()["pid"] == pid


def test_a_spool_that_is_on_another_host_is_found(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = begun(yard)
    produce(yard.url(), numbered(100))
    loop.until(100)
    yard.kill()
    asked: list[int] = []
    real = launch._is_here

    def is_here(order: LaunchOrder) -> bool:
        asked.append(order.intake)
        return len(asked) > 4 and real(order)  # the first tasks run on other hosts

    monkeypatch.setattr(launch, "_is_here", is_here)
    epoch = loop.at.spool[0].epoch
    while loop.at.spool[0].epoch == epoch:
        loop.batch()
    assert loop.at.spool[0].id == loop.batches[-2][0].spool[0].id
    produce(yard.url(), numbered(50), name="more")
    loop.until(150)
