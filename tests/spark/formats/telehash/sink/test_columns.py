"""Columns of frames that go out as packets: which there may be, and which rows are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from aqueduct_core.errors import AqueductError, SchemaMismatch, SinkFailed
from aqueduct_spark.formats.telehash.sink.columns import (
    MAX_PACKET,
    PacketRows,
    TypeSplitter,
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
    ["value binary, type string", "value string, type string, js string, end boolean"],
)
def test_frames_that_can_be_sent(columns: str) -> None:
    check_columns(frame(columns), "binary", None)


@pytest.mark.parametrize(
    ("columns", "format", "type", "text"),
    [
        ("type string", "binary", None, "COLUMN_MISSING.*'value' is missing.*of each packet"),
        ("value binary", "binary", None, "COLUMN_MISSING.*'type' is missing, and so is option"),
        ("value binary, js binary", "binary", "_a", "'js' is binary; it must be string"),
        ("value binary, end string", "binary", "_a", "'end' is string; it must be boolean"),
        ("value integer", "binary", "_a", "'value' is int; it must be binary or string"),
        ("value binary, seq long", "binary", "_a", "COLUMN_UNKNOWN.*'seq' cannot be written"),
        ("js string", "json", "_a", "COLUMN_MISSING.*No column holds a payload"),
    ],
)
def test_frames_that_cannot_be_sent(columns: str, format: str, type: str | None, text: str) -> None:
    with pytest.raises(SchemaMismatch, match=text):
        check_columns(frame(columns), format, type)


def split(
    rows: dict[str, Any], type: str | None = None, *, marked: bool = True
) -> list[PacketRows]:
    found = []
    splitter = TypeSplitter(type, "binary", marked=marked)
    for piece in splitter.split(pa.RecordBatch.from_pydict(rows)):
        for each in piece:
            assert isinstance(each, PacketRows)
            found.append(each)
    assert list(splitter.rest()) == []
    return found


def test_rows_are_split_by_their_types_and_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_columns, "SLICE_ROWS", 3)
    given = {
        "value": [b"0", b"1", b"", b"3"],
        "type": ["_a", "_b", "_a", "_a"],
        "js": ['{"n":0}', None, None, '{"n": [1, {"x": "ü"}]}'],
        "end": [False, None, True, False],
    }
    assert [
        (rows.destination.channel, rows.payloads, rows.rows, rows.js, rows.ends)
        for rows in split(given)
    ] == [
        ("_a", [b"0", b""], [0, 2], [{"n": 0}, None], [False, True]),
        ("_b", [b"1"], [1], [None], [False]),
        ("_a", [b"3"], [3], [{"n": [1, {"x": "ü"}]}], None),
    ]


def test_a_part_of_rows_has_what_belongs_to_it() -> None:
    [rows] = split({"value": [b"0", b"1"], "js": ['{"n":0}', None], "end": [False, True]}, "_a")
    part = rows.part(1, 2)
    assert (part.payloads, part.rows, part.js, part.ends) == ([b"1"], [1], [None], [True])
    assert rows.part(0, 2) is rows


def test_an_option_beats_the_column() -> None:
    [rows] = split({"value": [b"0", b"1"], "type": ["_b", None]}, "_a")
    assert (rows.destination.channel, rows.payloads) == ("_a", [b"0", b"1"])
    assert (rows.js, rows.ends) == (None, None)


DEEP = "[" * 1_000 + "]" * 400


@rule("T-2", "T-3")
@pytest.mark.parametrize(
    ("column", "text"),
    [
        ({"value": [b"x", None]}, "REQUIRED.*'value' is null in 1 of 2"),
        ({"type": ["_a", None]}, "REQUIRED.*Row 1 of the task has no type"),
        ({"type": ["_a", "peer"]}, "'type' holds 'peer'; it must be the type of an application"),
        ({"type": ["_a", ""]}, "a type of 1 to 200 bytes"),
        ({"js": ["{}", "{"]}, "'js' of row 1 of the task is no JSON"),
        ({"js": ["{}", '"text"']}, "row 1 of the task is no JSON object"),
        ({"js": ["[1]", "{}"]}, "row 0 of the task is no JSON object"),
        ({"js": ['{"a":NaN}', "{}"]}, "NaN is no number of JSON"),
        ({"js": ['{"a":{"b":1,"b":2}}', "{}"]}, "a key stands twice in one object"),
        ({"js": [DEEP, "{}"]}, "row 0 of the task is no JSON"),
        ({"js": ['{"n":1}', '{"x":1,"p":2,"e":0}']}, "row 1 of the task has a key 'e'"),
    ],
)
def test_a_row_that_is_no_packet_is_refused_by_its_number(
    column: dict[str, list[Any]], text: str
) -> None:
    rows = {"value": [b"x", b"y"], "type": ["_a", "_a"]} | column
    with pytest.raises(AqueductError, match=text):
        split(rows)


def test_rows_that_are_not_marked_may_say_who_they_are() -> None:
    """As they do when they come from another sink."""
    said = '{"q":"w","e":1,"p":0,"i":7}'
    [rows] = split({"value": [b"x"], "js": [said]}, "_a", marked=False)
    assert rows.js == [{"q": "w", "e": 1, "p": 0, "i": 7}]


@rule("P-1")
@pytest.mark.parametrize(
    "column", [{"value": [b"x", b"x" * 1_473]}, {"js": [None, f'{{"a":"{"x" * 1_465}"}}']}]
)
def test_a_row_that_no_packet_holds_is_refused_by_number_and_size(
    column: dict[str, list[Any]],
) -> None:
    with pytest.raises(SinkFailed, match=r"MESSAGE_TOO_LARGE.*Row 1 of.*1473 bytes; one.*1472"):
        split({"value": [b"x", b"y"]} | column, "_a")
    assert MAX_PACKET == 1_472


def test_rows_are_counted_over_batches() -> None:
    splitter = TypeSplitter(None, "binary", marked=True)
    first = pa.RecordBatch.from_pydict({"value": [b"x"] * 5, "type": ["_a"] * 5})
    second = pa.RecordBatch.from_pydict({"value": [b"x"] * 2, "type": ["_a", None]})
    assert len(list(splitter.split(first))) == 1
    with pytest.raises(SchemaMismatch, match="Row 6 of the task"):
        list(splitter.split(second))
