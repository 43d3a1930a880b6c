"""Columns of frames that are posted: which there may be, and which rows are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from aqueduct_core.errors import AqueductError, SchemaMismatch, SinkFailed
from aqueduct_spark.formats.quicr.sink.columns import (
    ObjectRows,
    UrlSplitter,
    check_columns,
)
from aqueduct_spark.write import row_columns
from tests.support.rules import rule


def frame(columns: str) -> StructType:
    """Columns as ``name type, …``."""
    schema = StructType()
    for each in columns.split(", "):
        schema = schema.add(*each.split())
    return schema


@pytest.mark.parametrize(
    "columns",
    [
        "value binary, url string",
        "value string, url string, flags short, group_id long, object_id integer",
        "value binary, url string, group_id byte",
    ],
)
def test_frames_that_can_be_posted(columns: str) -> None:
    check_columns(frame(columns), "binary", None)


@pytest.mark.parametrize(
    ("columns", "format", "url", "text"),
    [
        ("url string", "binary", None, "COLUMN_MISSING.*'value' is missing"),
        ("value binary", "binary", None, "COLUMN_MISSING.*'url' is missing, and so is option"),
        (
            "value integer",
            "binary",
            "u",
            "'value' is int; it must be binary or string",
        ),
        ("value binary", "text", "u", "it must be string"),
        ("value binary, flags string", "binary", "u", "'flags' is string; it must be tinyint or"),
        ("value binary, payload binary", "binary", "u", "COLUMN_UNKNOWN.*'payload' cannot be"),
        ("value binary, object_id integer", "binary", "u", "'group_id' is missing beside"),
        ("url string", "json", None, "COLUMN_MISSING.*No column holds a payload"),
    ],
)
def test_frames_that_cannot_be_posted(
    columns: str, format: str, url: str | None, text: str
) -> None:
    with pytest.raises(SchemaMismatch, match=text):
        check_columns(frame(columns), format, url)


def split(rows: dict[str, Any], url: str | None = None, most: int = 1 << 20) -> list[ObjectRows]:
    found = []
    for piece in UrlSplitter(url, "binary", most).split(pa.RecordBatch.from_pydict(rows)):
        for each in piece:
            assert isinstance(each, ObjectRows)
            found.append(each)
    return found


def test_rows_are_split_by_their_urls_and_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_columns, "SLICE_ROWS", 3)
    given = {
        "value": [b"0", b"1", b"2", b"3", b"4"],
        "url": ["a", "b", "a", "a", "b"],
        "flags": [1, None, 129, 0, 254],
        "group_id": [0, 0, 0, 1, 7],
        "object_id": [0, 0, 1, 0, 3],
    }
    found = split(given)
    assert [
        (r.destination.channel, r.payloads, list(r.rows), r.flags, r.groups, r.objects)
        for r in found
    ] == [
        ("a", [b"0", b"2"], [0, 2], [1, 129], [0, 0], [0, 1]),
        ("b", [b"1"], [1], [0], [0], [0]),
        ("a", [b"3"], [3], [0], [1], [0]),
        ("b", [b"4"], [4], [254], [7], [3]),
    ]


def test_a_url_is_one_media_however_it_is_written() -> None:
    """Otherwise there would be two that number their objects from the first one on, and the
    receiver would keep those of one."""
    found = split({"value": [b"0", b"1", b"2", b"3"], "url": ["a", "\\x61", "\\xFF", "a"]})
    assert [(r.destination.channel, r.payloads, list(r.rows)) for r in found] == [
        ("a", [b"0", b"1", b"3"], [0, 1, 3]),
        ("\\xff", [b"2"], [2]),
    ]


def test_an_option_beats_the_column() -> None:
    [rows] = split({"value": [b"0", b"1"], "url": ["a", None]}, "u")
    assert (rows.destination.channel, rows.payloads) == ("u", [b"0", b"1"])
    assert (rows.flags, rows.groups, rows.objects) == ([0, 0], None, None)


@rule("Q-37", "Q-38")
@pytest.mark.parametrize(
    ("column", "text"),
    [
        ({"value": [b"x", b""]}, "REQUIRED.*Row 1 of the task has an empty value.*is a hole"),
        ({"value": [b"x", None]}, "REQUIRED.*'value' is null in 1 of 2"),
        ({"flags": [0, 255]}, r"Row 1 of the task has flags 255.*0 to 254, as 255 is a hole"),
        ({"flags": [-1, 0]}, "Row 0 of the task has flags -1"),
        ({"group_id": [0, None]}, "REQUIRED.*Row 1 of the task has no group_id"),
        ({"group_id": [1 << 30, 0]}, "has group_id 1073741824; it must be 0 to 1073741823"),
        ({"url": ["a", None]}, "REQUIRED.*Row 1 of the task has no url"),
        ({"url": ["a", "b\\c"]}, r"'url' holds 'b\\c'; it must be a URL in which a backslash"),
        ({"url": ["a", ""]}, "one of 1 to 1024 bytes"),
    ],
)
def test_a_row_that_is_no_object_is_refused_by_its_number(
    column: dict[str, list[Any]], text: str
) -> None:
    rows = {"value": [b"x", b"y"], "url": ["a", "a"]} | column
    with pytest.raises(AqueductError, match=text):
        split(rows)


def test_a_row_that_is_too_large_is_refused() -> None:
    with pytest.raises(SinkFailed, match="MESSAGE_TOO_LARGE"):
        split({"value": [b"x" * 11], "url": ["a"]}, most=10)


def test_rows_are_counted_over_batches() -> None:
    splitter = UrlSplitter("u", "binary", 100)
    first = pa.RecordBatch.from_pydict({"value": [b"x"] * 5})
    assert len(list(splitter.split(first))) == 1
    with pytest.raises(SchemaMismatch, match="Row 6 of the task"):
        list(splitter.split(pa.RecordBatch.from_pydict({"value": [b"x", b""]})))
    assert list(splitter.rest()) == []
