"""Rows of packets, as they lie in the spool and as users get them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aqueduct_core.intake.storage.batches import BatchSlice
from aqueduct_core.intake.telehash.rows import ROW_SCHEMA, ROWS, TelehashSource
from aqueduct_core.telehash.events import PacketBatch


def batch(
    *bodies: bytes,
    first: int = 0,
    reliable: bool = True,
    js: tuple[bytes | None, ...] | None = None,
    end: bool = False,
    channel: int = 3,
) -> PacketBatch:
    return PacketBatch(
        channel=channel,
        reliable=reliable,
        first=first,
        count=len(bodies),
        payload=b"".join(bodies),
        offsets=np.cumsum([0, *map(len, bodies)]),
        size=sum(map(len, bodies)) + 20 * len(bodies),
        js=(None,) * len(bodies) if js is None else js,
        end=end,
    )


def part(
    packets: PacketBatch,
    low: int = 0,
    high: int | None = None,
    *,
    kind: str = "_a",
    line: str = "cafe-1-1",
) -> BatchSlice:
    source = TelehashSource(kind, "peer", line, packets.channel)
    high = packets.count if high is None else high
    return BatchSlice(source, packets, low, high, 1_000_000)


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


def test_a_packet_is_a_row() -> None:
    js = '{"ä":[1,null]}'
    [row] = rows(part(batch(b"abc", first=7, js=(js.encode(),), end=True)))
    assert row.pop("timestamp").timestamp() == 1.0
    assert row == {
        "value": b"abc",
        "peer": "peer",
        "channel_id": 3,
        "type": "_a",
        "seq": 7,
        "js": js,
        "is_end": True,
        "channel_epoch": "cafe-1-1",
        "partition": 3,
        "offset": 10,
    }


def test_several_channels_in_one_group_each_with_its_own() -> None:
    found = rows(
        part(batch(b"a", b"", b"c", js=(None, b"{}", None), end=True)),
        part(batch(b"d", b"e", b"f", first=4, channel=5, end=True), 0, 2, kind="_b"),
        part(batch(b"g", b"h", reliable=False, channel=7), kind="_c", line="cafe-1-2"),
    )
    assert [row["value"] for row in found] == [b"a", b"", b"c", b"d", b"e", b"g", b"h"]
    assert [row["seq"] for row in found] == [0, 1, 2, 4, 5, None, None]
    assert [row["js"] for row in found] == [None, "{}", *[None] * 5]
    assert [row["is_end"] for row in found] == [False, False, True, *[False] * 4]
    assert [row["channel_id"] for row in found] == [3, 3, 3, 5, 5, 7, 7]
    assert [row["type"] for row in found] == ["_a", "_a", "_a", "_b", "_b", "_c", "_c"]
    assert {row["channel_epoch"] for row in found[:5]} == {"cafe-1-1"}
    assert found[5]["channel_epoch"] == "cafe-1-2"


def test_its_rows_are_no_events() -> None:
    stored = ROWS.to_rows([part(batch(b"a"))])
    assert ROWS.reads(stored.schema)
    assert not ROWS.reads(pa.schema([("value", pa.binary())]))
    with pytest.raises(ValueError, match="no events"):
        ROWS.expand_events(stored, 2, 0)


def test_channels_of_a_type_lie_apart_and_marked_packets_are_known_anywhere() -> None:
    one, other = (TelehashSource("_a", "peer", "line", number) for number in (1, 3))
    assert one.place != other.place
    assert not one.scattered
    marked = [TelehashSource("_a", peer, "line", 1, writer="q/0") for peer in ("p", "r")]
    assert marked[0].track == marked[1].track != one.track
    assert marked[0].place != marked[1].place
    assert all(each.scattered for each in marked)
