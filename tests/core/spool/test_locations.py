"""Rows read where they lie by another process are the same rows, and damage is told alike."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.spool import Location, Spool, SpoolReader, are_here, read_locations
from aqueduct_core.spool.format.scan import scan
from tests.core.spool.rows import SCHEMA, check_rows, open_spool, segments, store, trim_all
from tests.support.repository import ROOT
from tests.support.waiting import LONG

READER = """
import json, sys
from aqueduct_core.spool import Location, are_here, read_locations
from tests.core.spool.rows import SCHEMA
found = [Location(*each) for each in json.load(sys.stdin)]
assert are_here(found)
batches = read_locations(found, SCHEMA)
rows = [row for batch in batches for row in batch.column("number").to_pylist()]
json.dump(rows, sys.stdout)
"""


class ByLocations:
    """Reads a spool as another process of the host would."""

    def __init__(self, spool: Spool | SpoolReader) -> None:
        self.spool = spool

    def read(self, partition: int, start: int, end: int) -> list[pa.RecordBatch]:
        locations = self.spool.locations(partition, start, end)
        at = start
        for location in locations:
            assert (location.partition, location.first) == (partition, at)
            assert at < location.stop <= end
            at = location.stop
        assert at == end
        return list(read_locations(locations, SCHEMA))


@pytest.fixture
def spool(tmp_path: Path):  # type: ignore[no-untyped-def]
    with open_spool(tmp_path, segment_bytes=4000) as spool:
        store(spool, [3, 5], groups=4)
        store(spool, [3, 0], groups=4)
        store(spool, [1, 2], groups=3)
        yield spool


def test_every_range_by_pieces(spool: Spool) -> None:
    by_pieces = ByLocations(spool)
    for partition, end in enumerate(spool.ends()):
        for start, stop in itertools.combinations_with_replacement(range(end + 1), 2):
            check_rows(by_pieces, partition, start, stop)
    with SpoolReader(spool.directory) as reader:
        check_rows(ByLocations(reader), 0, 0, spool.ends()[0])


def test_records_side_by_side_are_one_piece(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [2, 0], groups=50)
        store(spool, [0, 1])
        store(spool, [2, 0], groups=50)
        (first, second) = spool.locations(0, 1, 199)
        assert (first.first, first.stop, second.first, second.stop) == (1, 100, 100, 199)
        assert first.position + first.length < second.position
        assert second.position + second.length == segments(tmp_path)[0].stat().st_size
        assert spool.locations(1, 0, 0) == []


def test_another_process_reads_them(spool: Spool) -> None:
    locations = spool.locations(0, 2, 20)
    found = subprocess.run(
        [sys.executable, "-c", READER],
        input=json.dumps(locations),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LONG,
        cwd=ROOT,
    )
    assert json.loads(found.stdout) == list(range(2, 20))


def test_pieces_are_elsewhere_when_the_files_are_others(spool: Spool, tmp_path: Path) -> None:
    locations = spool.locations(0, 0, 10)
    assert are_here(locations)
    copy = shutil.copy(locations[0].path, tmp_path / "copy")
    elsewhere = [location._replace(path=str(copy)) for location in locations]
    assert not are_here(elsewhere)
    assert not are_here([location._replace(path="/nowhere") for location in locations])


def test_ranges_are_refused_as_by_read(spool: Spool) -> None:
    with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
        spool.locations(0, 0, 1000)
    with pytest.raises(ValueError, match="range"):
        spool.locations(0, 3, 2)
    spool.commit("q", [12, 20])
    assert trim_all(spool)
    with pytest.raises(DataLoss, match="RANGE_GONE"):
        spool.locations(0, 0, 20)


def test_a_file_that_went_meanwhile(spool: Spool) -> None:
    locations = spool.locations(0, 0, 27)
    reading = read_locations(locations, SCHEMA)
    (kept, *_) = (next(reading), next(reading))
    spool.commit("q", [27, 26])
    trim_all(spool)
    # what was mapped stays
    assert kept.column("number").to_pylist() == [0, 1, 2]
    with pytest.raises(DataLoss, match=r"RANGE_GONE.*partition 0: offsets \d+ to \d+"):
        list(reading)
    with pytest.raises(DataLoss, match=r"RANGE_GONE.*partition 0: offsets 0 to \d+"):
        list(read_locations(locations, SCHEMA))
    assert not are_here(locations)


def outcome(reading: object) -> tuple[list[int], str]:
    """The rows until the first error, and its class."""
    rows: list[int] = []
    try:
        for batch in reading:  # type: ignore[attr-defined]
            rows += batch.column("number").to_pylist()
    except (SpoolFailed, DataLoss) as error:
        return rows, error.name
    return rows, ""


def test_damage_is_told_as_by_read(tmp_path: Path) -> None:
    """Whatever bit is flipped: the same rows, then the same class of error."""
    choose = random.Random(5)
    with open_spool(tmp_path / "spool", segment_bytes=4000) as spool:
        store(spool, [3, 5], groups=4)
        store(spool, [3, 0], groups=6)
        locations = {
            partition: spool.locations(partition, 0, spool.ends()[partition])
            for partition in (0, 1)
        }
        damaged = 0
        for _ in range(300):
            path = choose.choice(segments(tmp_path / "spool"))
            whole = path.read_bytes()
            position = choose.randrange(len(whole))
            with path.open("r+b") as file:
                file.seek(position)
                file.write(bytes([whole[position] ^ (1 << choose.randrange(8))]))
            for partition, end in enumerate(spool.ends()):
                expected = outcome(spool.read(partition, 0, end))
                assert outcome(read_locations(locations[partition], SCHEMA)) == expected, position
                damaged += expected[1] == "AQUEDUCT_SPOOL.CORRUPT"
            with path.open("r+b") as file:
                file.write(whole)
        assert damaged > 50


def test_damage_found_at_opening_is_told_as_by_read(tmp_path: Path) -> None:
    """The index was made from what can be read: holes of one partition are none of the other."""
    with open_spool(tmp_path) as spool:
        store(spool, [2, 0], groups=2)
        store(spool, [0, 2])
        store(spool, [2, 0], groups=3)
        store(spool, [2, 2])
    (path,) = segments(tmp_path)
    whole = path.read_bytes()
    for victim in scan(path, 1).rows:
        path.write_bytes(whole[: victim.at + 50] + b"?" + whole[victim.at + 51 :])
        (tmp_path / "catalog.sqlite").unlink()
        with open_spool(tmp_path) as spool:
            for partition, end in enumerate(spool.ends()):
                expected = outcome(spool.read(partition, 0, end))
                assert bool(expected[1]) == (partition == victim.partition)
                try:
                    found = outcome(read_locations(spool.locations(partition, 0, end), SCHEMA))
                except SpoolFailed as error:
                    found = [], error.name
                assert found == expected
    path.write_bytes(whole)


def test_a_shorter_file_is_damage(spool: Spool) -> None:
    locations = spool.locations(0, 0, 3)
    path = Path(locations[0].path)
    path.write_bytes(path.read_bytes()[: locations[0].position + 20])
    with pytest.raises(SpoolFailed, match=r"CORRUPT.*partition 0, offsets 0 to 3"):
        list(read_locations(locations, SCHEMA))


def test_a_piece_of_another_file_of_that_number_is_damage(spool: Spool) -> None:
    (location,) = spool.locations(0, 0, 3)
    with pytest.raises(SpoolFailed, match=r"CORRUPT.*swapped"):
        list(read_locations([location._replace(stamp="0" * 16)], SCHEMA))
    assert Location(*json.loads(json.dumps(location))) == location
