"""Formats, arguments and the cutting of input, without processes."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest

from aqueduct_core.aio.halves import wrap
from aqueduct_core.aio.message import Batch, batch_of
from aqueduct_core.aqueduct.events import Counts
from aqueduct_core.cli.console.output import JsonLines, Origin, Template
from aqueduct_core.cli.input import payloads
from aqueduct_core.errors import InvalidOption

ORIGIN = Origin(3, 8, "größe", None)


def batch(*parts: bytes) -> Batch:
    return Batch(batch_of(parts, 5, True, 100, {0: ((b"k", b"\xff"),)}), 7, {}, wrap)


def test_json_lines_are_whole_objects() -> None:
    out = io.BytesIO()
    output = JsonLines(out)
    output.messages(batch(b'quote " \n', b"\xff", b"cut off"), 2, ORIGIN, 1.5)
    output.event("finished", 3, 8, "", Counts(acked=2))
    first, second, event = [json.loads(line) for line in out.getvalue().splitlines()]
    assert first == {
        "type": "message", "connection": 3, "channel": 8, "name": "größe", "producer": None,
        "num": 7, "reliable": True, "headers": [["k", {"base64": "/w=="}]], "attachments": [],
        "value": 'quote " \n', "timestamp": "1970-01-01T00:00:01.500000Z",
    }  # fmt: skip
    assert (second["num"], second["value"]) == (8, {"base64": "/w=="})
    assert (event["type"], event["kind"], event["counts"]["acked"]) == ("event", "finished", 2)


def test_a_format_writes_payloads_byte_for_byte() -> None:
    out, events = io.BytesIO(), io.BytesIO()
    output = Template(r"%n:%s\t%k%%\n", out, events)
    output.messages(batch(b"\xff\x00", b"b"), 2, ORIGIN, 0.0)
    output.event("cancelled", 3, None, "why", None)
    assert out.getvalue() == b"7:\xff\x00\tk=\xff%\n8:b\t%\n"
    assert events.getvalue() == b"# cancelled connection 3 (why)\n"


@pytest.mark.parametrize("format", ["%", "%q", r"\q", "x%"])
def test_unknown_tokens_are_refused(format: str) -> None:
    with pytest.raises(InvalidOption, match="BAD_VALUE"):
        Template(format, io.BytesIO(), io.BytesIO())


@pytest.mark.parametrize(
    ("content", "cut"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"\n\n", [b"", b""]),
    ],
)
def test_lines(content: bytes, cut: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    assert _read(tmp_path / "f", b"\n", False) == cut


@pytest.mark.parametrize("delimiter", [b"\n", b"ab", b"aab"])
def test_lines_over_the_edge_of_a_piece(
    delimiter: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = delimiter.join([b"one", b"", b"two" * 5, b"a", b"aa", b"three"])
    (tmp_path / "f").write_bytes(content)
    expected = content.split(delimiter)
    for size in (1, 2, 3, 7):
        monkeypatch.setattr("aqueduct_core.cli.input.READ_BYTES", size)
        assert _read(tmp_path / "f", delimiter, False) == expected


def test_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aqueduct_core.cli.input.READ_BYTES", 3)
    (tmp_path / "f").write_bytes(b"a\nb\nc\n")
    assert _read(tmp_path / "f", b"\n", True) == [b"a\nb\nc\n"]


def _read(path: Path, delimiter: bytes, whole: bool) -> list[bytes]:
    async def collect() -> list[bytes]:
        return [part async for portion in payloads([path], delimiter, whole) for part in portion]

    return asyncio.run(collect())
