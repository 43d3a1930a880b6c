"""FAULTS 20: a file of a spool is deleted, or swapped for an old copy.

Never a wrong row: what is missing is told, what can be made again is made again.
"""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from aqueduct_core.errors import AqueductError, DataLoss, SpoolFailed
from aqueduct_core.spool import Spool, SpoolReader, read_locations
from tests.core.spool.rows import (
    SCHEMA,
    batch,
    check_all,
    check_marks,
    check_rows,
    noted,
    open_spool,
    row,
    segments,
    store,
    trim_all,
)

CATALOG = "catalog.sqlite"
ROWS = [2, 1]


def other(partition: int, first: int, stop: int) -> pa.RecordBatch:
    """Rows of the same size that must never be shown for those of ``batch``."""
    values = [row(partition, offset).replace(b"/", b"#") for offset in range(first, stop)]
    rows = batch(partition, first, stop)
    return pa.record_batch([pa.array(values, pa.binary()), rows.column("number")], SCHEMA)


def store_others(spool: Spool, groups: int) -> None:
    for _ in range(groups):
        for partition, count in enumerate(ROWS):
            first = spool.ends()[partition]
            rows = other(partition, first, first + count)
            spool.append(partition, rows, *noted(partition, first, first + count))
        assert spool.settle(5)


def only_right_rows(spool: Spool | SpoolReader) -> tuple[int, set[str]]:
    """Read each row alone, by both ways: right, or refused by class. How many were refused."""
    refused, classes = 0, set()
    for partition, end in enumerate(spool.ends()):
        for offset in range(end):
            try:
                check_rows(spool, partition, offset, offset + 1)
            except (DataLoss, SpoolFailed) as error:
                refused += 1
                classes.add(error.name)
                with pytest.raises((DataLoss, SpoolFailed), match=error.subclass):
                    list(read_locations(spool.locations(partition, offset, offset + 1), SCHEMA))
            else:
                (piece,) = read_locations(spool.locations(partition, offset, offset + 1), SCHEMA)
                assert piece.column("value").to_pylist() == [row(partition, offset)]
    return refused, classes


@pytest.fixture
def spools(tmp_path: Path) -> tuple[Path, Path]:
    """A spool, and one that went on from a copy of it in its own way: segments 4 to 6 have the same
    numbers, sizes, groups and offsets, and other rows."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with open_spool(ours, segment_bytes=1) as spool:
        store(spool, ROWS, groups=3)
    shutil.copytree(ours, theirs)
    with open_spool(ours, segment_bytes=1) as spool:
        store(spool, ROWS, groups=3)
        ends = spool.ends()
    with open_spool(theirs, segment_bytes=1) as spool:
        store_others(spool, groups=3)
        assert spool.ends() == ends
    sizes = [[path.stat().st_size for path in segments(each)] for each in (ours, theirs)]
    assert sizes[0] == sizes[1]
    assert segments(ours)[3].read_bytes() != segments(theirs)[3].read_bytes()
    return ours, theirs


def swap(spools: tuple[Path, Path], name: str) -> None:
    ours, theirs = spools
    shutil.copy(theirs / name, ours / "swapped")
    (ours / "swapped").replace(ours / name)


@pytest.mark.parametrize("catalog", ["kept", "lost"])
@pytest.mark.parametrize("number", [4, 5, 6])
def test_fault_20_a_segment_swapped_for_one_of_equal_size(
    spools: tuple[Path, Path], number: int, catalog: str
) -> None:
    ours, _ = spools
    name = f"segment-{number:012d}.arrows"
    swap(spools, name)
    if catalog == "lost":
        (ours / CATALOG).unlink()
    if (number, catalog) == (6, "lost"):
        # the identity knows which file the newest one was: the offsets in it are not known
        with pytest.raises(SpoolFailed, match=r"CORRUPT.*newest segment, was swapped"):
            open_spool(ours)
        with pytest.raises(SpoolFailed, match=r"CORRUPT.*newest segment, was swapped"):
            SpoolReader(ours)
        return
    for opened in (lambda: SpoolReader(ours), lambda: open_spool(ours)):
        with opened() as spool:
            assert spool.ends() == [12, 6]
            assert only_right_rows(spool) == (3, {"AQUEDUCT_SPOOL.CORRUPT"})
    with SpoolReader(ours) as reader:
        assert [bool(each.damage) for each in reader.verify()] == [
            i + 1 == number for i in range(6)
        ]
    with open_spool(ours) as spool:
        store(spool, ROWS)
        assert only_right_rows(spool)[0] == 3
        check_rows(spool, 0, 12, 14)


@pytest.mark.parametrize("read_before", [True, False])
def test_fault_20_a_segment_swapped_under_a_running_owner(
    spools: tuple[Path, Path], read_before: bool
) -> None:
    ours, _ = spools
    with open_spool(ours) as spool:
        if read_before:
            # the mapped file stays the one that it was
            check_all(spool)
        for number in (4, 6):
            swap(spools, f"segment-{number:012d}.arrows")
        if read_before:
            check_all(spool)
        else:
            assert only_right_rows(spool) == (6, {"AQUEDUCT_SPOOL.CORRUPT"})


def test_fault_20_an_older_and_shorter_copy_of_a_segment(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, ROWS, groups=2)
        (path,) = segments(tmp_path)
        old = path.read_bytes()
        store(spool, ROWS, groups=2)
    with open_spool(tmp_path) as spool:
        store(spool, ROWS)
    path.write_bytes(old)
    for catalog in ("kept", "lost"):
        if catalog == "lost":
            (tmp_path / CATALOG).unlink()
        with open_spool(tmp_path) as spool:
            assert spool.ends()[0] >= 10
            assert only_right_rows(spool)[0] == 6


@pytest.mark.parametrize("at", ["earlier life", "this life", "theirs"])
def test_fault_20_an_old_copy_of_the_catalog(
    spools: tuple[Path, Path], tmp_path: Path, at: str
) -> None:
    ours, theirs = spools
    old = tmp_path / "old"
    shutil.copy(ours / CATALOG, old)
    if at == "theirs":
        shutil.copy(theirs / CATALOG, old)
    with open_spool(ours, segment_bytes=1) as spool:
        spool.commit("query", [6, 3])
        store(spool, ROWS, groups=2)
        trim_all(spool)
        if at == "this life":
            spool.close()
            shutil.copy(ours / CATALOG, old)
    if at == "this life":
        with open_spool(ours, segment_bytes=1) as spool:
            store(spool, ROWS)
            spool.commit("query", [10, 5])
            trim_all(spool)
    with open_spool(ours, segment_bytes=1) as spool:
        ends, starts, name = spool.ends(), spool.starts(), spool.id
        store(spool, ROWS)
        ends = spool.ends()
    shutil.copy(old, ours / CATALOG)
    with SpoolReader(ours) as reader:
        assert (reader.ends(), reader.starts(), reader.id) == (ends, starts, name)
        check_all(reader)
    with open_spool(ours) as spool:
        assert (spool.ends(), spool.starts(), spool.id) == (ends, starts, name)
        check_all(spool)
        check_marks(spool)
        # the cursor fell back at most: nothing that is unread goes
        assert all(a <= b for a, b in zip(spool.cursors()["query"], [10, 5], strict=True))  # type: ignore[operator]
        store(spool, ROWS)
        check_all(spool)


def test_fault_20_an_old_copy_of_the_identity_lowers_no_epoch(tmp_path: Path) -> None:
    spool_at, copies = tmp_path / "spool", tmp_path / "copies"
    copies.mkdir()
    epochs = []
    for life in range(4):
        with open_spool(spool_at, partitions=2 + life // 2) as spool:
            epochs.append(spool.epoch)
            store(spool, ROWS)
            name = spool.id
        shutil.copy(spool_at / "spool.json", copies / str(life))
    for copy, catalog in itertools.product(sorted(copies.iterdir()), ("kept", "lost")):
        work = tmp_path / f"{copy.name} {catalog}"
        shutil.copytree(spool_at, work)
        shutil.copy(copy, work / "spool.json")
        if catalog == "lost":
            (work / CATALOG).unlink()
        with SpoolReader(work) as reader:
            assert reader.ends() == [8, 4, 0]
            check_all(reader)
        with open_spool(work, partitions=3) as spool:
            assert spool.id == name
            assert spool.epoch > max(epochs)
            check_all(spool)
            check_marks(spool)


@pytest.mark.parametrize("name", ["spool.json", CATALOG, "lock"])
def test_fault_20_a_deleted_file_is_made_again(spools: tuple[Path, Path], name: str) -> None:
    ours, _ = spools
    with SpoolReader(ours) as reader:
        identity, epoch = reader.id, reader.epoch
    (ours / name).unlink()
    with open_spool(ours) as spool:
        assert spool.id == identity
        assert spool.epoch > epoch
        check_all(spool)
        check_marks(spool)
        store(spool, ROWS)
    assert json.loads((ours / "spool.json").read_text())["id"] == identity
    with open_spool(ours) as spool:
        check_all(spool)


@pytest.mark.parametrize("lost", [(), (CATALOG,), ("spool.json",), (CATALOG, "spool.json")])
@pytest.mark.parametrize("number", range(1, 7))
def test_fault_20_a_deleted_segment(
    spools: tuple[Path, Path], number: int, lost: tuple[str, ...]
) -> None:
    ours, _ = spools
    (ours / f"segment-{number:012d}.arrows").unlink()
    for name in lost:
        (ours / name).unlink()
    if number == 6 and CATALOG in lost:
        with pytest.raises(SpoolFailed, match=r"CORRUPT.*newest segment, is missing.*--segment 6"):
            open_spool(ours)
        return
    with open_spool(ours) as spool:
        assert spool.ends() == [12, 6]
        if number == 1:
            # as after a trim
            assert spool.starts() == [2, 1]
        assert only_right_rows(spool) == (3, {"AQUEDUCT_DATA_LOSS.RANGE_GONE"})
        store(spool, ROWS)
        check_rows(spool, 0, 12, 14)


def test_fault_20_another_spool_in_its_place_is_another_spool(tmp_path: Path) -> None:
    """Planners compare the id: a directory that was made anew is not the one they read."""
    for name in ("first", "second"):
        with open_spool(tmp_path / name) as spool:
            store(spool, ROWS)
    with SpoolReader(tmp_path / "first") as one, SpoolReader(tmp_path / "second") as two:
        assert one.id != two.id
    shutil.copy(tmp_path / "second" / "spool.json", tmp_path / "first" / "spool.json")
    for opened in (open_spool, SpoolReader):
        with pytest.raises(AqueductError, match=r"CORRUPT.*belongs to the spool"):
            opened(tmp_path / "first")


def test_damaged_together_is_known(tmp_path: Path) -> None:
    """FAULTS 19, 20: the catalog is lost and the last group damaged. It had been durable when its
    owner ended: it is a hole, and its offsets are not given out again."""
    with open_spool(tmp_path) as spool:
        store(spool, ROWS, groups=3)
    (path,) = segments(tmp_path)
    with path.open("r+b") as file:
        file.seek(-60, 2)
        file.write(b"???")
    (tmp_path / CATALOG).write_bytes(b"not a database, " * 100)
    with open_spool(tmp_path) as spool:
        assert spool.ends() == [6, 3]
        refused, classes = only_right_rows(spool)
        assert classes == {"AQUEDUCT_SPOOL.CORRUPT"}
        assert refused == 1
        store(spool, ROWS)
        assert only_right_rows(spool)[0] == 1
