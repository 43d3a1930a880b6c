"""What goes in comes out: numbers, ranges, groups, many threads, plain Arrow."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from aqueduct_core.spool import InlineSync, Spool, SyncerProcess
from tests.core.spool.rows import (
    SCHEMA,
    append,
    batch,
    check_all,
    check_marks,
    check_rows,
    open_spool,
    segments,
    store,
)
from tests.support.waiting import LONG


@pytest.mark.parametrize("sync", [InlineSync, SyncerProcess])
def test_every_range_of_every_partition(tmp_path: Path, sync: type) -> None:
    with open_spool(tmp_path, sync=sync, segment_bytes=4000) as spool:
        store(spool, [3, 5], groups=8)
        assert spool.ends() == [24, 40]
        assert len(segments(tmp_path)) > 2
        for partition, end in enumerate(spool.ends()):
            for start, stop in itertools.combinations_with_replacement(range(end + 1), 2):
                check_rows(spool, partition, start, stop)
        check_marks(spool)
    with open_spool(tmp_path, sync=sync) as spool:
        assert spool.ends() == [24, 40]
        check_all(spool)
        check_marks(spool)


def test_reopening_goes_on_with_the_next_offset_and_group(tmp_path: Path) -> None:
    groups, ids, epochs = [], set(), []
    for i in range(4):
        with open_spool(tmp_path) as spool:
            assert spool.ends() == [2 * i, i]
            groups.append(spool.group)
            ids.add(spool.id)
            epochs.append(spool.epoch)
            store(spool, [2, 1])
            check_all(spool)
            check_marks(spool)
    assert groups == [1, 2, 3, 4]
    assert epochs == [1, 2, 3, 4]
    assert len(ids) == 1


def test_segments_are_plain_arrow_streams(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [4, 4], groups=3)
    (path,) = segments(tmp_path)
    with pa.ipc.open_stream(path) as stream:
        table = stream.read_all()
    assert table.schema == SCHEMA
    assert table.num_rows == 24
    with pa.ipc.open_stream(path) as stream:
        metadata = [m for _, m in stream.iter_batches_with_custom_metadata()]
    assert all(b'"crc32"' in m["aqueduct"] for m in metadata)


def test_rows_lie_in_the_mapped_file(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [100, 0])
        before = pa.total_allocated_bytes()
        pieces = list(spool.read(0, 0, 100))
        assert pa.total_allocated_bytes() == before
    # they outlive the spool
    assert pieces[0].column("number").to_pylist() == list(range(100))


def test_readers_in_other_threads_see_exact_rows_while_the_owner_appends(tmp_path: Path) -> None:
    with open_spool(tmp_path, sync=SyncerProcess, segment_bytes=20_000) as spool:
        done = threading.Event()
        failures: list[BaseException] = []
        rounds = [0, 0]

        def follow(partition: int) -> None:
            at = 0
            try:
                while True:
                    last = done.is_set()
                    end = spool.ends()[partition]
                    check_rows(spool, partition, at, end)
                    check_rows(spool, partition, spool.starts()[partition], end)
                    at = end
                    rounds[partition] += 1
                    if last:
                        return
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=follow, args=(p,)) for p in range(2)]
        for thread in threads:
            thread.start()
        ends = [0, 0]
        for _ in range(150):
            append(spool, ends, [7, 3])
            spool.flush()
            spool.pump()
        spool.settle(30)
        done.set()
        for thread in threads:
            thread.join(LONG)
        assert failures == []
        assert min(rounds) > 1
        assert spool.ends() == ends


def test_misuse_is_refused(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        with pytest.raises(ValueError, match="partition 2"):
            spool.append(2, batch(0, 0, 1))
        with pytest.raises(ValueError, match="columns"):
            spool.append(0, pa.record_batch({"x": [1]}))
        with pytest.raises(ValueError, match="range"):
            spool.read(0, 2, 1)
        with pytest.raises(ValueError, match="partition"):
            spool.read(5, 0, 0)
        with pytest.raises(ValueError, match="1 ends"):
            spool.commit("c", [0])
    with pytest.raises(ValueError, match="closed"):
        spool.append(0, batch(0, 0, 1))
    spool.close()
    dictionary = pa.schema([("x", pa.list_(pa.dictionary(pa.int32(), pa.string())))])
    with pytest.raises(ValueError, match="dictionary"):
        Spool.open(tmp_path / "d", schema=dictionary, partitions=1)
    assert not (tmp_path / "d").exists()
