"""Looking into a spool that somebody else owns, or nobody."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.spool import SpoolReader
from tests.core.spool.rows import SCHEMA, append, check_all, open_spool, segments, store


@pytest.mark.parametrize("owner", ["running", "gone"])
@pytest.mark.parametrize("catalog", ["kept", "lost"])
def test_a_reader_sees_what_is_stored(tmp_path: Path, owner: str, catalog: str) -> None:
    spool = open_spool(tmp_path, segment_bytes=2000)
    store(spool, [3, 2], groups=6)
    spool.commit("q", [4, 4])
    while spool.trim():
        pass
    starts = spool.starts()
    if owner == "gone":
        spool.close()
    directory = tmp_path
    if catalog == "lost":
        directory = tmp_path / "copy"
        shutil.copytree(tmp_path, directory, ignore=shutil.ignore_patterns("catalog*", "copy"))
    with SpoolReader(directory) as reader:
        assert (reader.id, reader.epoch, reader.partitions) == (spool.id, 1, 2)
        assert reader.schema == SCHEMA
        assert reader.starts() == starts
        assert reader.ends() == [18, 12]
        assert set(reader.cursors) <= {"q"}
        assert reader.bytes == sum(path.stat().st_size for path in segments(tmp_path))
        check_all(reader)
        with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
            reader.read(0, 0, 19)
        checked = list(reader.verify())
        assert [each.damage for each in checked] == [[]] * len(segments(tmp_path))
        assert sum(each.rows for each in checked) >= 30 - sum(starts)
    spool.close()


def test_rows_that_are_written_but_not_reported_are_shown(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        append(spool, [0, 0], [2, 2])
        spool.flush()
        assert spool.ends() == [0, 0]
        with SpoolReader(tmp_path) as reader:
            assert reader.ends() == [2, 2]
            check_all(reader)


def test_a_torn_tail_is_left_out_and_left_alone(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [2, 2], groups=2)
        (path,) = segments(tmp_path)
        size = path.stat().st_size
        with path.open("ab") as file:
            file.write(b"\xff\xff\xff\xff torn")
        with SpoolReader(tmp_path) as reader:
            assert reader.ends() == [4, 4]
            check_all(reader)
        assert path.stat().st_size > size
        with path.open("r+b") as file:
            file.truncate(size)


def test_verify_names_the_damaged_bytes(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [2, 2], groups=2)
    (path,) = segments(tmp_path)
    data = bytearray(path.read_bytes())
    data[-30] ^= 1
    path.write_bytes(data)
    with SpoolReader(tmp_path) as reader:
        (checked,) = reader.verify()
        ((start, stop),) = checked.damage
        assert start < len(data) - 30 < stop == len(data)
        assert checked.rows == 6


def test_where_there_is_no_spool(tmp_path: Path) -> None:
    with pytest.raises(SpoolFailed, match="IO"):
        SpoolReader(tmp_path)
    with pytest.raises(SpoolFailed, match="IO"):
        SpoolReader(tmp_path / "nowhere")
