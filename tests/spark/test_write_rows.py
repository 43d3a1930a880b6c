"""From record batches to portions: order inside a destination, nothing lost, errors told."""

from __future__ import annotations

import pyarrow as pa
import pytest

from aqueduct_core.errors import SchemaMismatch, SinkFailed
from aqueduct_spark.write.counts import SentCounts, summary
from aqueduct_spark.write.rows import SLICE_ROWS, Destination, Portion, portions

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def split(batch: pa.RecordBatch, channel: str | None = None) -> list[Portion]:
    found = portions(batch, channel=channel, reliability="ordered", max_message_bytes=10)
    return list(found)


def test_one_destination_is_one_portion() -> None:
    batch = pa.record_batch({"value": pa.array(["a", "é"])})
    [portion] = split(batch)
    assert portion == Portion(Destination("spark", "ordered"), [b"a", "é".encode()], None)
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
    assert found == {"a": [(("k", b"v"),), ()], "b": None}


def test_large_batches_come_in_slices() -> None:
    count = SLICE_ROWS + 1
    batch = pa.record_batch({"value": pa.array([str(n) for n in range(count)])})
    found = split(batch)
    assert [len(p.payloads) for p in found] == [SLICE_ROWS, 1]
    assert [b for p in found for b in p.payloads] == [b"%d" % n for n in range(count)]


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
        (
            {
                "value": pa.array([b"x"]),
                "headers": pa.array([[{"key": "é", "value": b""}]], HEADERS),
            },
            SchemaMismatch,
            "COLUMN_TYPE",
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
    tasks = [SentCounts(0, 1, 5, 4, 1, 50), SentCounts(1, 2, 3, 3, 0, 30)]
    assert summary("w", tasks) == "writer w: tasks=2 sent=8 acked=7 nacked=1 bytes=80 channels=3"
