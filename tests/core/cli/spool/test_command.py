"""``aqueduct spool`` beside a running intake, after it, and on what is damaged."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.cli.main import main
from aqueduct_core.cli.spool import places
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.control.cursor_owners import CursorOwners
from aqueduct_core.spool import InlineSync, Spool, SpoolReader
from aqueduct_core.spool.format.record import Record
from aqueduct_core.spool.format.scan import scan
from tests.core.cli.running import AQUEDUCT, TIMEOUT, aqueduct, one_error
from tests.core.intake.processes import IntakeProcess, Site
from tests.core.spool.rows import segments
from tests.spark.producing import free_port
from tests.support.repository import ROOT

FIXTURES = ROOT / "tests" / "core" / "spool" / "fixtures"
LINES = [f"line {number}" for number in range(40)]


ROWS = 41
"""The lines, and the message of the entrypoint that their channel is attached to."""


class Stored:
    """The spool of an intake that runs."""

    def __init__(self, site: Site, running: IntakeProcess) -> None:
        self.directory = site.spool
        self.running = running

    def send(self, site: Site, tmp_path: Path) -> None:
        ca = tmp_path / "ca.pem"
        ca.write_bytes(site.client_tls.ca_pem or b"")
        done = aqueduct(
            "send",
            self.running.url,
            "--ca",
            ca,
            "--channel",
            "lines",
            "-H",
            "colour=blue",
            stdin="\n".join(LINES).encode(),
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    tmp_path = tmp_path_factory.mktemp("live")
    site = Site(tmp_path)
    with site.intake(partitions=2, lease=3600.0) as running:
        stored = Stored(site, running)
        stored.send(site, tmp_path)
        with running.client() as client:
            client.hold("query", "somebody")
            client.release("query", "somebody")
        yield stored


@pytest.fixture
def ended(live: Stored, tmp_path: Path) -> Path:
    """A copy as a crash would leave it."""
    return Path(shutil.copytree(live.directory, tmp_path / "intake-0"))


def run(capsys: pytest.CaptureFixture[str], *given: str | Path) -> str:
    assert main(["spool", *map(str, given)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def rows(capsys: pytest.CaptureFixture[str], *given: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(capsys, *given).splitlines()]


def error(capsys: pytest.CaptureFixture[str], name: str, *given: str | Path) -> str:
    assert main(["spool", *map(str, given)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"[{name}] ")
    return line


# ls


def test_ls_of_a_running_intake(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    (told,) = rows(capsys, "ls", "-J", live.directory)
    status = live.running.status()
    assert (told["id"], told["epoch"], told["owner"]) == (status.id, status.epoch, live.running.pid)
    assert [log["kind"] for log in told["logs"]] == ["messages", "messages", "events"]
    assert [log["end"] for log in told["logs"][:2]] == list(status.ends)
    assert sum(status.ends) == ROWS
    (segment,) = told["segments"]
    assert segment["closed"] is None
    assert segment["bytes"] == told["bytes"] > 0
    text = run(capsys, "ls", live.directory)
    assert f"owned by process {live.running.pid}" in text
    assert "in use" in text


def test_ls_of_the_spool_of_a_query(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "ls", live.directory.parent) == run(capsys, "ls", live.directory)


def test_ls_of_what_nobody_owns(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "ls", ended)
    assert "owned by nobody" in text
    assert re.search(r"segment-0+1\.arrows +\d+\.\d KiB +closed \d+ \w+ ago", text)


def test_ls_tells_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = shutil.copytree(FIXTURES / "format_1", tmp_path / "spool")
    segments(directory)[1].unlink()
    (told,) = rows(capsys, "ls", "-J", directory)
    assert told["missing"] == [[0, 18, 27], [1, 12, 18]]
    assert "missing: partition 0, offsets 18 to 27" in run(capsys, "ls", directory)


# cat


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
        ("AQUEDUCT_INVALID_OPTION.BAD_VALUE", ["--partition", "0", "--from", "-1"]),
        ("AQUEDUCT_DATA_LOSS.OFFSET_AHEAD", ["--events", "--to", "9999"]),
    ],
)
def test_cat_refuses(
    live: Stored, capsys: pytest.CaptureFixture[str], name: str, arguments: list[str]
) -> None:
    error(capsys, name, "cat", live.directory, *arguments)


def test_cat_of_other_columns(capsys: pytest.CaptureFixture[str]) -> None:
    error(capsys, "AQUEDUCT_SPOOL.VERSION", "cat", FIXTURES / "format_2")


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


# verify


def damage(directory: Path) -> Record:
    """Flip a bit in the newest record of messages."""
    (path,) = segments(directory)
    # the end is known to be durable: else the record would look like a torn tail
    with SpoolReader(directory) as reader:
        schema, partitions = reader.schema, reader.partitions
    Spool.open(directory, schema=schema, partitions=partitions, sync=InlineSync).close()
    victim = [record for record in scan(path, 1).rows if record.partition < partitions - 1][-1]
    with path.open("r+b") as file:
        file.seek((victim.at + victim.end) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 4]))
    return victim


def test_verify_finds_all_good(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "verify", live.directory)
    assert re.search(r": 1 segments, \d+ records, \d+ rows, \d+\.\d KiB: good", text)
    (told,) = rows(capsys, "verify", "-J", live.directory)
    assert (told["damage"], told["lost"], told["catalog"]) == ([], [], "good")
    assert told["rows"] >= 44


def test_verify_names_the_damaged_offsets(ended: Path) -> None:
    victim = damage(ended)
    done = aqueduct("spool", "verify", ended)
    line = one_error(done, "AQUEDUCT_SPOOL.CORRUPT")
    offsets = f"offsets {victim.first} to {victim.stop} (exclusive) are lost"
    assert f"partition {victim.partition}, {offsets}" in line
    out = done.stdout.decode()
    assert "DAMAGED" in out
    assert re.search(r"segment-0+1\.arrows: bytes \d+ to \d+ are damaged", out)


def test_verify_of_a_damaged_head_and_a_lost_catalog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = shutil.copytree(FIXTURES / "format_1", tmp_path / "spool")
    (directory / "catalog.sqlite").write_bytes(b"nothing " * 100)
    assert "the next owner builds it anew" in run(capsys, "verify", directory)
    path = segments(directory)[2]
    with path.open("r+b") as file:
        file.seek(3)
        file.write(b"?")
    line = error(capsys, "AQUEDUCT_SPOOL.CORRUPT", "verify", directory)
    assert re.search(rf"{path.name}, bytes 0 to \d+", line)


def test_verify_shows_progress_on_a_terminal(live: Stored) -> None:
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        done = subprocess.run(
            [*AQUEDUCT, "spool", "verify", str(live.directory)],
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=TIMEOUT,
            check=True,
        )
        os.set_blocking(ours, False)
        shown = os.read(ours, 65536)
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"intake-0:   0%" in shown
    assert b": good" in done.stdout


# cursors


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


def test_settings_are_shown_and_forgotten(
    live: Stored, ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "listen=127.0.0.1:0" in run(capsys, "settings", live.directory)
    (told,) = rows(capsys, "settings", "-J", ended)
    assert told["settings"] == {"listen": "127.0.0.1:0"}
    assert "forgotten" in run(capsys, "settings", ended, "--forget")
    assert "none were kept" in run(capsys, "settings", ended, "--forget")
    assert "none are kept" in run(capsys, "settings", ended)
    (told,) = rows(capsys, "settings", "-J", ended)
    assert told["settings"] is None


@pytest.mark.parametrize("what", ["ls", "cat", "verify", "cursors", "settings"])
def test_where_there_is_no_spool(
    tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert str(tmp_path) in error(capsys, "AQUEDUCT_SPOOL.IO", what, tmp_path)
    assert "nowhere" in error(capsys, "AQUEDUCT_SPOOL.IO", what, tmp_path / "nowhere")
