"""FAULTS 34: what earlier releases wrote is read and carried on; what later ones wrote is not
guessed at."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.spool import Spool, SpoolReader
from tests.core.spool.fixtures.make import CURSOR, GROUPS, ROWS
from tests.core.spool.rows import (
    check_all,
    check_marks,
    check_rows,
    open_spool,
    segments,
    store,
    trim_all,
)

FIXTURES = Path(__file__).parent / "fixtures"
FORMATS = ["format_1", "format_2", "format_3"]


@pytest.fixture(params=FORMATS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of what ``make`` wrote with the release of that format."""
    return shutil.copytree(FIXTURES / request.param, tmp_path / "stored")


def check_stored(spool: Spool | SpoolReader, partitions: int) -> None:
    for count, start, end in zip(ROWS[:partitions], spool.starts(), spool.ends(), strict=False):
        assert 0 < start <= 4 * count
        assert end == 2 * GROUPS * count
    check_all(spool)


def logs(directory: Path) -> int:
    return 2 if b'"partitions": 2' in (directory / "spool.json").read_bytes() else 3


def test_fault_34_it_is_read_and_verified(stored: Path) -> None:
    partitions = logs(stored)
    with SpoolReader(stored) as reader:
        assert reader.partitions == partitions
        check_stored(reader, partitions)
        assert reader.cursors == {CURSOR: [4 * count for count in ROWS[:partitions]]}
        checked = list(reader.verify())
        assert len(checked) == len(segments(stored)) > 3
        assert [each.damage for each in checked] == [[]] * len(checked)


@pytest.mark.parametrize("catalog", ["kept", "lost"])
def test_fault_34_it_is_carried_on_with_one_log_more(stored: Path, catalog: str) -> None:
    """The log of events was added: it begins empty, and old cursors do not read it."""
    before = logs(stored)
    if catalog == "lost":
        (stored / "catalog.sqlite").unlink()
    for life in range(3):
        with open_spool(stored, partitions=before + 1, segment_bytes=2000) as spool:
            assert spool.partitions == before + 1
            assert spool.epoch == 3 + life
            if not life:
                check_stored(spool, before)
                assert spool.ends()[before] == 0
                old = spool.cursors()[CURSOR]
                assert old[before:] == [None]
                assert all(at is not None for at in old[:before])
            check_marks(spool, summed=False)
            store(spool, [1] * (before + 1), groups=3)
            check_rows(spool, before, 0, 3 * life + 3)
            check_all(spool)
            check_marks(spool, summed=False)
    with open_spool(stored, partitions=before + 1) as spool:
        old = spool.cursors()[CURSOR]
        spool.enter_cursor("events", [False] * before + [True])
        spool.commit(CURSOR, [*spool.ends()[:before], None])
        trim_all(spool)
        assert spool.starts()[before] == 0
        spool.commit("events", [None] * before + [9])
        trim_all(spool)
        assert len(segments(stored)) == 1
        assert spool.starts()[before] > 0
        check_all(spool)
    with pytest.raises(InvalidOption, match=rf"CONFLICT.*{before + 1} partitions, not {before}"):
        open_spool(stored, partitions=before)
    with SpoolReader(stored) as reader:
        assert reader.partitions == before + 1
        check_all(reader)


@pytest.mark.parametrize("catalog", ["kept", "lost"])
def test_fault_34_an_added_log_needs_no_rows_to_stay(stored: Path, catalog: str) -> None:
    before = logs(stored)
    open_spool(stored, partitions=before + 2).close()
    if catalog == "lost":
        (stored / "catalog.sqlite").unlink()
    with SpoolReader(stored) as reader:
        assert reader.ends()[before:] == [0, 0]
        check_stored(reader, before)
    with open_spool(stored, partitions=before + 2) as spool:
        assert spool.ends()[before:] == spool.starts()[before:] == [0, 0]
        check_stored(spool, before)
        check_marks(spool, summed=False)


@pytest.mark.parametrize("lost", ["spool.json", "catalog.sqlite", "both"])
def test_fault_34_what_is_lost_of_it_is_found_in_the_segments(stored: Path, lost: str) -> None:
    partitions = logs(stored)
    with SpoolReader(stored) as reader:
        name = reader.id
    for file in ("spool.json", "catalog.sqlite") if lost == "both" else (lost,):
        (stored / file).unlink()
    with open_spool(stored, partitions=partitions) as spool:
        assert spool.id == name
        assert spool.epoch > 2
        check_stored(spool, partitions)
        check_marks(spool, summed=False)


def test_fault_34_the_newest_fixture_is_of_the_present_format() -> None:
    with SpoolReader(FIXTURES / FORMATS[-1]) as reader:
        assert reader.epoch == 2
    content = (FIXTURES / FORMATS[-1] / "spool.json").read_bytes()
    assert b'"format": %d' % len(FORMATS) in content


def test_fault_34_a_newer_format_is_refused_and_left_alone(stored: Path) -> None:
    path = stored / "spool.json"
    content = path.read_bytes().replace(b'"format": ', b'"format": 9')
    path.write_bytes(content)
    before = {each: each.read_bytes() for each in stored.iterdir()}
    with pytest.raises(SpoolFailed, match=r"VERSION.*format 9\d, this release knows up to 3"):
        open_spool(stored, partitions=logs(stored))
    with pytest.raises(SpoolFailed, match="VERSION"):
        SpoolReader(stored)
    for path, data in before.items():
        assert path.read_bytes() == data


def test_fault_34_a_newer_catalog_alone_is_built_anew(
    stored: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It belongs to another spool.json; the segments tell all but the newest commits."""
    with sqlite3.connect(stored / "catalog.sqlite") as db:
        db.execute("PRAGMA user_version = 77")
    db.close()
    partitions = logs(stored)
    with SpoolReader(stored) as reader:
        check_stored(reader, partitions)
    with open_spool(stored, partitions=partitions) as spool:
        check_stored(spool, partitions)
    assert "catalog version 77" in caplog.text
