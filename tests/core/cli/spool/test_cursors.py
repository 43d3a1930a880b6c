"""``aqueduct spool cursors``, what each query is done with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aqueduct_core.intake.control.cursor_owners import CursorOwners
from aqueduct_core.spool import InlineSync, Spool, SpoolReader
from tests.core.cli.running import seen
from tests.core.cli.spool.stored import ROWS, Stored, rows, run


def test_cursors_and_their_lag(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    (told,) = rows(capsys, "cursors", "-J", live.directory)
    assert (told["cursor"], told["view"], told["lag"]) == ("query", "messages", ROWS)
    assert [log["partition"] for log in told["logs"]] == [0, 1]
    assert f"  query  messages  {ROWS} rows unread" in run(capsys, "cursors", live.directory)


def test_a_reset_that_waits_for_its_query(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "cursors", ended, "--reset", "query=latest")
    (told,) = rows(capsys, "cursors", "-J", ended)
    assert told["reset"]["to"] == [log["end"] for log in told["logs"]]
    assert told["lag"] == ROWS  # what its query has not passed by itself is not passed
    assert "its query goes on at 0: " in run(capsys, "cursors", ended)
    code, shown = seen("spool", "cursors", ended, TERM="xterm", COLUMNS="300")
    assert code == 0
    assert "with its next batch" in shown


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
