"""Arrow payloads follow from the rows: whatever the batches they come in, the same messages."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aqueduct_core.errors import SinkFailed
from aqueduct_spark.formats.aqueduct.sink.destinations import destinations
from aqueduct_spark.formats.aqueduct.sink.splitting import RowPlan, Splitter
from aqueduct_spark.write import arrow_cuts
from aqueduct_spark.write.arrow_cuts import ArrowCutter, ArrowMessage
from aqueduct_spark.write.arrow_payloads import row_sizes
from aqueduct_spark.write.batches import Destination

KINDS = {
    "number": (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    "yes": (pa.bool_(), st.booleans()),
    "real": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.text(max_size=9)),
    "large": (pa.large_binary(), st.binary(max_size=9)),
    "amount": (pa.decimal128(9, 2), st.integers(-99, 99).map(lambda n: Decimal(n) / 100)),
    "day": (pa.date32(), st.dates(date(1970, 1, 1), date(2100, 1, 1))),
    "at": (pa.timestamp("us"), st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1))),
    "list": (pa.list_(pa.string()), st.lists(st.none() | st.text(max_size=3), max_size=3)),
    "map": (
        pa.map_(pa.string(), pa.int32()),
        st.dictionaries(st.text(max_size=3), st.none() | st.integers(0, 9), max_size=3).map(
            lambda held: list(held.items())
        ),
    ),
    "deep": (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("c", pa.string())])))]),
        st.fixed_dictionaries(
            {
                "a": st.none() | st.integers(0, 99),
                "b": st.none()
                | st.lists(
                    st.none() | st.fixed_dictionaries({"c": st.text(max_size=2)}), max_size=2
                ),
            }
        ),
    ),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()]).append(
    pa.field("channel", pa.string())
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {name: st.none() | values for name, (_, values) in KINDS.items()}
        | {"channel": st.sampled_from(["a", "b", "c"])}
    ),
    min_size=1,
    max_size=14,
)


def by_channel(rows: pa.RecordBatch) -> Iterator[tuple[Destination, Any]]:
    return destinations(rows, None, "ordered")


def messages(*batches: pa.RecordBatch, most: int = 1 << 24) -> list[ArrowMessage]:
    cutter = ArrowCutter(by_channel, most, ["channel"])
    found = [message for batch in batches for message in cutter.push(batch)]
    return [*found, *cutter.rest()]


def by_destination(found: list[ArrowMessage]) -> dict[str, list[tuple[int, bytes]]]:
    """The sequence of each channel: what is numbered."""
    sequences: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
    for message in found:
        sequences[message.destination.channel].append((message.row, message.payload))
    return sequences


def dirty(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, with something in the places of nulls and behind the last one."""
    number, text = batch.schema.get_field_index("number"), batch.schema.get_field_index("text")
    values = batch.column(number)
    filled = values.fill_null(77).to_numpy().astype(np.int32)
    valid = np.packbits(~values.is_null().to_numpy(zero_copy_only=False), bitorder="little")
    valid[-1] |= (0xFF << (len(values) % 8)) & 0xFF if len(values) % 8 else 0
    buffers = [pa.py_buffer(valid.tobytes()), pa.py_buffer(filled.tobytes())]
    batch = batch.set_column(
        number, "number", pa.Array.from_buffers(pa.int32(), len(values), buffers)
    )
    words = batch.column(text)
    full = pa.array(words.fill_null("what was here before").to_pylist(), pa.string())
    buffers = [pa.py_buffer(packed(words)), *full.buffers()[1:]]
    return batch.set_column(text, "text", pa.Array.from_buffers(pa.string(), len(words), buffers))


def packed(values: pa.Array) -> bytes:
    valid = ~values.is_null().to_numpy(zero_copy_only=False)
    return np.packbits(valid, bitorder="little").tobytes()


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(ROWS, st.lists(st.integers(0, 14), max_size=4), st.integers(1, 9), st.integers(100, 900))
def test_other_batches_change_nothing(
    rows: list[dict[str, Any]], edges: list[int], most_rows: int, held: int
) -> None:
    whole = pa.RecordBatch.from_pylist(rows, SCHEMA)
    cuts = sorted({0, len(rows), *(edge for edge in edges if edge < len(rows))})
    parts = [whole.slice(a, b - a) for a, b in pairwise(cuts)]
    with (
        patch.object(arrow_cuts, "MESSAGE_ROWS", most_rows),
        patch.object(arrow_cuts, "MESSAGE_BYTES", 300),
        patch.object(arrow_cuts, "HELD_BYTES", held),
    ):
        once = by_destination(messages(whole))
        assert by_destination(messages(*parts)) == once
        assert by_destination(messages(*map(dirty, parts))) == once
        assert by_destination(messages(*(whole.slice(n, 1) for n in range(len(rows))))) == once
    for channel, sequence in once.items():
        places = [place for place, _ in sequence]
        assert places == sorted(set(places))
        back = [
            row
            for _, payload in sequence
            for row in pa.ipc.open_stream(payload).read_all().to_pylist()
        ]
        sent = whole.to_pylist()
        assert back == [
            {name: value for name, value in row.items() if name != "channel"}
            for row in sent
            if row["channel"] == channel
        ]


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(ROWS)
def test_a_row_has_its_size_wherever_it_stands(rows: list[dict[str, Any]]) -> None:
    whole = pa.RecordBatch.from_pylist(rows, SCHEMA).drop_columns("channel")
    alone = [int(row_sizes(whole.slice(n, 1))[0]) for n in range(len(rows))]
    assert row_sizes(whole).tolist() == alone
    assert row_sizes(dirty(whole)).tolist() == alone


def rows_of(count: int, channels: int, size: int = 20) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "value": [b"%d" % row * (size // len(str(row))) for row in range(count)],
            "channel": [f"c{row % channels}" for row in range(count)],
        }
    )


def test_a_message_is_full_at_a_number_of_rows() -> None:
    found = messages(rows_of(20_000, 1))
    assert [message.row for message in found] == [0, 8_192, 16_384]
    cutter = ArrowCutter(by_channel, 1 << 24, ["channel"])
    batch = rows_of(8_192, 1)
    assert [message.row for message in cutter.push(batch)] == [0]
    assert not list(cutter.rest())


def test_very_many_channels_hold_no_more_than_the_bound() -> None:
    batch, most = rows_of(30_000, 3_000, 1_500), 0
    cutter = ArrowCutter(by_channel, 1 << 24, ["channel"])
    found = []
    for first in range(0, 30_000, 1_000):
        found += list(cutter.push(batch.slice(first, 1_000)))
        most = max(most, sum(held.nbytes for held in cutter._batches))
    assert found, "no channel's rows ever fill a message: they went because they were too many"
    assert most < arrow_cuts.HELD_BYTES * 1.3
    found += list(cutter.rest())
    places = by_destination(found)
    assert len(places) == 3_000
    assert by_destination(messages(batch)) == places


def test_a_message_that_is_too_large_all_the_same_is_halved() -> None:
    """The limit is for bytes on the wire, which a message has more of than its values."""
    found = messages(rows_of(64, 1, 100), most=2_000)
    assert max(len(message.payload) for message in found) <= 2_000
    assert [message.row for message in found] == sorted({message.row for message in found})
    with pytest.raises(SinkFailed, match="MESSAGE_TOO_LARGE"):
        messages(rows_of(1, 1, 3_000), most=2_000)


def test_plain_rows_are_numbered_whatever_the_batches() -> None:
    chance = random.Random(7)
    batch = rows_of(500, 7)
    wanted: dict[Destination, list[tuple[int, bytes]]] | None = None
    for _ in range(20):
        splitter, first = Splitter(RowPlan(None, "ordered", "binary", 1 << 20)), 0
        found: dict[Destination, list[tuple[int, bytes]]] = defaultdict(list)
        while first < 500:
            count = chance.choice((1, 3, 50, 500))
            for portions in splitter.split(batch.slice(first, count)):
                for portion in portions:
                    found[portion.destination] += zip(portion.rows, portion.payloads, strict=True)
            first += count
        wanted = wanted or found
        assert found == wanted
