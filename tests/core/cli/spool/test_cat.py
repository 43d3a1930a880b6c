"""``aqueduct spool cat``: rows as ``listen -J`` prints them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from aqueduct_core.cli.main import main
from tests.core.cli.running import seen
from tests.core.cli.spool.stored import FIXTURES, LINES, ROWS, Stored, damage, error, rows


def test_cat_is_as_listen_prints(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "cat", live.directory)
    assert len(found) == ROWS
    (entry,) = (row for row in found if row["name"] != "lines")
    assert len(entry["attachments"]) == 1
    lines = [row for row in found if row["name"] == "lines"]
    assert [row["value"] for row in lines] == LINES
    first = lines[0]
    assert first["channel"] == entry["attachments"][0]
    assert set(first) == {
        "type", "connection", "channel", "name", "producer", "num", "reliable", "headers",
        "attachments", "value", "timestamp", "partition", "offset",
    }  # fmt: skip
    assert (first["type"], first["name"], first["num"], first["reliable"]) == (
        "message",
        "lines",
        0,
        True,
    )
    assert first["headers"] == [["colour", "blue"]]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first["timestamp"])
    for partition in (0, 1):
        offsets = [row["offset"] for row in found if row["partition"] == partition]
        assert offsets == list(range(len(offsets)))


def test_cat_of_a_range(live: Stored, ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # the channel's; the entrypoint message may be in the other one, alone
    found = rows(capsys, "cat", ended)
    partition = next(row["partition"] for row in found if row["name"] == "lines")
    end = live.running.status().ends[partition]
    for directory in (live.directory, ended):
        found = rows(
            capsys, "cat", directory, "--partition", str(partition), "--from", "5", "--to", "9"
        )
        assert [row["offset"] for row in found] == [5, 6, 7, 8]
    tail = ["--partition", str(partition), "--from", str(end - 2)]
    assert [row["offset"] for row in rows(capsys, "cat", ended, *tail)] == [end - 2, end - 1]
    found = rows(capsys, "cat", ended, *tail, "-c", "1")
    assert [row["offset"] for row in found] == [end - 2]


def test_cat_of_events(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "cat", live.directory, "--events")
    kinds = [row["kind"] for row in found]
    assert kinds[0] == "connected"
    assert {"opened", "finished"} <= set(kinds)
    finished = next(row for row in found if row["kind"] == "finished" and row["name"] == "lines")
    assert finished["counts"]["reliableStored"] == 40
    assert [row["offset"] for row in found] == list(range(len(found)))
    assert rows(capsys, "cat", live.directory, "--events", "--from", "1", "-c", "1") == found[1:2]


def test_cat_numbers_the_intakes_below(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ended, ended.with_name("intake-11"))
    found = rows(capsys, "cat", ended.parent)
    assert [row["intake"] for row in found] == [0] * ROWS + [11] * ROWS
    line = error(
        capsys, "AQUEDUCT_INVALID_OPTION.MISSING", "cat", ended.parent, "--partition", "0",
        "--from", "3",
    )  # fmt: skip
    assert "2 intakes" in line


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("AQUEDUCT_INVALID_OPTION.MISSING", ["--from", "3"]),
        ("AQUEDUCT_INVALID_OPTION.BAD_VALUE", ["--partition", "2"]),
        ("AQUEDUCT_INVALID_OPTION.BAD_VALUE", ["--partition", "0", "--from", "9", "--to", "3"]),
        ("AQUEDUCT_DATA_LOSS.OFFSET_AHEAD", ["--events", "--to", "9999"]),
    ],
)
def test_cat_refuses(
    live: Stored, capsys: pytest.CaptureFixture[str], name: str, arguments: list[str]
) -> None:
    line = error(capsys, name, "cat", live.directory, *arguments)
    assert "SQLSTATE: " in line


def test_cat_of_other_columns(capsys: pytest.CaptureFixture[str]) -> None:
    line = error(capsys, "AQUEDUCT_SPOOL.VERSION", "cat", FIXTURES / "format_2")
    assert "holds the columns ['value', 'number']" in line


def test_cat_tells_damage_after_the_rows_before_it(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = damage(ended)
    assert main(["spool", "cat", str(ended), "--partition", str(victim.partition)]) == 1
    captured = capsys.readouterr()
    found = [json.loads(line) for line in captured.out.splitlines()]
    assert [row["offset"] for row in found] == list(range(victim.first))
    (line,) = captured.err.splitlines()
    assert line.startswith("[AQUEDUCT_SPOOL.CORRUPT] ")
    assert re.search(rf"partition {victim.partition}, offsets? {victim.first}\b", line)


def test_cat_on_a_terminal_has_nothing_but_its_lines(live: Stored) -> None:
    code, shown = seen("spool", "cat", live.directory, TERM="xterm")
    assert code == 0
    assert [json.loads(line)["type"] for line in shown.splitlines()] == ["message"] * ROWS


def test_positions_by_count_time_and_edge(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = rows(capsys, "cat", ended)
    lines = [row for row in stored if row["name"] == "lines"]
    partition = str(lines[0]["partition"])
    mine = [row for row in stored if str(row["partition"]) == partition]

    def given(*arguments: str) -> list[dict[str, object]]:
        return rows(capsys, "cat", ended, "--partition", partition, *arguments)

    assert given("-o", "-3") == mine[-3:]
    assert given("--from", "-9999") == given("-o", "beginning") == mine
    assert given("-o", "end") == given("--from", "latest") == []
    # what came before a time and what came later are all, and each once
    middle = str(lines[20]["timestamp"])
    before, after = given("--to", middle), given("--from", middle)
    assert before + after == mine
    assert all(str(row["timestamp"]) >= middle for row in after)
    assert given("--from", "1d") == mine
    assert given("--to", "1d") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--follow", "--to", "3"], "--follow is given with --to"),
        (["--events", "-f", "%s"], "-f is given with --events"),
        (["-f", "%q"], "holds '%q'"),
    ],
)
def test_what_does_not_go_together(
    ended: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["spool", "cat", str(ended), *arguments]) == 1
    assert says in capsys.readouterr().err
