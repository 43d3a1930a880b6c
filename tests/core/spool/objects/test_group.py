"""The objects of the log: groups and fences."""

from __future__ import annotations

import pyarrow as pa
import pytest

from aqueduct_core.spool import ContentSum, SequenceMark
from aqueduct_core.spool.format.record import Codec, Damaged
from aqueduct_core.spool.objects.group import (
    GroupDraft,
    LogFence,
    LogObject,
    fence_data,
    read_log_object,
)
from tests.core.spool.rows import SCHEMA, batch

CODEC = Codec(SCHEMA)
MARK = SequenceMark("producer", "channel", 5, 8)
SUM = ContentSum("producer", "channel", 0, 100, 3, 99)


def draft() -> GroupDraft:
    group = GroupDraft(CODEC, 12, "life", 11)
    group.add(0, batch(0, 5, 8), 5, [MARK], [SUM])
    group.add(1, batch(1, 0, 2), 0)
    return group


def test_a_group_is_read_as_it_was_written() -> None:
    group = draft()
    data = group.data()
    assert len(data) == group.size
    found = read_log_object(data, 12)
    assert (found.sequence, found.life, found.fence) == (12, "life", None)
    assert [(each.partition, each.first, each.stop) for each in found.records] == [
        (0, 5, 8),
        (1, 0, 2),
    ]
    assert found.records[0].marks == (MARK,)
    assert found.records[0].sums == (SUM,)
    first = found.records[0]
    rows = CODEC.batch(pa.py_buffer(data)[first.at : first.end])
    assert rows.equals(batch(0, 5, 8))


def test_what_is_known_of_a_group_before_it_is_read() -> None:
    group = draft()
    known, found = group.finished(), read_log_object(group.data(), 12)
    assert (known.sequence, known.life, known.size) == (found.sequence, found.life, found.size)
    places = [(each.at, each.end, each.first, each.stop) for each in found.records]
    assert [(each.at, each.end, each.first, each.stop) for each in known.records] == places


def test_a_fence_is_read_as_it_was_written() -> None:
    fence = LogFence(3, 8, 20)
    data = fence_data(CODEC, 12, "life", fence)
    assert read_log_object(data, 12) == LogObject(12, "life", len(data), fence=fence)
    with pa.ipc.open_stream(data) as stream:
        assert stream.read_all().num_rows == 0


def test_what_is_not_whole_or_stands_elsewhere_is_damaged() -> None:
    data = draft().data()
    with pytest.raises(Damaged, match="elsewhere"):
        read_log_object(data, 13)
    for size in range(len(data)):
        with pytest.raises(Damaged):
            read_log_object(data[:size], 12)
    for at in range(len(CODEC.preamble), len(data), 3):
        changed = bytearray(data)
        changed[at] ^= 4
        with pytest.raises(Damaged):
            read_log_object(bytes(changed), 12)
