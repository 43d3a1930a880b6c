"""Rows of objects, as they lie in the spool and as users get them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aqueduct_core.intake.quicr.rows import EVENTS, ROW_SCHEMA, ROWS, ObjectBatch, UrlSource
from aqueduct_core.intake.storage.batches import BatchSlice
from aqueduct_core.quicr.media.position import Position
from aqueduct_spark.formats.quicr.format import OBJECT_COUNTS, object_schema


def batch(*payloads: bytes | None, flags: int = 0x81, delays: bool = False) -> ObjectBatch:
    count = len(payloads)
    held = [payload or b"" for payload in payloads]
    return ObjectBatch(
        channel=4,
        reliable=True,
        first=0,
        count=count,
        payload=b"".join(held),
        offsets=np.cumsum([0, *map(len, held)]),
        size=0,
        absent=tuple(n for n, payload in enumerate(payloads) if payload is None),
        flags=np.array([0xFF if p is None else flags for p in payloads], np.uint8),
        delays=np.arange(count, dtype=np.int64) if delays else None,
        last=[None] * (count - 1) + [True],
    )


def part(
    objects: ObjectBatch, url: str, first: Position, low: int = 0, high: int | None = None
) -> BatchSlice:
    source = UrlSource(url, "", "cafe", 4)
    numbers = np.arange(first.number, first.number + objects.count)
    high = objects.count if high is None else high
    return BatchSlice(source, objects, low, high, 1_000_000, True, numbers)


def rows(*slices: BatchSlice) -> list[dict[str, Any]]:
    stored = ROWS.to_rows(slices)
    stored.validate(full=True)
    expanded = ROWS.expand(stored, 3, 10, False, False)
    expanded.validate(full=True)
    assert expanded.schema.equals(ROW_SCHEMA)
    found: list[dict[str, Any]] = expanded.to_pylist()
    for row in range(stored.num_rows):
        sliced = ROWS.expand(stored.slice(row), 3, 10 + row, False, False)
        assert sliced.to_pylist() == found[row:]
        assert ROWS.received(stored, row) == 1_000_000
    return found


def test_an_object_is_a_row() -> None:
    [row] = rows(part(batch(b"abc", delays=True), "cam/1", Position(7, 2)))
    assert row.pop("timestamp").timestamp() == 1.0
    assert row == {
        "value": b"abc",
        "url": "cam/1",
        "group_id": 7,
        "object_id": 2,
        "flags": 0x81,
        "is_hole": False,
        "droppable": True,
        "drop_priority": 0x40,
        "queue_delay_ms": 0,
        "is_last_of_group": True,
        "partition": 3,
        "offset": 10,
    }


def test_several_media_in_one_group_each_with_its_own() -> None:
    found = rows(
        part(batch(b"a", None, b"c", delays=True), "u", Position(0, 0)),
        part(batch(b"d", b"e", b"f", flags=0), "v", Position(1, 0), 1, 3),
        part(batch(None), "u", Position(0, 3)),
    )
    assert [row["value"] for row in found] == [b"a", None, b"c", b"e", b"f", None]
    assert [row["url"] for row in found] == ["u", "u", "u", "v", "v", "u"]
    assert [row["is_hole"] for row in found] == [False, True, False, False, False, True]
    assert [row["flags"] for row in found] == [129, 255, 129, 0, 0, 255]
    assert [row["droppable"] for row in found] == [True, None, True, False, False, None]
    assert [row["drop_priority"] for row in found] == [64, None, 64, 0, 0, None]
    assert [row["queue_delay_ms"] for row in found] == [0, 1, 2, None, None, None]
    assert [row["is_last_of_group"] for row in found] == [None, None, True, None, True, True]
    assert [(row["group_id"], row["object_id"]) for row in found] == [
        (0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (0, 3),
    ]  # fmt: skip


def test_spark_has_the_same_columns_and_counts() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    assert to_arrow_schema(object_schema(), timezone="UTC").equals(ROW_SCHEMA)
    assert tuple(EVENTS.counts) == OBJECT_COUNTS


def test_its_rows_are_no_events() -> None:
    stored = ROWS.to_rows([part(batch(b"a"), "u", Position(0, 0))])
    assert ROWS.reads(stored.schema)
    assert not ROWS.reads(pa.schema([("value", pa.binary())]))
    with pytest.raises(ValueError, match="no events"):
        ROWS.expand_events(stored, 2, 0)
