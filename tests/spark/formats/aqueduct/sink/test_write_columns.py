"""The columns of a frame to be written."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BooleanType, StructType

from aqueduct_core.errors import InvalidOption, SchemaMismatch
from aqueduct_spark.formats.aqueduct.columns import message_schema
from aqueduct_spark.formats.aqueduct.sink.write_columns import check_write_schema
from tests.spark.write.sinking import options

FRAME = message_schema().add("spool", "string")


def test_the_columns_of_our_source_are_what_is_asked_for() -> None:
    wanted = StructType([FRAME[n] for n in ("value", "channel", "spool", "partition", "offset")])
    check_write_schema(wanted, by_source=True)
    with pytest.raises(SchemaMismatch, match=r"COLUMN_UNKNOWN.*'spool'"):
        check_write_schema(wanted)
    for name in ("spool", "partition", "offset"):
        others = StructType([field for field in wanted.fields if field.name != name])
        with pytest.raises(SchemaMismatch, match=rf"COLUMN_MISSING.*'{name}'.*includeSpool"):
            check_write_schema(others, by_source=True)
        with pytest.raises(SchemaMismatch, match=rf"COLUMN_TYPE.*'{name}'"):
            check_write_schema(others.add(name, BooleanType()), by_source=True)


def test_messages_of_many_rows_have_no_place() -> None:
    with pytest.raises(InvalidOption, match=r"CONFLICT.*payloadFormat=arrow"):
        options("aqueduct://h:1", idempotence="source", payloadFormat="arrow")
