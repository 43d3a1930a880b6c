"""Dropping, giving away and resetting cursors, through the running intake and without one. What
resets mean for queries: ``tests/spark/read/stream/test_reset.py``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from aqueduct_core.cli.main import main
from aqueduct_core.cli.spool import places
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.control.cursor_owners import CursorOwners
from aqueduct_core.intake.control.cursor_resets import resets_in
from aqueduct_core.spool import InlineSync, Spool, SpoolReader
from tests.core.cli.spool.stored import ROWS, Stored, error, rows, run
from tests.support.ports import free_port


def test_drop_through_the_running_intake(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    with live.running.client() as client:
        client.hold("dead", "somebody", view="events")
        held = error(
            capsys, "AQUEDUCT_SPOOL.CURSOR_IN_USE", "cursors", live.directory, "--drop", "dead"
        )
        assert "dead" in held
        client.release("dead", "somebody")
        names = {
            told["cursor"]: told["view"] for told in rows(capsys, "cursors", "-J", live.directory)
        }
        assert names == {"dead": "events", "query": "messages"}
        assert "dropped dead" in run(capsys, "cursors", live.directory, "--drop", "dead")
        assert "dead" not in run(capsys, "cursors", live.directory)
        # the intake goes on
        assert client.status().epoch == live.running.ready["epoch"]


def test_drop_where_no_intake_runs(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = error(capsys, "AQUEDUCT_INVALID_OPTION.BAD_VALUE", "cursors", ended, "--drop", "nobody")
    assert "The cursors are query" in line
    assert "dropped query" in run(capsys, "cursors", ended, "--drop", "query")
    assert "no cursors" in run(capsys, "cursors", ended)
    line = error(capsys, "AQUEDUCT_INVALID_OPTION.BAD_VALUE", "cursors", ended, "--drop", "query")
    assert "There are no cursors" in line
    assert len(rows(capsys, "cat", ended)) == ROWS


def test_drop_where_an_intake_was_killed_a_moment_ago(
    ended: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not answer, and its last write holds the spool for a little longer."""
    Credentials.for_spool(ended)
    status = json.loads((ended / "status.json").read_text())
    (ended / "status.json").write_text(json.dumps(status | {"flight": f"127.0.0.1:{free_port()}"}))
    owners = iter([status["pid"], status["pid"]])
    monkeypatch.setattr(places, "holder", lambda directory: next(owners, None))
    assert "dropped query" in run(capsys, "cursors", ended, "--drop", "query")
    assert next(owners, None) is None
    assert len(rows(capsys, "cat", ended)) == ROWS


def test_drop_in_a_spool_whose_owner_tells_no_address(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (ended / "status.json").unlink()
    with SpoolReader(ended) as reader:
        schema, partitions = reader.schema, reader.partitions
    with Spool.open(ended, schema=schema, partitions=partitions, sync=InlineSync):
        line = error(capsys, "AQUEDUCT_SPOOL.LOCKED", "cursors", ended, "--drop", "query")
        assert f"process {os.getpid()}" in line


def test_drop_in_a_spool_whose_keys_are_elsewhere(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert json.loads((ended / "status.json").read_text())["flight"]
    with SpoolReader(ended) as reader:
        schema, partitions = reader.schema, reader.partitions
    with Spool.open(ended, schema=schema, partitions=partitions, sync=InlineSync):
        line = error(capsys, "AQUEDUCT_SPOOL.LOCKED", "cursors", ended, "--drop", "query")
    assert f"no .keys in {ended} or {ended.parent}" in line
    assert "'keys' of its configuration" in line


def test_give_through_the_running_intake(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    with live.running.client() as client:
        for name, view in (("lost", "messages"), ("lost.cancels", "events")):
            client.hold(name, "run", view=view, query="a1", where="host box, process 7")  # type: ignore[arg-type]
        held = error(
            capsys, "AQUEDUCT_SPOOL.CURSOR_IN_USE", "cursors", live.directory, "--give", "lost"
        )
        assert "held by another query" in held
        for name in ("lost", "lost.cancels"):
            client.release(name, "run")
        text = run(capsys, "cursors", live.directory)
        assert "belongs to query a1, host box, process 7, 20" in text
        given = run(capsys, "cursors", live.directory, "--give", "lost")
        assert [line.split()[-1] for line in given.splitlines()] == ["lost", "lost.cancels"]
        client.hold("lost", "another run", query="b2")
        client.release("lost", "another run")
        assert "dropped lost.cancels" in run(capsys, "cursors", live.directory, "--drop", "lost")
        assert "lost" not in client.status().owners


def test_give_and_drop_where_no_intake_runs(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    CursorOwners(ended).claim("query", "a1", "host box, process 7", 1_800_000_000.0)
    (told,) = rows(capsys, "cursors", "-J", ended)
    assert told["owner"] == {
        "query": "a1",
        "where": "host box, process 7",
        "since": "2027-01-15T08:00:00+00:00",
    }
    assert "given away query" in run(capsys, "cursors", ended, "--give", "query")
    assert "belongs to nobody" in run(capsys, "cursors", ended)
    (told,) = rows(capsys, "cursors", "-J", ended)
    assert (told["owner"], told["lag"]) == (None, ROWS)
    CursorOwners(ended).claim("query", "b2", "", 1_800_000_000.0)
    run(capsys, "cursors", ended, "--drop", "query")
    assert CursorOwners(ended).all == {}


def test_reset_where_no_intake_runs(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SpoolReader(ended) as reader:
        schema, partitions, ends = reader.schema, reader.partitions, reader.ends()
    with Spool.open(ended, schema=schema, partitions=partitions, sync=InlineSync) as spool:
        spool.commit("query", [*ends[:-1], None])
    told = run(capsys, "cursors", ended, "--reset", "query=earliest")
    assert f"; {ROWS} rows come again, 0 are passed over" in told
    with SpoolReader(ended) as reader:
        assert reader.cursors["query"] == [0, 0, None]
    assert resets_in(ended)["query"].to == (0, 0)
    run(capsys, "cursors", ended, "--drop", "query")
    assert resets_in(ended) == {}


def test_reset_through_the_running_intake(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    with live.running.client() as client:
        client.hold("again", "run", query="a1")
        client.commit("again", client.status().ends, owner="run", query="a1")
        held = error(
            capsys, "AQUEDUCT_SPOOL.CURSOR_IN_USE", "cursors", live.directory, "--reset",
            "again=earliest",
        )  # fmt: skip
        assert "held by another query" in held
        client.release("again", "run")
        run(capsys, "cursors", live.directory, "--reset", "again=1d")
        assert client.status().committed["again"] == (0, 0)
        assert client.status().resets["again"].to == (0, 0)
        run(capsys, "cursors", live.directory, "--drop", "again")
        assert client.status().resets == {}


def test_one_offset_is_no_position_in_several_partitions(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = error(
        capsys, "AQUEDUCT_INVALID_OPTION.BAD_VALUE", "cursors", ended, "--reset", "query=3"
    )
    assert "3 is an offset of one partition" in line
    assert "Write earliest, latest, -N" in line


@pytest.mark.parametrize("order", ["query", "=latest", "query=soon"])
def test_orders_that_cannot_be_read_are_wrong_usage(
    ended: Path, capsys: pytest.CaptureFixture[str], order: str
) -> None:
    with pytest.raises(SystemExit) as ended_by:
        main(["spool", "cursors", str(ended), "--reset", order])
    assert ended_by.value.code == 2
    assert "earliest" in capsys.readouterr().err
