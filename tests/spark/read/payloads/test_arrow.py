"""Arrow payloads, both ways: rows come back as they were, and nothing is believed unchecked."""

from __future__ import annotations

import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from aqueduct_core.errors import MalformedPayload, SinkFailed
from aqueduct_spark.formats.aqueduct.sink.destinations import destinations
from aqueduct_spark.read.payloads.arrow import MAX_ROWS, ArrowPayloads
from aqueduct_spark.write.arrow_cuts import MESSAGE_BYTES, ArrowCutter
from aqueduct_spark.write.arrow_payloads import arrow_messages, payload_rows
from tests.spark.read.payloads.decoding import decode
from tests.spark.read.payloads.test_json import EVERY, ROW

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]  # Spark reads the DDL

SIMPLE = "a INT, s STRING, _corrupt BINARY, _corruptReason STRING, offset LONG"


def message(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def simple(rows: int = 3) -> pa.RecordBatch:
    return pa.record_batch(
        {"a": pa.array(range(rows), pa.int32()), "s": [f"row {row}" for row in range(rows)]}
    )


def test_every_type_comes_back() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = to_arrow_schema(StructType.fromDDL(EVERY), timezone="UTC")
    rows = [ROW, dict.fromkeys(ROW), ROW]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    [(_, payload)] = arrow_messages(batch, 1 << 20)
    assert decode([payload], EVERY, "arrow", "failFast") == rows


def test_rows_know_the_message_they_came_in() -> None:
    one, two = message(simple(2)), message(simple(1))
    rows = decode([one, two], "s STRING, channel STRING, offset LONG", "arrow", "failFast")
    assert [(row["s"], row["offset"]) for row in rows] == [
        ("row 0", 100),
        ("row 1", 100),
        ("row 0", 101),
    ]


def test_columns_by_name_and_units_as_wanted() -> None:
    batch = pa.record_batch(
        {
            "more": [1.5],
            "at": pa.array([1], pa.timestamp("s", "Europe/Berlin")),
            "s": pa.array(["x"], pa.large_string()),
            "a": pa.array([5], pa.int32()),
        }
    )
    [row] = decode([message(batch)], "a INT, s STRING, at TIMESTAMP", "arrow", "failFast")
    assert (row["a"], row["s"], row["at"].timestamp()) == (5, "x", 1)


def test_large_batches_become_several_messages() -> None:
    batch = pa.record_batch({"b": [random.Random(0).randbytes(1000)] * 20_000})
    cutter = ArrowCutter(lambda rows: destinations(rows, None, "ordered"), 16 << 20)
    messages = [message.payload for message in (*cutter.push(batch), *cutter.rest())]
    assert len(messages) > 4
    assert max(map(len, messages)) <= MESSAGE_BYTES * 1.01
    back = decode(messages, "b BINARY", "arrow", "failFast")
    assert len(back) == 20_000
    with pytest.raises(SinkFailed, match="MESSAGE_TOO_LARGE"):
        arrow_messages(pa.record_batch({"b": [b"x" * 5000]}), 4096)


def test_columns_that_say_where_a_row_goes_stay_behind() -> None:
    batch = simple().append_column("channel", pa.array(["x"] * 3))
    [(_, payload)] = arrow_messages(payload_rows(batch, ["channel"]), 1 << 20)
    assert pa.ipc.open_stream(payload).schema.names == ["a", "s"]


def _dictionary() -> bytes:
    batch = simple()
    return message(batch.set_column(1, "s", batch.column("s").dictionary_encode()))


def _runs() -> bytes:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), pa.array(["x"]))
    return message(simple().append_column("r", runs))


def _wild_offsets() -> bytes:
    data = bytearray(message(simple()))
    at = data.find(struct.pack("<iii", 0, 5, 10))
    data[at + 4 : at + 8] = struct.pack("<i", 1 << 30)
    return bytes(data)


def _many_nulls() -> bytes:
    nothing = pa.nulls(MAX_ROWS + 1)
    return message(
        pa.record_batch(
            {
                "a": pa.nulls(MAX_ROWS + 1, pa.int32()),
                "s": pa.nulls(MAX_ROWS + 1, pa.string()),
                "n": nothing,
            }
        )
    )


BAD = {
    "empty": (b"", "not an Arrow IPC stream"),
    "text": (b"no arrow at all, but long enough", "not an Arrow IPC stream"),
    "cut off": (message(simple())[:-40], "not an Arrow IPC stream"),
    "head cut off": (message(simple())[:100], "cut off"),
    "with a tail": (message(simple())[:-8] + b"tail", "not an Arrow IPC stream"),
    "a column is missing": (message(simple().select(["a"])), "0 columns 's'"),
    "another type": (
        message(pa.record_batch({"a": [1], "s": ["x"]})),
        "column 'a' is int64, not int32",
    ),
    "dictionary": (_dictionary(), "not"),
    "runs": (_runs(), "not accepted"),
    "compressed": (message(simple(10_000), compression="zstd"), "compressed"),
    "lz4": (message(simple(10_000), compression="lz4"), "compressed"),
    "wild offsets": (_wild_offsets(), "not an Arrow IPC stream (ArrowInvalid)"),
    "nulls without end": (_many_nulls(), "over 1048576 rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_fault_35_messages_that_are_no_batches(name: str) -> None:
    payload, words = BAD[name]
    good = message(simple(1))
    before, bad, after = decode([good, payload, good], SIMPLE, "arrow")
    assert (before["offset"], after["offset"]) == (100, 102)
    assert before["_corruptReason"] is None
    assert (bad["a"], bad["s"], bad["_corrupt"], bad["offset"]) == (None, None, payload, 101)
    assert words in bad["_corruptReason"]
    kept = decode([good, payload, good], SIMPLE, "arrow", "dropMalformed")
    assert [row["offset"] for row in kept] == [100, 102]
    with pytest.raises(MalformedPayload, match="offset 101"):
        decode([good, payload, good], SIMPLE, "arrow", "failFast")


def test_fault_35_a_zip_bomb_is_not_unpacked() -> None:
    zeros = pa.record_batch({"a": pa.array([0] * MAX_ROWS, pa.int32()), "s": [""] * MAX_ROWS})
    bomb = message(zeros, compression="zstd")
    assert len(bomb) < 10_000
    before = pa.total_allocated_bytes()
    [row] = decode([bomb], SIMPLE, "arrow")
    assert "compressed" in row["_corruptReason"]
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_each_channel_has_a_schema() -> None:
    wanted = pa.schema([("a", pa.int32())])
    payloads = ArrowPayloads(wanted)
    good = pa.py_buffer(message(pa.record_batch({"a": pa.array([1], pa.int32())})))
    wider = pa.py_buffer(message(simple()))
    bad = pa.py_buffer(message(pa.record_batch({"a": ["x"]})))
    for _ in range(2):
        assert payloads.decode(good)[0].num_rows == 1
        assert payloads.decode(wider)[0].num_rows == 3
        with pytest.raises(ValueError, match="not int32"):
            payloads.decode(bad)


def test_fault_35_flipped_bytes_never_leave_the_mode() -> None:
    """Whatever a payload holds: rows, or a reason; nothing else is raised, and no process dies."""
    chance = random.Random(35)
    good = message(simple(50))
    kinds = set()
    for _ in range(3_000):
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        rows = decode([bytes(data)], SIMPLE, "arrow")
        kinds.add(rows[0]["_corruptReason"] is None if rows else None)
    assert {True, False} <= kinds
