"""Columns of any type that a payload may have, beside what ``pyarrow.array`` makes of values."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_spark.read.payloads import columns
from aqueduct_spark.read.payloads.columns import column
from tests.spark.read.payloads.decoding import stored
from tests.support.waiting import LONG

MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
SCALARS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    *((pa.from_numpy_dtype(f"int{bits}"), st.integers(-(1 << bits - 1), (1 << bits - 1) - 1))
      for bits in (8, 16, 32, 64)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.decimal128(38, 0), st.decimals(-(10**38) + 1, 10**38 - 1, allow_nan=False, places=0)),
    (pa.decimal128(9, 4), st.decimals(-99999, 99999, allow_nan=False, places=3)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), MOMENTS),
    (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    (pa.string(), TEXTS),
    (pa.binary(), st.binary(max_size=5)),
]  # fmt: skip


@st.composite
def kinds(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    """A type, and values of it, nulls among them."""
    shape = draw(st.sampled_from(["scalar", "list", "map", "struct"] if depth else ["scalar"]))
    if shape == "scalar":
        kind, values = draw(st.sampled_from(SCALARS))
    elif shape == "struct":
        fields = draw(st.lists(kinds(depth - 1), min_size=1, max_size=3))
        kind = pa.struct([(f"f{number}", of) for number, (of, _) in enumerate(fields)])
        values = st.fixed_dictionaries({f"f{n}": held for n, (_, held) in enumerate(fields)})
    else:
        of, held = draw(kinds(depth - 1))
        if shape == "list":
            kind, values = pa.list_(of), st.lists(held, max_size=3)
        else:
            kind = pa.map_(pa.string(), of)
            values = st.dictionaries(TEXTS, held, max_size=3).map(lambda each: list(each.items()))
    return kind, st.one_of(st.none(), values)


@given(st.data())
def test_it_makes_what_pyarrow_makes(data: st.DataObject) -> None:
    kind, held = data.draw(kinds())
    values = data.draw(st.lists(held, max_size=6))
    made = column(values, kind)
    made.validate(full=True)
    assert made.type == kind
    assert made.equals(pa.array(values, kind)), (values, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Decimal("0E+999999"), pa.decimal128(5, 2)),
        (Decimal("-1.5"), pa.decimal128(38, 10)),
        (1e300, pa.float32()),
        (7, pa.float64()),
        (date.min, pa.date32()),
    ],
)
def test_values_at_the_edges(value: object, kind: pa.DataType) -> None:
    if value == 0:
        assert column([value], kind).equals(pa.array([Decimal(0)], kind))
    else:
        assert column([value], kind).equals(pa.array([value], kind))


def test_what_offsets_do_not_reach_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MOST_BYTES", 4)
    assert column(["four"], pa.string()).to_pylist() == ["four"]
    with pytest.raises(ValueError, match="5 are more than a column holds"):
        column([b"fi", b"ve!"], pa.binary())


def test_types_of_no_payload_are_refused() -> None:
    with pytest.raises(TypeError, match="no payload has duration"):
        column([None], pa.duration("us"))


READER = """
import sys
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, MapType, StringType, StructField, StructType
from aqueduct_spark.formats.aqueduct.rows import AqueductRows
from aqueduct_spark.model.read_schemas import Decoding
from aqueduct_spark.read.payloads.decoding import decoded

inner = MapType(StringType(), IntegerType())
schema = StructType([
    StructField("s", StringType()), StructField("inner", inner),
    StructField("channel", StringType()),
    StructField("_corrupt", BinaryType()), StructField("_corruptReason", StringType()),
])
plan = Decoding("json", "permissive", schema, ("s", "inner"))
stored = pa.ipc.open_stream(sys.stdin.buffer)
print([batch.num_rows for batch in decoded(stored, plan, AqueductRows())], "pandas" in sys.modules)
"""


def test_reading_json_imports_no_pandas() -> None:
    """Whole and broken payloads."""
    batch = stored([b'{"s": "x", "inner": {"a": 1}}', b"{"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    done = subprocess.run(
        [sys.executable, "-c", READER],
        input=sink.getvalue().to_pybytes(),
        capture_output=True,
        timeout=LONG,
        check=False,
    )
    assert (done.stdout, done.stderr) == (b"[2] False\n", b"")
