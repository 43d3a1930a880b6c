"""FAULTS 19: a changed bit is reported with its offset, the other records stay readable."""

from __future__ import annotations

import os
import re
import sqlite3
from pathlib import Path

import pytest

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.spool import Spool
from aqueduct_core.spool.format.record import Codec, Record
from aqueduct_core.spool.format.scan import scan
from aqueduct_core.spool.segments import Segments
from tests.core.spool.rows import SCHEMA, check_rows, open_spool, segments, store

GROUPS = 4


ROWS = (3, 2)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A spool closed in good order: two segments, four groups of two records."""
    directory = tmp_path / "stored"
    with open_spool(directory) as spool:
        store(spool, ROWS, groups=GROUPS)
    with open_spool(directory) as spool:
        store(spool, ROWS, groups=GROUPS)
    assert len(segments(directory)) == 2
    return directory


def records(path: Path) -> list[Record]:
    return scan(path, int(path.name[8:20])).rows


def flip(path: Path, position: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def only_this_is_lost(spool: Spool, damaged: Record) -> None:
    """Reads fail exactly where the damaged record is, with its offsets; all else is right."""
    assert spool.ends() == [2 * GROUPS * count for count in ROWS]
    for partition, end in enumerate(spool.ends()):
        if partition != damaged.partition:
            check_rows(spool, partition, 0, end)
            continue
        check_rows(spool, partition, 0, damaged.first)
        check_rows(spool, partition, damaged.stop, end)
        for offset in range(damaged.first, damaged.stop):
            with pytest.raises(SpoolFailed) as caught:
                list(spool.read(partition, offset, offset + 1))
            assert caught.value.name == "AQUEDUCT_SPOOL.CORRUPT"
            assert re.search(
                rf"segment-\d+\.arrows, partition {partition}, offset", str(caught.value)
            )
        reading = spool.read(partition, 0, end)
        got = 0
        while got < damaged.first:
            got += next(reading).num_rows
        with pytest.raises(SpoolFailed, match="CORRUPT"):
            next(reading)
        assert got == damaged.first


CASES = [
    (segment, record, catalog)
    for segment in (0, 1)
    for record in range(2 * GROUPS)
    for catalog in ("kept", "lost")
    # nothing but the catalog tells that the very last group had been durable
    if not (catalog == "lost" and segment == 1 and record >= 2 * (GROUPS - 1))
]


@pytest.mark.parametrize(("segment", "record", "catalog"), CASES)
def test_one_bit_of_a_record(stored: Path, segment: int, record: int, catalog: str) -> None:
    path = segments(stored)[segment]
    victim = records(path)[record]
    if catalog == "lost":
        (stored / "catalog.sqlite").unlink()
    body = victim.end - 60
    for position in (victim.at + 5, (victim.at + body) // 2, body):
        flip(path, position, 3)
        with open_spool(stored) as spool:
            only_this_is_lost(spool, victim)
        flip(path, position, 3)
        if catalog == "lost":
            (stored / "catalog.sqlite").unlink()
    with open_spool(stored) as spool:
        check_rows(spool, 0, 0, spool.ends()[0])


def test_every_byte_of_one_record_while_open(stored: Path) -> None:
    path = segments(stored)[0]
    victim = records(path)[3]
    whole = path.read_bytes()
    with open_spool(stored) as spool:
        check_rows(spool, 0, 0, spool.ends()[0])
        for position in range(victim.at, victim.end):
            with path.open("r+b") as file:
                os.pwrite(file.fileno(), bytes([whole[position] ^ 0x10]), position)
                with pytest.raises(SpoolFailed, match=f"CORRUPT.*offsets {victim.first} to"):
                    list(spool.read(victim.partition, victim.first, victim.stop))
                os.pwrite(file.fileno(), whole[position : position + 1], position)
        check_rows(spool, 0, 0, spool.ends()[0])
        check_rows(spool, 1, 0, spool.ends()[1])


@pytest.mark.parametrize("catalog", ["kept", "lost"])
@pytest.mark.parametrize("where", [0, 6, 100, "head"])
def test_the_start_of_a_segment(stored: Path, where: int | str, catalog: str) -> None:
    """The schema message and the head hold no rows: all rows and marks are still there."""
    for path in segments(stored):
        position = (
            scan(path, int(path.name[8:20])).records[0].at + 300 if where == "head" else where
        )
        assert isinstance(position, int)
        if catalog == "lost":
            (stored / "catalog.sqlite").unlink()
        flip(path, position)
        with open_spool(stored) as spool:
            assert spool.starts() == [0, 0]
            for partition, end in enumerate([2 * GROUPS * count for count in ROWS]):
                check_rows(spool, partition, 0, end)
                assert list(spool.sequences.seen("producer", f"channel {partition}")) == [(0, end)]
        flip(path, position)


def test_damage_in_the_middle_keeps_what_is_appended_afterwards(stored: Path) -> None:
    victim = records(segments(stored)[1])[2]
    flip(segments(stored)[1], victim.end - 20)
    for _ in range(3):
        with open_spool(stored) as spool:
            ends = spool.ends()
            store(spool, ROWS)
            check_rows(spool, 0, ends[0], spool.ends()[0])
            with pytest.raises(SpoolFailed, match="CORRUPT"):
                list(spool.read(victim.partition, 0, spool.ends()[0]))


def test_a_durable_tail_that_is_gone_is_not_given_out_again(stored: Path) -> None:
    """The segment was swapped for an old copy: the catalog knows that there was more."""
    path = segments(stored)[1]
    last = records(path)[-2:]
    path.write_bytes(path.read_bytes()[: last[0].at])
    with open_spool(stored) as spool:
        assert spool.ends() == [2 * GROUPS * count for count in ROWS]
        for record in last:
            with pytest.raises((SpoolFailed, DataLoss), match=r"CORRUPT|RANGE_GONE"):
                list(spool.read(record.partition, record.first, record.stop))
            check_rows(spool, record.partition, 0, record.first)
        store(spool, ROWS)
        check_rows(spool, 0, last[0].stop, spool.ends()[0])


def test_a_damaged_index_in_the_catalog_is_made_again(stored: Path) -> None:
    with sqlite3.connect(stored / "catalog.sqlite") as db:
        db.execute("UPDATE segments SET positions = zeroblob(length(positions))")
    db.close()
    with open_spool(stored) as spool:
        check_rows(spool, 0, 0, spool.ends()[0])


def test_the_first_group_is_there_whenever_a_reader_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader in another thread that looks while the first group becomes durable."""
    found = Segments(tmp_path, Codec(SCHEMA), 2, lambda *_: None, lambda: True)  # type: ignore[arg-type,return-value]

    class Late(tuple[object, ...]):
        """No segment yet; with the next look there are durable rows."""

        def __bool__(self) -> bool:
            found.publish([7, 3])
            return False

    monkeypatch.setattr(found, "_segments", Late())
    assert found.starts == [0, 0]
    assert found.ends == [7, 3]
