"""FAULTS 19: one bit is flipped, in every region of every file of a spool.

Each row then is right, or refused with its offset; the others stay readable; and what is told is
the same for a running owner, the next one, and a reader beside it.
"""

from __future__ import annotations

import random
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool import Spool, SpoolReader
from aqueduct_core.spool.format.record import Record
from aqueduct_core.spool.format.scan import scan
from tests.core.spool.conftest import memory  # noqa: F401
from tests.core.spool.rows import check_all, check_rows, open_spool, segments, store
from tests.faults.test_spool_swapped import only_right_rows

ROWS = [3, 2]
ENDS = [24, 16]
FIELDS = ("crc32", "last", "size", "segment", "stamp", "at", "kind", "group", "durable", "part",
          "partition", "first", "rows", "marks", "preamble", "previous", "id", "epoch",
          "partitions", "ends", "cursors")  # fmt: skip


@pytest.fixture
def stored(memory: Path) -> Path:  # noqa: F811
    """Two segments closed in good order, of four groups of two records each, and a cursor."""
    directory = memory / "stored"
    for _ in range(2):
        with open_spool(directory) as spool:
            spool.enter_cursor("query", [True, True])
            store(spool, ROWS, groups=4)
    return directory


def regions(path: Path) -> Iterator[tuple[str, int]]:
    """Each kind of bytes of a segment with the positions to flip."""
    whole = path.read_bytes()
    found = scan(path, int(path.name[8:20]))
    assert found.head is not None
    for position in range(0, found.head.at, 29):
        yield "schema message", position
    for name, record in (("head", found.head), ("rows", found.rows[2]), ("end", found.rows[-1])):
        yield from ((f"{name}: {what}", at) for what, at in of_record(whole, record))


def of_record(whole: bytes, record: Record) -> Iterator[tuple[str, int]]:
    yield "continuation", record.at + 1
    (length,) = struct.unpack_from("<i", whole, record.at + 4)
    yield from (("length", record.at + 4 + i) for i in range(4))
    body = record.at + 8 + length
    text = whole[record.at : body]
    for field in FIELDS:
        if (match := re.search(rb'"%s":' % field.encode(), text)) is not None:
            yield f"field {field}", record.at + match.start() + 2
            yield f"value {field}", record.at + match.end() + 1
    json_at = text.index(b'{"crc32"')
    yield from (("flatbuffer", record.at + i) for i in range(8, json_at, 17))
    yield from (("flatbuffer end", body - i) for i in (1, 9, 30))
    yield from (("body", i) for i in range(body, record.end, 13))


def flipped(path: Path, position: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0] ^ (1 << bit)
        file.seek(position)
        file.write(bytes([byte]))


def lost_rows(spool: Spool | SpoolReader) -> int:
    refused, classes = only_right_rows(spool)
    assert classes <= {"AQUEDUCT_SPOOL.CORRUPT"}
    return refused


@pytest.mark.parametrize("segment", [0, 1])
def test_fault_19_a_bit_of_a_segment(stored: Path, segment: int) -> None:
    path = segments(stored)[segment]
    whole = path.read_bytes()
    seen = set()
    with open_spool(stored) as running:
        check_all(running)
        for number, (region, position) in enumerate(regions(path)):
            seen.add(region)
            flipped(path, position, number % 8)
            expected = 0 if region.startswith(("schema", "head")) else 1
            # while the owner runs: what it reads now is checked now
            assert bool(lost_rows(running)) == bool(expected), (region, position)
            if not number % 5:
                with SpoolReader(stored) as reader:
                    assert reader.ends() == ENDS
                    assert bool(lost_rows(reader)) == bool(expected), (region, position)
                    checked = list(reader.verify())
                    assert [bool(each.damage) for each in checked][segment], (region, position)
            path.write_bytes(whole)
    assert {"rows: body", "rows: flatbuffer", "head: value ends", "end: value stamp"} <= seen
    assert len(seen) > 60


@pytest.mark.parametrize("step", [16, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("catalog", ["kept", "lost"])
@pytest.mark.parametrize("segment", [0, 1])
def test_fault_19_a_bit_found_by_the_next_owner(
    stored: Path, segment: int, catalog: str, step: int
) -> None:
    name = segments(stored)[segment].name
    for number, (region, position) in enumerate(regions(stored / name)):
        if number % step:
            continue
        work = Path(shutil.copytree(stored, stored.with_name("work")))
        if catalog == "lost":
            (work / "catalog.sqlite").unlink()
        flipped(work / name, position, number % 8)
        with open_spool(work) as spool:
            assert spool.ends() == ENDS, (region, position)
            lost = lost_rows(spool)
            assert bool(lost) != region.startswith(("schema", "head")), (region, position)
            assert lost <= max(ROWS)
            assert set(spool.cursors()) == {"query"}
            store(spool, [1, 1])
            check_rows(spool, 0, ENDS[0], ENDS[0] + 1)
            assert lost_rows(spool) == lost
        shutil.rmtree(work)


@pytest.mark.parametrize(
    ("flips", "least"), [(80, 1), pytest.param(250, 10, marks=pytest.mark.long)]
)
def test_fault_19_a_bit_of_the_catalog(stored: Path, flips: int, least: int) -> None:
    """Rows carry checksums: it is built anew, and no cursor runs ahead of its reader."""
    size = (stored / "catalog.sqlite").stat().st_size
    choose = random.Random(3)
    rebuilt = 0
    for _ in range(flips):
        work = Path(shutil.copytree(stored, stored.with_name("work")))
        flipped(work / "catalog.sqlite", choose.randrange(size), choose.randrange(8))
        with open_spool(work) as spool:
            assert spool.ends() == ENDS
            assert spool.starts() == [0, 0]
            assert spool.cursors() == {"query": [0, 0]}
            assert lost_rows(spool) == 0
        rebuilt += (work / "catalog.sqlite.damaged").exists()
        shutil.rmtree(work)
    assert rebuilt > least


@pytest.mark.parametrize("step", [19, pytest.param(1, marks=pytest.mark.long)])
def test_fault_19_a_bit_of_the_identity(stored: Path, step: int) -> None:
    """It is found again in the segments, or refused: never another spool with these rows."""
    path = stored / "spool.json"
    with SpoolReader(stored) as reader:
        name, epoch = reader.id, reader.epoch
    outcomes = []
    size = path.stat().st_size
    # format, id and number of logs, the schema, its checksum
    for position in sorted({*range(72), *range(0, size, step), *range(size - 20, size)}):
        work = Path(shutil.copytree(stored, stored.with_name("work")))
        flipped(work / "spool.json", position, position % 8)
        try:
            with open_spool(work) as spool:
                assert spool.id == name, position
                assert spool.epoch > epoch, position
                assert spool.ends() == ENDS, position
                assert spool.cursors() == {"query": [0, 0]}, position
                assert lost_rows(spool) == 0
            outcomes.append("")
        except SpoolFailed as error:
            outcomes.append(error.name)
        shutil.rmtree(work)
    # the one digit of the format may look like that of a newer release
    assert outcomes.count("") >= len(outcomes) - 1, outcomes
    assert set(outcomes) <= {"", "AQUEDUCT_SPOOL.VERSION"}
