"""``aqueduct spool`` of a toy: by its own rows, wherever those are needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aqueduct_core.intake.storage.layout import LAYOUT
from tests.core.cli.spool.stored import damage, error, rows, run
from tests.toy.spools import toy_spool

MESSAGES = [b"one", b"two", b"\xff"]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return toy_spool(tmp_path / "spool" / "intake-0", MESSAGES)


def test_its_messages_are_printed_as_it_has_them(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows(capsys, "cat", spool)
    assert [row["value"] for row in found] == ["one", "two", {"base64": "/w=="}]
    assert found[1] == {
        "type": "message",
        "value": "two",
        "topic": "a",
        "number": 1,
        "reading": False,
        "received": "1970-01-01T00:00:00.000001Z",
        "partition": 0,
        "offset": 1,
    }
    assert [row["intake"] for row in rows(capsys, "cat", spool.parent)] == [0, 0, 0]


def test_its_events_are_printed(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [event] = rows(capsys, "cat", spool, "--events")
    assert (event["type"], event["kind"], event["connection"]) == ("event", "connected", "c")


def test_what_needs_no_rows_works_for_any_protocol(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown(spool)
    [listing] = rows(capsys, "ls", spool, "-J")
    assert [(log["kind"], log["end"]) for log in listing["logs"]] == [
        ("messages", 3),
        ("events", 1),
    ]
    assert "partition 0 (messages): offsets 0 to 3" in run(capsys, "ls", spool)
    [report] = rows(capsys, "verify", spool, "-J")
    assert (report["rows"], report["lost"]) == (4, [])
    assert "no cursors" in run(capsys, "cursors", spool)


def test_what_is_damaged_is_skipped_with_an_event(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(spool)
    run(capsys, "skip", spool, "--partition", "0", "--from", "0", "--to", "3")
    events = rows(capsys, "cat", spool, "--events")
    assert [(event["kind"], event["first"], event["last"]) for event in events[1:]] == [
        ("skipped", 0, 2)
    ]


@pytest.mark.parametrize("verb", ["cat", "skip"])
def test_a_protocol_that_is_not_known_here_is_named(
    spool: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    damage(spool)
    unknown(spool)
    before = stored(spool)
    given = ["--partition", "0", "--from", "0", "--to", "3"]
    line = error(capsys, "AQUEDUCT_SPOOL.VERSION", verb, spool, *given)
    assert "protocol toy" in line
    assert "nowhere.adapter" in line
    assert stored(spool) == before


def test_an_adapter_of_another_protocol_is_none(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown(spool, "aqueduct_core.intake.aqueduct.adapter:ADAPTER")
    line = error(capsys, "AQUEDUCT_SPOOL.VERSION", "cat", spool)
    assert "protocol toy" in line
    assert "aqueduct" in line


def stored(spool: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(spool.glob("segment-*"))]


def unknown(spool: Path, adapter: str = "nowhere.adapter:ADAPTER") -> None:
    """As where the package of the protocol is not installed."""
    path = spool / LAYOUT
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"adapter": adapter}))
