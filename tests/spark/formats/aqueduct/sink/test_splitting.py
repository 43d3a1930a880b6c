"""From record batches to portions: order inside a destination, nothing lost, errors told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.errors import SchemaMismatch, SinkFailed
from aqueduct_spark.formats.aqueduct.sink.splitting import RowPlan, Splitter
from aqueduct_spark.write.batches import Destination, RowBatch
from aqueduct_spark.write.row_columns import SLICE_BYTES, SLICE_ROWS
from aqueduct_spark.write.sink import SentCounts, summary
from tests.support.repository import ROOT

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def split(
    batch: pa.RecordBatch,
    channel: str | None = None,
    *,
    payload_format: str = "binary",
    most: int = 10,
) -> list[RowBatch]:
    splitter = Splitter(RowPlan(channel, "ordered", payload_format, most))
    return [
        portion for portions in (*splitter.split(batch), *splitter.rest()) for portion in portions
    ]


def test_one_destination_is_one_portion() -> None:
    batch = pa.record_batch({"value": pa.array(["a", "é"])})
    [portion] = split(batch)
    assert portion == RowBatch(Destination("spark", "ordered"), [b"a", "é".encode()], range(2))
    assert portion.size == 3


def test_rows_keep_their_order_in_each_destination() -> None:
    batch = pa.record_batch(
        {
            "value": pa.array([b"0", b"1", b"2", b"3", b"4"]),
            "channel": ["b", "a", "b", None, "a"],
            "reliability": ["ordered", None, "Unordered", "ordered", "ordered"],
        }
    )
    found = {portion.destination: portion.payloads for portion in split(batch)}
    assert found == {
        Destination("b", "ordered"): [b"0"],
        Destination("a", "ordered"): [b"1", b"4"],
        Destination("b", "unordered"): [b"2"],
        Destination("spark", "ordered"): [b"3"],
    }


def test_the_option_channel_beats_the_column() -> None:
    batch = pa.record_batch({"value": [b"0", b"1"], "channel": ["a", "b"]})
    [portion] = split(batch, channel="all")
    assert portion.destination.channel == "all"


def test_headers_go_with_their_rows() -> None:
    batch = pa.record_batch(
        {
            "value": pa.array([b"0", b"1", b"2"]),
            "channel": ["a", "b", "a"],
            "headers": pa.array([[{"key": "k", "value": b"v"}], None, []], HEADERS),
        }
    )
    found = {portion.destination.channel: portion.headers for portion in split(batch)}
    assert found == {"a": HeaderColumn.of([((b"k", b"v"),), ()]), "b": None}


def test_a_row_knows_its_place_in_the_task() -> None:
    splitter = Splitter(RowPlan(None, "ordered", "binary", 10))
    batch = pa.record_batch({"value": [b"0", b"1", b"2"], "channel": ["a", "b", "a"]})
    places = [
        (portion.destination.channel, list(portion.rows))
        for _ in range(2)
        for portions in splitter.split(batch)
        for portion in portions
    ]
    assert places == [("a", [0, 2]), ("b", [1]), ("a", [3, 5]), ("b", [4])]


def test_a_part_of_a_portion() -> None:
    pairs = [(), ((b"k", b"v"),), ()]
    headers = HeaderColumn.of(pairs)
    portion = RowBatch(Destination("c", "ordered"), [b"0", b"1", b"2"], range(5, 8), headers)
    assert portion.part(0, 3) is portion
    one = HeaderColumn.of(pairs[1:2])
    assert portion.part(1, 2) == RowBatch(portion.destination, [b"1"], range(6, 7), one)


def test_large_batches_come_in_slices() -> None:
    count = SLICE_ROWS + 1
    batch = pa.record_batch({"value": pa.array([str(n) for n in range(count)])})
    found = split(batch)
    assert [len(p.payloads) for p in found] == [SLICE_ROWS, 1]
    assert [b for p in found for b in p.payloads] == [b"%d" % n for n in range(count)]
    large = pa.record_batch({"value": [b"x" * (SLICE_BYTES // 4)] * 12})
    found = split(large, most=SLICE_BYTES)
    assert sum(len(p.payloads) for p in found) == 12
    assert max(p.size for p in found) <= SLICE_BYTES


@pytest.mark.parametrize(
    ("columns", "error", "subclass"),
    [
        ({"value": pa.array([b"x", None])}, SchemaMismatch, "REQUIRED"),
        ({"value": pa.array([b"x" * 11])}, SinkFailed, "MESSAGE_TOO_LARGE"),
        (
            {"value": pa.array([b"x"]), "reliability": ["perhaps"]},
            SchemaMismatch,
            "COLUMN_TYPE",
        ),
        ({"value": pa.array([b"x"]), "channel": [""]}, SchemaMismatch, "COLUMN_TYPE"),
        ({"value": pa.array([b"x"]), "channel": ["é" * 129]}, SchemaMismatch, "COLUMN_TYPE"),
        ({"value": pa.array([b"x"]), "channel": ["a\0b"]}, SchemaMismatch, "COLUMN_TYPE"),
        (
            {
                "value": pa.array([b"x"]),
                "headers": pa.array([[{"key": None, "value": b""}]], HEADERS),
            },
            SchemaMismatch,
            "REQUIRED",
        ),
    ],
)
def test_rows_that_cannot_be_messages(
    columns: dict[str, object], error: type[SchemaMismatch | SinkFailed], subclass: str
) -> None:
    with pytest.raises(error) as refused:
        split(pa.record_batch(columns))
    assert refused.value.subclass == subclass


def test_the_summary_is_one_line() -> None:
    tasks = [
        SentCounts(0, 1, 5, 4, 1, 50, 1.5, ("h:1",)),
        SentCounts(1, 2, 3, 3, 0, 30, 0.25, ("h:2", "h:1"), repeated=2, unchecked=1),
        SentCounts.none(2),
    ]
    assert summary("w", tasks) == (
        "writer w: tasks=3 sent=8 acked=7 nacked=1 repeated=2 bytes=80 channels=3 unchecked=1 "
        "seconds=1.500 endpoints=h:1,h:2"
    )


@pytest.mark.parametrize("payload_format", ["binary", "json", "arrow"])
def test_no_payload_format_imports_pandas(payload_format: str, tmp_path: Path) -> None:
    """Half a second and 60 MB in each worker, for nothing."""
    rows = pa.record_batch(
        {
            "value": pa.array([b"x", b"y", None if payload_format != "binary" else b"z"]),
            "channel": ["a", None, "a"],
            **({} if payload_format == "arrow" else {"headers": pa.nulls(3, HEADERS)}),
            **({} if payload_format == "binary" else {"list": [[1.5], None, []]}),
        }
    )
    with pa.ipc.new_stream(tmp_path / "rows", rows.schema) as writer:
        writer.write_batch(rows)
    script = (
        "import sys, pyarrow as pa\n"
        "from aqueduct_spark.formats.aqueduct.sink.splitting import RowPlan, Splitter\n"
        f"[rows] = pa.ipc.open_stream({str(tmp_path / 'rows')!r})\n"
        f"splitter = Splitter(RowPlan(None, 'ordered', {payload_format!r}, 1000))\n"
        "found = [*splitter.split(rows), *splitter.rest()]\n"
        "print(len(found), 'pandas' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "False"]
