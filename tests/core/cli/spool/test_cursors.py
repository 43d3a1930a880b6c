"""``aqueduct spool cursors``, through the running intake and without one."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from aqueduct_core.cli.spool import places
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.control.cursor_owners import CursorOwners
from aqueduct_core.spool import InlineSync, Spool, SpoolReader
from tests.core.cli.running import seen
from tests.core.cli.spool.stored import ROWS, Stored, error, rows, run
from tests.support.ports import free_port


def test_cursors_and_their_lag(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    (told,) = rows(capsys, "cursors", "-J", live.directory)
    assert (told["cursor"], told["view"], told["lag"]) == ("query", "messages", ROWS)
    assert [log["partition"] for log in told["logs"]] == [0, 1]
    assert f"  query  messages  {ROWS} rows unread" in run(capsys, "cursors", live.directory)


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


def test_cursors_on_a_terminal(ended: Path) -> None:
    """Names and places come from queries: they are no markup, and no terminal obeys them."""
    evil = "[red]evil[/red]\x1b[2J"
    with SpoolReader(ended) as reader:
        schema, partitions, ends = reader.schema, reader.partitions, reader.ends()
    with Spool.open(ended, schema=schema, partitions=partitions, sync=InlineSync) as spool:
        spool.commit(evil, [*ends[:-1], None])
    CursorOwners(ended).claim(evil, "a1", "[bold]box[/bold]\x1b]0;title", 1_800_000_000.0)
    code, shown = seen("spool", "cursors", ended, TERM="xterm")
    assert code == 0
    cells = re.sub(" +", "  ", shown)
    assert r"[red]evil[/red]\x1b[2J  messages  " in cells
    assert r"a1  [bold]box[/bold]\x1b]0;title  2027-01-15T08:00:00+00:00" in re.sub(
        " +", "  ", shown
    )
    assert "\x1b[2J" not in shown
    assert "\x1b]" not in shown
