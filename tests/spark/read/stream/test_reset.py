"""``aqueduct spool cursors --reset``: a query goes on elsewhere, with its checkpoint: real intakes,
no Spark."""

from __future__ import annotations

import pytest

from aqueduct_core.cli.main import main
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.status import IntakeStatus
from tests.spark.producing import numbered, produce
from tests.spark.read.stream.loop import Loop, Yard, begun, values


def status(yard: Yard) -> IntakeStatus:
    with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
        return client.status()


def reset(yard: Yard, order: str) -> int:
    return main(["spool", "cursors", str(yard.spool), "--reset", order])


def finished(loop: Loop) -> None:
    """Run what is left, so that all is committed, and end."""
    while loop.batch() is not None:
        pass
    loop.close()


def test_all_that_is_stored_comes_again(yard: Yard, capsys: pytest.CaptureFixture[str]) -> None:
    first = begun(yard)
    beside = begun(yard, cursor="beside")
    produce(yard.url(), numbered(100))
    first.until(100)
    beside.until(100)
    finished(first)
    assert reset(yard, "query=earliest") == 0
    assert "101 rows come again, 0 are passed over" in capsys.readouterr().out
    assert main(["spool", "cursors", str(yard.spool)]) == 0
    assert "its query goes on at 0: 0, 1: 0 with its next batch" in capsys.readouterr().out
    again = yard.loop(first.at)
    assert values(again.until(100)) == numbered(100)
    assert len(again.messages()) == 100
    produce(yard.url(), numbered(10), name="more")
    assert values(again.until(110), "more") == numbered(10)
    finished(again)
    assert status(yard).resets == {}
    assert status(yard).committed["query"] == again.at.spool[0].to == status(yard).ends
    # once only: the next start goes on, and the other query was not disturbed
    third = yard.loop(again.at)
    produce(yard.url(), numbered(5), name="last")
    assert values(third.until(5), "last") == numbered(5)
    assert len(beside.until(115)) == 115


def test_a_batch_that_was_planned_before_is_done_again_with_its_rows(
    yard: Yard, capsys: pytest.CaptureFixture[str]
) -> None:
    first = begun(yard, maxOffsetsPerTrigger="40")
    produce(yard.url(), numbered(100))
    first.until(40)
    start, end = first.at, first.planner.latest(first.at)
    assert end.spool[0].to != start.spool[0].to
    first.close()
    assert reset(yard, "query=latest") == 0
    assert "0 rows come again" in capsys.readouterr().out
    # nothing that the batch has may go before it is done
    at = status(yard).committed["query"]
    assert all(done <= begins for done, begins in zip(at, start.spool[0].to, strict=True))
    again = yard.loop(end, maxOffsetsPerTrigger="40")
    rows = again.run(start, end)
    assert len(rows) == sum(end.spool[0].to) - sum(start.spool[0].to)
    produce(yard.url(), numbered(10), name="after")
    assert values(again.until(10), "after") == numbered(10)
    assert len(again.messages()) == 10
    finished(again)
    assert status(yard).committed["query"] == status(yard).ends


def test_an_old_batch_does_not_commit_beyond_where_the_query_is_to_go_on(yard: Yard) -> None:
    """A planner whose hold has run out, as when its host stood still, learns of the reset late."""
    first = begun(yard, maxOffsetsPerTrigger="30")
    produce(yard.url(), numbered(100))
    first.until(100)
    with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
        client.status()
        for cursor in client.status().held:
            client.release(cursor, first.planner._clients._leases.owner)
        assert reset(yard, "query=earliest") == 0
        first.planner.commit(first.at)
        assert client.status().committed["query"] == (0, 0)
    first.rows.clear()
    assert values(first.until(100)) == numbered(100)
    assert len(first.messages()) == 100


def test_a_query_that_runs_is_not_reset(yard: Yard, capsys: pytest.CaptureFixture[str]) -> None:
    first = begun(yard)
    produce(yard.url(), numbered(10))
    first.until(10)
    assert reset(yard, "query=earliest") == 1
    assert "[AQUEDUCT_SPOOL.CURSOR_IN_USE]" in capsys.readouterr().err
    assert status(yard).resets == {}
    produce(yard.url(), numbered(10), name="more")
    assert len(first.until(20)) == 20


def test_where_no_intake_runs_the_next_one_knows(yard: Yard) -> None:
    first = begun(yard)
    produce(yard.url(), numbered(50))
    first.until(50)
    finished(first)
    yard.kill()
    assert reset(yard, "query=-20") == 0
    again = yard.loop(first.at)
    again.until(20)
    assert len(again.messages()) in (20, 21)  # of each partition: the entrypoint's has one row
    assert values(again.messages())[-20:] == numbered(50)[-20:]


def test_the_last_reset_counts(yard: Yard) -> None:
    first = begun(yard)
    produce(yard.url(), numbered(50))
    first.until(50)
    finished(first)
    for order in ("query=latest", "query=1h", "query=latest", "query=earliest"):
        assert reset(yard, order) == 0
    again = yard.loop(first.at)
    assert values(again.until(50)) == numbered(50)
    finished(again)
    assert reset(yard, "query=latest") == 0
    third = yard.loop(again.at)
    produce(yard.url(), numbered(5), name="after")
    third.until(5)
    assert [row["channel"] for row in third.messages()] == ["after"] * 5


def test_a_query_without_a_checkpoint_begins_where_it_was_reset_to(
    yard: Yard, capsys: pytest.CaptureFixture[str]
) -> None:
    """The order of the operator is later than the options of the query."""
    first = begun(yard)
    produce(yard.url(), numbered(50))
    first.until(50)
    finished(first)
    assert reset(yard, "query=latest") == 0
    assert main(["spool", "cursors", str(yard.spool), "--give", "query"]) == 0
    produce(yard.url(), numbered(5), name="after")
    second = begun(yard, startingOffsets="earliest")
    assert values(second.until(5), "after") == numbered(5)
    assert len(second.messages()) == 5


def test_events_are_read_again_too(yard: Yard) -> None:
    first = begun(yard, view="events")
    produce(yard.url(), numbered(5))
    while "disconnected" not in [row["kind"] for row in first.rows]:
        first.batch()
    finished(first)
    assert reset(yard, "events=0") == 0
    again = yard.loop(first.at, view="events")
    while len(again.rows) < len(first.rows):
        again.batch()
    assert again.rows[: len(first.rows)] == first.rows


def test_the_look_for_cancels_goes_along(yard: Yard) -> None:
    first = begun(yard, onCancel="fail")
    produce(yard.url(), numbered(5))
    first.until(5)
    finished(first)
    looked = status(yard).events_committed["query.cancels"]
    assert looked > 0
    assert reset(yard, "query=earliest") == 0
    assert status(yard).events_committed["query.cancels"] == 0
    assert reset(yard, "query=latest") == 0
    assert status(yard).events_committed["query.cancels"] == status(yard).events[1]
    assert list(status(yard).resets) == ["query"]
