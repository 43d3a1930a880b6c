"""FAULTS 19: a changed bit of a record is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aqueduct_core.spool.arrays import binary_array
from aqueduct_core.spool.format.record import GATHERED, Codec, Damaged, RecordBatchDraft, verify
from aqueduct_core.spool.format.scan import scan
from aqueduct_core.spool.format.settings import SequenceMark
from tests.core.spool.rows import open_spool, segments, store


def test_every_bit_of_a_record_is_checked(tmp_path: Path) -> None:
    """Also those of the checksum itself: its digits in another case are another record."""
    with open_spool(tmp_path) as spool:
        store(spool, [3, 2])
    (path,) = segments(tmp_path)
    record = scan(path, 1).rows[0]
    data = bytearray(path.read_bytes())
    for position in range(record.at, record.end):
        for bit in range(8):
            data[position] ^= 1 << bit
            with pytest.raises(Damaged):
                verify(memoryview(data), record.at, 1)
            data[position] ^= 1 << bit
    assert verify(memoryview(data), record.at, 1) == record


SCHEMA = pa.schema([("value", pa.large_binary()), ("other", pa.large_binary())])


def batch_of(*values: bytes) -> pa.RecordBatch:
    columns = [binary_array(values), binary_array([b""] * len(values))]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def encoded(codec: Codec, batch: pa.RecordBatch, **more: Any) -> RecordBatchDraft:
    place = {"segment": 1, "stamp": "", "at": 0, "group": 1, "durable": 0, "part": 0}
    return codec.rows(batch, partition=0, first=0, **{"marks": (), **place, **more})


def address(buffer: Any) -> int:
    return int(pa.py_buffer(buffer).address)


@pytest.mark.parametrize("count", [1, 3])
def test_a_large_buffer_is_written_from_where_it_is(count: int) -> None:
    """No byte of it is copied, however many columns and small buffers are around it."""
    batch = batch_of(*[bytes(GATHERED)] * count)
    payload = batch.column(0).buffers()[2]
    pieces = encoded(Codec(SCHEMA), batch).pieces(last=True)
    (large,) = [piece for piece in pieces if len(piece) >= GATHERED]
    assert address(large) == payload.address
    assert len(large) == payload.size


@pytest.mark.parametrize(
    "values",
    [[], [b"x"], [b"x", b"yz" * 5_000], [bytes(GATHERED)], [b"1" * 100_001, b"2" * 70_000]],
)
@pytest.mark.parametrize("marks", [0, 5, 2_000])
def test_one_record_after_another_is_what_was_encoded(values: list[bytes], marks: int) -> None:
    codec = Codec(SCHEMA)
    batch = batch_of(*values)
    told = tuple(SequenceMark("producer", "channel", 2 * i, 2 * i + 1) for i in range(marks))
    for _ in range(2):
        draft = encoded(codec, batch, marks=told)
        data = b"".join(draft.pieces(last=True))
        assert len(data) == draft.size
        record = verify(memoryview(data), 0, 1)
        assert record.marks == told
        assert (record.end, record.stop, record.last) == (len(data), len(values), True)
        assert codec.batch(pa.py_buffer(data)).equals(batch)
        with pa.ipc.open_stream(codec.preamble + data) as stream:
            assert stream.read_next_batch().equals(batch)
