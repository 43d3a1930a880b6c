from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from aqueduct_core.engine.message_batch import Attachment
from aqueduct_core.intake.aqueduct.rows import ROWS, AqueductSource, row_schema
from aqueduct_core.intake.storage.batches import BatchSlice
from tests.core.intake.runs import run

NOW = 1_800_000_000_000_000
PLAIN = AqueductSource(channel="cpu", producer="p1", connection="c0ffee", channel_id=8, start=100)
RICH = AqueductSource(
    channel="disk",
    producer="p2",
    connection="beef",
    channel_id=16,
    parent_channel_id=0,
    parent_message=3,
    channel_headers=((b"name", b"disk"), (b"name", b"again")),
    connection_headers=((b"producer", b"p2"),),
)


def stored(*pieces: BatchSlice) -> pa.RecordBatch:
    batch = ROWS.to_rows(pieces)
    batch.validate(full=True)
    assert batch.schema.equals(ROWS.schema)
    return batch


def test_one_run_becomes_rows_with_all_columns() -> None:
    batch = stored(BatchSlice(PLAIN, run([b"a", b"", b"ccc"], channel=8, first=5), 0, 3, NOW))
    rows = ROWS.expand(batch, 1, 40, False, False)
    rows.validate(full=True)
    assert rows.schema.equals(row_schema(False, False), check_metadata=True)
    when = datetime.fromtimestamp(NOW // 1_000_000, UTC)
    assert rows.to_pylist() == [
        {
            "value": value,
            "channel": "cpu",
            "producer": "p1",
            "messageNum": 105 + i,
            "reliable": True,
            "partition": 1,
            "offset": 40 + i,
            "timestamp": when,
        }
        for i, value in enumerate([b"a", b"", b"ccc"])
    ]


def test_the_columns_and_types_are_those_that_users_are_promised() -> None:
    headers = "list<element: struct<key: string, value: binary>>"
    assert [f"{field.name} {field.type}" for field in row_schema(True, True)] == [
        "value binary",
        "channel string",
        "producer string",
        "messageNum int64",
        "reliable bool",
        "partition int32",
        "offset int64",
        "timestamp timestamp[us, tz=UTC]",
        f"headers {headers}",
        f"channelHeaders {headers}",
        f"connectionHeaders {headers}",
        "connectionId string",
        "channelId int64",
        "parentChannelId int64",
        "parentMessageNum int64",
        "attachments list<element: struct<channelId: int64, direction: string, "
        f"headers: {headers}>>",
    ]
    assert len(row_schema(True, False)) == 11
    assert len(row_schema(False, True)) == 13


def test_pieces_of_several_runs_keep_their_order_and_their_source() -> None:
    first = run([b"0", b"1", b"2", b"3"], channel=8)
    second = run([b"x", b"yy"], channel=16, first=7, reliable=False)
    batch = stored(
        BatchSlice(PLAIN, first, 1, 3, NOW),
        BatchSlice(RICH, second, 0, 2, NOW + 1),
        BatchSlice(PLAIN, first, 3, 4, NOW),
    )
    rows = ROWS.expand(batch, 0, 0, True, True).to_pylist()
    assert [row["value"] for row in rows] == [b"1", b"2", b"x", b"yy", b"3"]
    assert [row["messageNum"] for row in rows] == [101, 102, 7, 8, 103]
    assert [row["reliable"] for row in rows] == [True, True, False, False, True]
    assert [row["channel"] for row in rows] == ["cpu", "cpu", "disk", "disk", "cpu"]
    assert [row["connectionId"] for row in rows] == ["c0ffee", "c0ffee", "beef", "beef", "c0ffee"]
    assert [row["parentMessageNum"] for row in rows] == [None, None, 3, 3, None]
    assert rows[0]["channelHeaders"] is None
    assert rows[2]["channelHeaders"] == [
        {"key": "name", "value": b"disk"},
        {"key": "name", "value": b"again"},
    ]
    assert rows[3]["connectionHeaders"] == [{"key": "producer", "value": b"p2"}]


def test_neighbours_of_one_channel_and_moment_share_their_source() -> None:
    one, two = run([b"0", b"1"]), run([b"5"], first=5)
    lossy = run([b"u"], reliable=False)
    batch = stored(
        BatchSlice(PLAIN, one, 0, 2, NOW),
        BatchSlice(PLAIN, two, 0, 1, NOW),
        BatchSlice(PLAIN, two, 0, 1, NOW + 1),
        BatchSlice(PLAIN, lossy, 0, 1, NOW + 1),
        BatchSlice(RICH, lossy, 0, 1, NOW + 1),
    )
    assert batch.column("source").run_ends.to_pylist() == [3, 4, 5, 6]
    rows = ROWS.expand(batch, 0, 0, False, False).to_pylist()
    assert [row["messageNum"] for row in rows] == [100, 101, 105, 105, 0, 0]
    assert [row["reliable"] for row in rows] == [True, True, True, True, False, False]


def test_headers_and_attachments_stand_at_their_message() -> None:
    messages = run(
        [b"a", b"b", b"c"],
        headers={1: ((b"k", b"\x00\xff"), (b"\xff", b""))},
        attachments={2: (Attachment(8, ((b"name", b"n"),)), Attachment(2, ()))},
    )
    whole = ROWS.expand(
        stored(BatchSlice(PLAIN, messages, 0, 3, NOW)), 0, 0, True, True
    ).to_pylist()
    assert [row["headers"] for row in whole] == [
        None,
        [{"key": "k", "value": b"\x00\xff"}, {"key": "\\xff", "value": b""}],
        None,
    ]
    assert [row["attachments"] for row in whole] == [
        None,
        None,
        [
            {
                "channelId": 8,
                "direction": "receive",
                "headers": [{"key": "name", "value": b"n"}],
            },
            {"channelId": 2, "direction": "send", "headers": None},
        ],
    ]
    part = ROWS.expand(stored(BatchSlice(PLAIN, messages, 2, 3, NOW)), 0, 0, True, True).to_pylist()
    assert part == [whole[2] | {"offset": 0}]


@pytest.mark.parametrize(("start", "count"), [(0, 7), (1, 3), (2, 5), (6, 1), (3, 0)])
def test_any_slice_expands_to_the_same_rows(start: int, count: int) -> None:
    batch = stored(
        BatchSlice(PLAIN, run([b"0", b"1", b"2"]), 0, 3, NOW),
        BatchSlice(RICH, run([b"3", b"4", b"5", b"6"]), 0, 4, NOW),
    )
    whole = ROWS.expand(batch, 0, 10, True, True).to_pylist()
    part = ROWS.expand(batch.slice(start, count), 0, 10 + start, True, True)
    assert part.schema.equals(row_schema(True, True))
    assert part.to_pylist() == whole[start : start + count]


def test_rows_survive_an_ipc_stream_and_joining() -> None:
    first = stored(BatchSlice(PLAIN, run([b"0", b"1"]), 0, 2, NOW)).slice(1)
    second = stored(BatchSlice(RICH, run([b"2", b"3"]), 0, 2, NOW)).slice(0, 1)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema) as writer:
        writer.write_batch(first)
        writer.write_batch(second)
    joined = pa.concat_batches(list(pa.ipc.open_stream(sink.getvalue())))
    rows = ROWS.expand(joined, 0, 0, False, False).to_pylist()
    assert [(row["value"], row["channel"]) for row in rows] == [(b"1", "cpu"), (b"2", "disk")]


def test_the_payload_of_a_whole_run_is_not_copied() -> None:
    whole = run([b"abc", b"def"])
    data = ROWS.to_rows([BatchSlice(PLAIN, whole, 0, 2, NOW)]).column("value").buffers()[2]
    assert data.address == pa.py_buffer(whole.payload).address
