"""FAULTS 16, 18: whatever a crash leaves, exactly the whole groups come back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aqueduct_core.errors import DataLoss, SpoolFailed
from tests.core.spool.rows import (
    append,
    check_all,
    check_marks,
    check_rows,
    lose_catalog,
    open_spool,
    segments,
    store,
)


def crash_copy(directory: Path, copy: Path) -> Path:
    """The files as a crash of the owner would leave them, while the owner goes on."""
    shutil.copytree(directory, copy)
    return copy


@pytest.mark.parametrize(
    ("catalog", "step"),
    [
        ("kept", 37),
        ("lost", 89),
        pytest.param("kept", 1, marks=pytest.mark.long),
        pytest.param("lost", 7, marks=pytest.mark.long),
    ],
)
def test_the_tail_cut_at_every_byte_gives_the_groups_before(
    memory: Path, catalog: str, step: int
) -> None:
    with open_spool(memory / "spool") as spool:
        store(spool, [2, 1], groups=2)
        (segment,) = segments(memory / "spool")
        start = segment.stat().st_size
        # the catalog knows nothing of the last group, as in a crash before its ack
        crashed = crash_copy(memory / "spool", memory / "crashed")
        store(spool, [1, 2])
        whole = segment.read_bytes()
    if catalog == "lost":
        lose_catalog(crashed)
    for size in (*range(start, len(whole), step), len(whole) - 1, len(whole)):
        work = crash_copy(crashed, memory / "work")
        (work / segment.name).write_bytes(whole[:size])
        with open_spool(work) as spool:
            assert spool.ends() == ([5, 4] if size == len(whole) else [4, 2]), size
            check_all(spool)
            check_marks(spool)
            if size % 16 == 0:
                store(spool, [1, 1])
                check_all(spool)
        shutil.rmtree(work)


@pytest.mark.parametrize("step", [61, pytest.param(7, marks=pytest.mark.long)])
def test_the_first_group_cut_at_every_byte_leaves_an_empty_spool(memory: Path, step: int) -> None:
    with open_spool(memory / "spool") as spool:
        crashed = crash_copy(memory / "spool", memory / "crashed")
        store(spool, [1, 1])
        (segment,) = segments(memory / "spool")
        whole = segment.read_bytes()
    for size in (*range(0, len(whole), step), len(whole) - 1):
        (crashed / segment.name).write_bytes(whole[:size])
        with open_spool(crashed) as spool:
            assert spool.ends() == [0, 0]
            assert segments(crashed) == []
            check_marks(spool)


@pytest.mark.parametrize("step", [71, pytest.param(11, marks=pytest.mark.long)])
def test_the_first_group_of_a_later_segment_cut_at_every_byte(memory: Path, step: int) -> None:
    with open_spool(memory / "spool", segment_bytes=1) as spool:
        store(spool, [2, 1], groups=3)
        before = segments(memory / "spool")
        crashed = crash_copy(memory / "spool", memory / "crashed")
        store(spool, [1, 2])
        (segment,) = set(segments(memory / "spool")) - set(before)
        whole = segment.read_bytes()
    for size in (*range(0, len(whole), step), len(whole) - 1):
        work = crash_copy(crashed, memory / "work")
        (work / segment.name).write_bytes(whole[:size])
        with open_spool(work) as spool:
            assert spool.ends() == [6, 3]
            check_all(spool)
            check_marks(spool)
        shutil.rmtree(work)


def test_pages_that_never_got_to_the_disk_are_cut_with_all_after_them(memory: Path) -> None:
    """Of two unreported groups the first is lost and the second is whole: neither may stay."""
    with open_spool(memory / "spool") as spool:
        store(spool, [2, 1], groups=2)
        (segment,) = segments(memory / "spool")
        crashed = crash_copy(memory / "spool", memory / "crashed")
        ends = spool.ends()
        start = segment.stat().st_size
        append(spool, ends, [1, 1])
        spool.flush()
        middle = segment.stat().st_size
        append(spool, ends, [1, 1])
        spool.flush()
        whole = segment.read_bytes()
    for lost in range(start, middle, 64):
        torn = bytearray(whole)
        torn[lost : min(lost + 64, middle)] = bytes(min(lost + 64, middle) - lost)
        if torn == whole:
            continue
        work = crash_copy(crashed, memory / "work")
        (work / segment.name).write_bytes(torn)
        with open_spool(work) as spool:
            assert spool.ends() == [4, 2]
            check_all(spool)
            check_marks(spool)
            assert segments(work)[0].stat().st_size == start
        shutil.rmtree(work)


def test_a_missing_segment_is_a_hole_and_the_rest_stays(tmp_path: Path) -> None:
    for catalog in ("kept", "lost"):
        directory = tmp_path / catalog
        with open_spool(directory, segment_bytes=1) as spool:
            store(spool, [3, 2], groups=5)
        segments(directory)[2].unlink()
        if catalog == "lost":
            lose_catalog(directory)
        with open_spool(directory) as spool:
            assert spool.starts() == [0, 0]
            assert spool.ends() == [15, 10]
            check_rows(spool, 0, 0, 6)
            check_rows(spool, 0, 9, 15)
            for start, end in ((6, 9), (5, 10), (8, 9), (0, 15)):
                with pytest.raises(DataLoss, match=r"RANGE_GONE.*offsets \d+ to 9"):
                    list(spool.read(0, start, end))
            check_marks(spool)


def test_without_the_newest_segment_no_offset_is_given_out_again(tmp_path: Path) -> None:
    with open_spool(tmp_path / "spool", segment_bytes=1) as spool:
        store(spool, [3, 2], groups=3)
        crashed = crash_copy(tmp_path / "spool", tmp_path / "crashed")
    segments(crashed)[-1].unlink()
    with pytest.raises(SpoolFailed, match=r"CORRUPT.*missing"):
        open_spool(crashed)
    # after a close in good order the catalog knows where it ended
    segments(tmp_path / "spool")[-1].unlink()
    with open_spool(tmp_path / "spool") as spool:
        assert spool.ends() == [9, 6]
        check_rows(spool, 0, 0, 6)
        with pytest.raises(DataLoss, match="RANGE_GONE"):
            list(spool.read(0, 6, 9))
        store(spool, [1, 1])
        check_rows(spool, 0, 9, 10)
