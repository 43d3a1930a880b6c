"""JSON and text payloads, both ways: what goes in comes out, and poison stays bounded."""

from __future__ import annotations

import json
import resource
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from aqueduct_core.errors import MalformedPayload, SchemaMismatch
from aqueduct_spark.read.payloads.json import MAX_VALUES
from aqueduct_spark.write.payloads import json_column
from tests.spark.read.payloads.decoding import decode, plan_of

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]  # Spark reads the DDL

EVERY = (
    "s STRING, b BINARY, t BOOLEAN, i INT, l LONG, f FLOAT, d DOUBLE, m DECIMAL(20, 4), "
    "day DATE, at TIMESTAMP, plain TIMESTAMP_NTZ, list ARRAY<BINARY>, "
    "inner STRUCT<x: INT, y: ARRAY<STRUCT<z: STRING>>>, map MAP<STRING, DECIMAL(5, 2)>"
)
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
ROW: dict[str, Any] = {
    "s": 'é "quoted"\n',
    "b": b"\x00\xff",
    "t": False,
    "i": -(1 << 31),
    "l": (1 << 63) - 1,
    "f": 0.5,
    "d": 1e300,
    "m": Decimal("1234567890123456.7891"),
    "day": date(1999, 12, 31),
    "at": MOMENT,
    "plain": MOMENT.replace(tzinfo=None),
    "list": [b"a", None],
    "inner": {"x": 1, "y": [{"z": "deep"}, None]},
    "map": [("k", Decimal("1.50"))],
}


def test_every_type_comes_back() -> None:
    plan = plan_of(EVERY, "json")
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(plan.schema, timezone="UTC")
    rows = [ROW, dict.fromkeys(ROW)]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    payloads = json_column(batch).to_pylist()
    assert all(isinstance(json.loads(payload), dict) for payload in payloads)
    assert decode(payloads, EVERY, "json", "failFast") == rows


def test_numbers_that_are_none() -> None:
    batch = pa.record_batch({"d": [float("nan"), float("inf"), float("-inf"), 1.0]})
    payloads = json_column(batch).to_pylist()
    assert payloads[:3] == [b'{"d":"NaN"}', b'{"d":"Infinity"}', b'{"d":"-Infinity"}']
    back = [row["d"] for row in decode(payloads, "d DOUBLE", "json", "failFast")]
    assert str(back) == "[nan, inf, -inf, 1.0]"


def test_a_struct_is_the_whole_object() -> None:
    """Then fields may have names that the intake uses."""
    struct = pa.array([{"offset": "mine", "channel": 1}])
    batch = pa.record_batch({"value": struct, "channel": ["c"]})
    [payload] = json_column(batch, ["channel"]).to_pylist()
    assert json.loads(payload) == {"offset": "mine", "channel": 1}
    columns = "value STRUCT<offset: STRING, channel: INT>, offset LONG, channel STRING"
    assert decode([payload, b"{"], columns, "json") == [
        {"value": {"offset": "mine", "channel": 1}, "offset": 100, "channel": "c"},
        {"value": None, "offset": 101, "channel": "c"},
    ]


def test_missing_fields_are_null_and_unknown_ones_ignored() -> None:
    assert decode([b'{"b": 2, "c": 3}'], "a INT, b INT", "json", "failFast") == [
        {"a": None, "b": 2}
    ]


BAD = {
    b"": "not JSON",
    b"[1]": "not an object",
    b'{"a": 1': "not JSON",
    b'{"a": "x"}': "field 'a' does not hold int32",
    b'{"a": true}': "field 'a' does not hold int32",
    b'{"a": 1.5}': "field 'a' does not hold int32",
    b'{"a": 4294967296}': "field 'a' does not hold int32",
    b'{"a": NaN}': "a number that is none",
    b'{"a": ' + b"9" * 10_000 + b"}": "too long",
    b'\xff{"a": 1}': "not UTF-8 at byte 0",
    b"[" * 100_000: "nested too deeply",
    b'{"a": [' + b"[]," * MAX_VALUES + b"1]}": "over 1000000 values",
    b'{"s": "\\ud800"}': "field 's' does not hold string",
    b'{"m": {"\\ud800": 1}}': "field 'm' does not hold map",
}


@pytest.mark.parametrize("payload", BAD, ids=[str(n) for n in range(len(BAD))])
def test_fault_35_json_that_is_none(payload: bytes) -> None:
    columns = (
        "a INT, s STRING, m MAP<STRING, INT>, _corrupt BINARY, _corruptReason STRING, offset LONG"
    )
    good = b'{"a": 1, "s": "x"}'
    before, bad, after = decode([good, payload, good], columns, "json")
    assert before == {
        "a": 1,
        "s": "x",
        "m": None,
        "_corrupt": None,
        "_corruptReason": None,
        "offset": 100,
    }
    assert after["offset"] == 102
    assert (bad["a"], bad["s"], bad["_corrupt"], bad["offset"]) == (None, None, payload, 101)
    assert BAD[payload] in bad["_corruptReason"]
    kept = decode([good, payload, good], columns, "json", "dropMalformed")
    assert [row["offset"] for row in kept] == [100, 102]
    with pytest.raises(MalformedPayload) as failed:
        decode([good, payload, good], columns, "json", "failFast")
    text = str(failed.value)
    assert "offset 101 of partition 1 (channel 'c')" in text
    assert len(text) < 500


def test_fault_35_a_large_object_of_brackets_costs_little() -> None:
    bomb = b'{"a": [' + b"[]," * 5_000_000 + b"1]}"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    [row] = decode([bomb], "a ARRAY<INT>, _corruptReason STRING", "json")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert "values" in row["_corruptReason"]
    assert grown < 6 * len(bomb)


def test_entrypoint_messages_that_carry_channels_are_no_payloads() -> None:
    assert decode([b"", b'{"a": 1}'], "a INT", "json", "failFast", channel="0") == [{"a": 1}]
    assert len(decode([b""], "a INT", "json", channel="c")) == 1


def test_text() -> None:
    columns = (
        "value STRING, channel STRING, producer STRING, messageNum LONG, reliable BOOLEAN, "
        "partition INT, offset LONG, timestamp TIMESTAMP"
    )
    rows = decode(["é".encode(), b"", b"x\xffy"], columns, "text")
    assert [row["value"] for row in rows] == ["é", "", "x\ufffdy"]
    assert len(decode([b"x\xffy", b"x"], columns, "text", "dropMalformed")) == 1
    with pytest.raises(MalformedPayload, match="not UTF-8 at byte 1"):
        decode([b"x\xffy"], columns, "text", "failFast")
    [bad] = decode([b"\xff"], columns + ", _corrupt BINARY", "text")
    assert (bad["value"], bad["_corrupt"]) == ("\ufffd", b"\xff")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("offset LONG", "COLUMN_MISSING] No column holds a payload"),
        ("a INT, offset STRING", "COLUMN_TYPE] Column 'offset' is string"),
        ("a INT, _corrupt STRING", "COLUMN_TYPE] Column '_corrupt' is string"),
        ("a INTERVAL DAY TO SECOND", "COLUMN_TYPE] Column 'a' is interval"),
        ("a MAP<INT, INT>", "COLUMN_TYPE] Column 'a' is map<int,int>"),
    ],
)
def test_schemas_that_cannot_be(columns: str, words: str) -> None:
    with pytest.raises(SchemaMismatch) as refused:
        plan_of(columns, "json")
    assert words in str(refused.value)
