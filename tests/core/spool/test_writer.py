"""Groups are numbered, written and become durable in order."""

from __future__ import annotations

import select
from pathlib import Path

import pytest

from aqueduct_core.errors import DataLoss
from aqueduct_core.spool import SequenceMark, SyncerProcess
from tests.core.spool.rows import (
    append,
    batch,
    check_all,
    open_spool,
    segments,
)


def test_nothing_is_durable_before_its_group(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        told: list[int] = []
        spool.on_durable = told.append
        ends = [0, 0]
        group = spool.group
        append(spool, ends, [2, 1])
        assert spool.ends() == [0, 0]
        assert spool.open_bytes > 0
        assert list(spool.sequences.seen("producer", "channel 0")) == [(0, 2)]
        with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
            spool.read(0, 0, 1)
        assert spool.flush()
        assert spool.ends() == [0, 0]
        assert spool.group == group + 1
        assert select.select([spool.fileno()], [], [], 5)[0]
        spool.pump()
        assert told == [group]
        assert spool.ends() == [2, 1]
        check_all(spool)


def test_an_empty_flush_writes_nothing(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        group = spool.group
        assert spool.flush()
        assert spool.group == group
    assert segments(tmp_path) == []


def test_many_groups_in_flight_become_durable_in_order(tmp_path: Path) -> None:
    with open_spool(tmp_path, sync=SyncerProcess, segment_bytes=5000) as spool:
        told: list[int] = []
        spool.on_durable = told.append
        ends = [0, 0]
        for _ in range(400):
            append(spool, ends, [1, 2])
            spool.flush()
        last = spool.group - 1
        assert spool.settle(30)
        assert told == sorted(told)
        assert told[-1] == last
        assert spool.ends() == ends
        check_all(spool)


def test_a_batch_without_rows_carries_marks(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        assert spool.append(0, batch(0, 0, 0), [SequenceMark("p", "c", 5, 9)]) == (0, 0)
        assert spool.settle(5)
    with open_spool(tmp_path) as spool:
        assert spool.ends() == [0, 0]
        assert list(spool.sequences.seen("p", "c")) == [(5, 9)]
