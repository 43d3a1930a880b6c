"""Column ``headers``: what each row has, however the column is cut."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.aqueduct.conventions.headers import key_from_text
from aqueduct_core.errors import SchemaMismatch
from aqueduct_spark.formats.aqueduct.sink.row_headers import row_headers

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

PAIRS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["k", "", "é", "trace", "x" * 130]),
            "value": st.one_of(st.none(), st.binary(max_size=3), st.just(b"v" * 200)),
        }
    ),
)


def frame(rows: list[Any]) -> pa.RecordBatch:
    return pa.record_batch({"headers": pa.array(rows, HEADERS)})


@given(
    st.lists(st.one_of(st.none(), st.lists(PAIRS, max_size=3)), min_size=1, max_size=8),
    st.integers(0, 7),
)
def test_each_row_has_its_pairs(rows: list[Any], first: int) -> None:
    """Nulls are left out at every level, also in a column that is part of a larger one."""
    first = min(first, len(rows) - 1)
    expected = [
        tuple((key_from_text(pair["key"]), pair["value"] or b"") for pair in row or () if pair)
        for row in rows[first:]
    ]
    column = row_headers(frame(rows).slice(first))
    if not any(expected):
        assert column is None
        return
    assert column is not None
    assert list(column) == expected
    assert column.received
    assert column.most_pairs == max(map(len, expected))
    assert column.keys >= {key for pairs in expected for key, _ in pairs}


def test_what_lies_below_a_null_is_no_header() -> None:
    """As Arrow allows it, and a take or a concatenation may leave it."""
    pairs = pa.array([{"key": key, "value": b"v"} for key in "abc"], HEADERS.value_type)
    ends, nulls = pa.array([0, 1, 2, 3], pa.int32()), pa.array([False, True, False])
    column = pa.ListArray.from_arrays(ends, pairs, type=HEADERS, mask=nulls)
    found = row_headers(pa.record_batch({"headers": column}))
    assert found is not None
    assert list(found) == [((b"a", b"v"),), (), ((b"c", b"v"),)]


def test_a_frame_without_the_column_has_none() -> None:
    assert row_headers(pa.record_batch({"value": [b"x"]})) is None


def test_a_key_that_is_null_is_refused() -> None:
    with pytest.raises(SchemaMismatch) as refused:
        row_headers(frame([[{"key": "k", "value": b""}], [{"key": None, "value": b""}]]))
    assert refused.value.subclass == "REQUIRED"
