"""What sinks do alike with the columns of a frame."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from aqueduct_core.errors import SchemaMismatch
from aqueduct_core.intake.telehash.channels import LONGEST_TYPE
from aqueduct_spark.formats.quicr.options import LONGEST_URL
from aqueduct_spark.write import row_columns
from aqueduct_spark.write.row_columns import (
    by_text,
    check_row_columns,
    refuse_rows,
    slices,
    table_columns,
)


@pytest.mark.parametrize(
    ("columns", "format", "text"),
    [
        ("value long", "binary", "COLUMN_TYPE.*'value' is bigint; it must be binary or string"),
        ("value binary", "text", "it must be string"),
        ("value string, where long", "binary", "COLUMN_TYPE.*'where' is bigint; it must be string"),
        ("value string, other long", "binary", "COLUMN_UNKNOWN.*columns are value, where, number"),
        ("where string", "binary", "COLUMN_MISSING.*'value' is missing.*bytes of each thing"),
        ("where string", "json", "COLUMN_MISSING.*all columns but where, number"),
    ],
)
def test_columns_that_no_message_has_are_refused(columns: str, format: str, text: str) -> None:
    schema = StructType()
    for each in columns.split(", "):
        schema = schema.add(*each.split())
    control = {"where": (StringType(),), "number": (LongType(),)}
    with pytest.raises(SchemaMismatch, match=text):
        check_row_columns(schema, format, control, "thing")


@pytest.mark.parametrize(
    ("format", "place", "longest", "columns"),
    [
        ("binary", "url", LONGEST_URL, "struct<value:binary,url:varchar(1024)>"),
        ("text", "type", LONGEST_TYPE, "struct<value:string,type:varchar(200)>"),
    ],
)
def test_a_table_has_a_column_that_no_frame_has(
    format: str, place: str, longest: int, columns: str
) -> None:
    assert table_columns(format, place, longest).simpleString() == columns
    with pytest.raises(SchemaMismatch, match="REQUIRED"):
        table_columns("json", place, longest)


def test_a_batch_is_cut_by_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch({"value": [b"x" * 100] * 10})
    assert [each.num_rows for each in slices(batch)] == [10]
    monkeypatch.setattr(row_columns, "SLICE_ROWS", 4)
    assert [each.num_rows for each in slices(batch)] == [4, 4, 2]
    monkeypatch.setattr(row_columns, "SLICE_BYTES", batch.nbytes // 5)
    assert [each.num_rows for each in slices(batch)] == [2] * 5


def test_rows_are_found_by_their_text_and_in_order() -> None:
    found = {text: rows.tolist() for text, rows in by_text(pa.array(["b", "a", "b", "ä", "a"]))}
    assert found == {"b": [0, 2], "a": [1, 4], "ä": [3]}


def test_the_first_row_that_is_wrong_is_named() -> None:
    refuse_rows(pa.array([False, False]), 7, "is wrong", "Filter it")
    with pytest.raises(SchemaMismatch, match=r"REQUIRED.*Row 8 of the task is wrong\. Filter it"):
        refuse_rows(pa.array([False, True, True]), 7, "is wrong", "Filter it")
