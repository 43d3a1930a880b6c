"""A bounded read is settled once and planned at will: the same rows, from spool directories."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from aqueduct_core.errors import DataLoss, InvalidOption, SpoolFailed
from aqueduct_core.spool import Spool
from aqueduct_spark.formats.aqueduct.format import AqueductFormat
from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.options.read import BatchReadOptions
from aqueduct_spark.options.tokens import Token
from aqueduct_spark.read.batch.planner import settle
from aqueduct_spark.read.batch.reader import BatchReader
from aqueduct_spark.read.batch.spools import opened
from tests.spark.spools import MORNING, filled, open_spool, rows, store, value


def options(spool: Path, **given: str) -> BatchReadOptions:
    return BatchReadOptions.parse({"spool": str(spool), **given}, AQUEDUCT_OPTIONS)


def read(spool: Path, **given: str) -> list[tuple[int, int, bytes]]:
    """(partition, offset, value) of each row, as tasks of one plan give them."""
    return read_by(reader_of(spool, **given))


def reader_of(spool: Path, **given: str) -> BatchReader:
    asked = options(spool, **given)
    return BatchReader(AqueductFormat(), asked, Token(), settle(asked, Token(), AqueductFormat()))


def read_by(reader: BatchReader) -> list[tuple[int, int, bytes]]:
    task: BatchReader = pickle.loads(pickle.dumps(reader))
    return [
        (row["partition"], row["offset"], row["value"])
        for partition in reader.partitions()
        for batch in task.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]


def expected(counts: dict[int, range]) -> list[tuple[int, int, bytes]]:
    return [(p, n, value(p, n)) for p, numbers in counts.items() for n in numbers]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Two intakes below one directory, with 30 + 20 and 15 rows."""
    filled(tmp_path / "spool" / "intake-0", (30, 20))
    filled(tmp_path / "spool" / "intake-1", (15,))
    return tmp_path / "spool"


def test_all_that_is_stored(spool: Path) -> None:
    whole = expected({0: range(30), 1: range(20)})
    assert read(spool) == whole + expected({0: range(15)})
    assert read(spool / "intake-0") == whole
    assert read(spool / "intake-1") == expected({0: range(15)})


def test_offsets_by_intake(spool: Path) -> None:
    starts = '{"0":{"0":25,"1":-1},"1":{"0":-2}}'
    ends = '{"0":{"0":-1,"1":-1},"1":{"0":5}}'
    assert read(spool, startingOffsets=starts, endingOffsets=ends) == expected(
        {0: range(25, 30)}
    ) + expected({0: range(5)})
    with pytest.raises(InvalidOption, match="intake 1 is to be read as well"):
        read(spool, startingOffsets='{"0":{"0":25,"1":-1}}')
    with pytest.raises(InvalidOption, match=r"names intakes \[2\]"):
        read(spool, startingOffsets='{"0":{"0":1,"1":1},"1":{"0":1},"2":{"0":1}}')


def test_times(spool: Path) -> None:
    def moment(milliseconds: int) -> str:
        day = MORNING // 86_400_000_000
        start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)
        return (start + timedelta(milliseconds=milliseconds)).isoformat()

    one = spool / "intake-0"
    for first, stop in [(0, 40), (5, 12), (12, 12), (19, 25), (29, 100)]:
        found = read(one, startingTimestamp=moment(first), endingTimestamp=moment(stop))
        assert found == expected({0: range(first, min(stop, 30)), 1: range(first, min(stop, 20))})


def test_filters(spool: Path, tmp_path: Path) -> None:
    one = tmp_path / "mixed"
    with open_spool(one, partitions=1) as owner:
        store(owner, [(0, rows(0, 5, channel="a")), (0, rows(5, 5, channel="b", producer="q"))])
        store(owner, [(0, rows(10, 5, channel="ab"))])
    assert [n for _, n, _ in read(one, channels="b,ab")] == list(range(5, 15))
    assert [n for _, n, _ in read(one, channelsPattern="a.*")] == [*range(5), *range(10, 15)]
    assert [n for _, n, _ in read(one, producers="q")] == list(range(5, 10))


def test_splits(spool: Path) -> None:
    one = spool / "intake-0"
    reader = reader_of(one, maxRecordsPerPartition="7")
    assert len(reader.partitions()) == 5 + 3
    assert read_by(reader) == expected({0: range(30), 1: range(20)})
    reader = reader_of(one, minPartitions="6")
    assert len(reader.partitions()) == 6
    assert read_by(reader) == expected({0: range(30), 1: range(20)})


def test_splits_by_bytes(tmp_path: Path) -> None:
    filled(tmp_path / "s", (400,), size=1000, grain=20)
    reader = reader_of(tmp_path / "s", maxBytesPerPartition="100k")
    pieces = [p.rows for p in reader.partitions()]  # type: ignore[attr-defined]
    assert 4 <= len(pieces) <= 6
    assert max(rows.stop - rows.first for rows in pieces) < 110
    assert [n for _, n, _ in read_by(reader)] == list(range(400))


def test_a_second_action_gives_the_same_rows(spool: Path) -> None:
    reader = reader_of(spool / "intake-0")
    before = read_by(reader)
    with open_spool(spool / "intake-0") as owner:
        store(owner, [(0, rows(30, 10))])
        # while an owner is at work, and after it
        assert read_by(reader) == before
        assert len(read(spool / "intake-0")) == len(before) + 10
    assert read_by(reader) == before


def test_looking_takes_no_lock_and_changes_nothing(spool: Path) -> None:
    def content() -> dict[Path, bytes]:
        # SQLite keeps two empty files beside a database that was only read.
        files = (p for p in spool.rglob("*") if p.is_file() and p.suffix in {".json", ".arrows"})
        return {path: path.read_bytes() for path in files}

    before = content()
    read(spool, startingTimestamp="2020-01-01T00:00:00Z")
    assert content() == before
    with open_spool(spool / "intake-0"):
        read(spool)


@pytest.fixture
def trimmed(tmp_path: Path) -> Iterator[tuple[Path, Spool]]:
    """A spool of many small segments whose owner can trim it."""
    home = tmp_path / "trimmed"
    filled(home, (400,), size=5000, grain=20, segment_bytes=250_000)
    with open_spool(home, partitions=1, segment_bytes=250_000) as owner:
        yield home, owner


def trim(owner: Spool, end: int) -> int:
    owner.commit("query", [end, None])
    while owner.trim():
        pass
    return owner.starts()[0]


def test_rows_trimmed_after_planning(trimmed: tuple[Path, Spool]) -> None:
    home, owner = trimmed
    strict, lenient = reader_of(home), reader_of(home, failOnDataLoss="false")
    first = trim(owner, 200)
    assert 100 < first <= 200
    with pytest.raises(DataLoss) as lost:
        read_by(strict)
    assert lost.value.subclass == "RANGE_GONE"
    assert [n for _, n, _ in read_by(lenient)] == list(range(first, 400))


def test_rows_trimmed_while_reading(trimmed: tuple[Path, Spool]) -> None:
    home, owner = trimmed
    reader = reader_of(home)
    [partition] = reader.partitions()
    batches = reader.read(partition)
    head = next(batches).column("offset").to_pylist()
    trim(owner, 400)
    with pytest.raises(DataLoss) as lost:
        for _ in batches:
            pass
    assert lost.value.subclass == "RANGE_GONE"
    assert head == list(range(len(head)))


def test_a_segment_that_is_missing_in_the_middle(tmp_path: Path) -> None:
    home = tmp_path / "holes"
    filled(home, (400,), size=5000, grain=20, segment_bytes=250_000)
    strict, lenient = reader_of(home), reader_of(home, failOnDataLoss="false")
    with opened(home) as spool:
        third = spool.segments[2]
        first, stop = third.starts[0], third.ends[0]
    assert 0 < first < stop < 400
    third.path.unlink()
    with pytest.raises(DataLoss, match=f"offsets {first} to ") as lost:
        read_by(strict)
    assert lost.value.subclass == "RANGE_GONE"
    found = [n for _, n, _ in read_by(lenient)]
    assert found == [*range(first), *range(stop, 400)]


def test_offsets_that_are_gone_when_planned(trimmed: tuple[Path, Spool]) -> None:
    home, owner = trimmed
    first = trim(owner, 200)
    asked = {"startingOffsets": '{"0":{"0":3}}'}
    with pytest.raises(DataLoss, match="offset 3 of partition 0"):
        read(home, **asked)
    found = read(home, failOnDataLoss="false", **asked)
    assert [n for _, n, _ in found] == list(range(first, 400))


@pytest.mark.parametrize("lossy", ["true", "false"])
def test_fault_42_a_spool_that_was_replaced(spool: Path, lossy: str) -> None:
    reader = reader_of(spool / "intake-1", failOnDataLoss=lossy)
    shutil.rmtree(spool / "intake-1")
    filled(spool / "intake-1", (15,))
    with pytest.raises(DataLoss) as lost:
        read_by(reader)
    assert lost.value.subclass == "SPOOL_REPLACED"


def test_where_there_is_no_spool(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SpoolFailed, match="Option 'spool'") as failed:
            read(place)
        assert failed.value.subclass == "IO"


def test_the_memory_of_a_task_does_not_grow_with_its_rows(tmp_path: Path) -> None:
    filled(tmp_path / "s", (4_000,), size=10_000, grain=10)
    reader = reader_of(tmp_path / "s")
    [partition] = reader.partitions()
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    for batch in reader.read(partition):
        assert batch.nbytes <= 2 << 20
        most = max(most, pa.total_allocated_bytes() - before)
        rows += batch.num_rows
    assert rows == 4_000
    assert most < 8 << 20


@pytest.mark.parametrize("place", ["empty", "not there"])
@pytest.mark.parametrize("lossy", ["true", "false"])
def test_fault_42_an_intake_out_of_sight_is_not_left_out(
    spool: Path, tmp_path: Path, place: str, lossy: str
) -> None:
    whole = read(spool)
    hidden = tmp_path / "hidden"
    (spool / "intake-0").rename(hidden)
    if place == "empty":
        (spool / "intake-0").mkdir()
    with pytest.raises(SpoolFailed, match=rf"SPOOL\.IO.*intake-0 cannot be read: it is {place}"):
        read(spool, failOnDataLoss=lossy)
    if place == "empty":
        (spool / "intake-0").rmdir()
    hidden.rename(spool / "intake-0")
    assert read(spool) == whole


@pytest.mark.parametrize("lossy", ["true", "false"])
def test_fault_42_a_directory_that_goes_after_planning_costs_no_row(
    spool: Path, tmp_path: Path, lossy: str
) -> None:
    reader = reader_of(spool, failOnDataLoss=lossy)
    whole = read_by(reader)
    (spool / "intake-1").rename(tmp_path / "hidden")
    with pytest.raises(SpoolFailed, match=r"SPOOL\.IO"):
        read_by(reader)
    (tmp_path / "hidden").rename(spool / "intake-1")
    assert read_by(reader) == whole


def test_what_was_given_up_is_left_out_by_every_read(tmp_path: Path) -> None:
    home = tmp_path / "skips"
    filled(home, (400,), size=5000, grain=20, segment_bytes=250_000)
    with opened(home) as found:
        [piece] = found.locations(0, 120, 140)
    with Path(piece.path).open("r+b") as file:
        file.seek(piece.position + piece.length - 300)
        file.write(b"damage")
    with pytest.raises(SpoolFailed, match=r"CORRUPT.*offsets 120 to 140 .*--from 120 --to 140"):
        read(home)
    with open_spool(home, partitions=1) as owner:
        with pytest.raises(InvalidOption, match=r"CONFLICT.*offsets 100 to 120 .*120 to 140"):
            owner.skip(0, 100, 140, "too much")
        with pytest.raises(InvalidOption, match=r"CONFLICT.*can be read.*nothing to be skipped"):
            owner.skip(0, 0, 20, "whole rows")
        owner.skip(0, 120, 140, "a bad disk")
    left = [*range(120), *range(140, 400)]
    for lossy in ("true", "false"):
        assert [n for _, n, _ in read(home, failOnDataLoss=lossy)] == left
    with opened(home) as found:
        assert [each[1:4] for each in found.skips] == [(120, 140, "a bad disk")]
        assert found.bisect(0, lambda batch: False) == 0
        assert found.bisect(0, lambda batch: True) == 400
        assert found.sizes(0, 0, 400, 1 << 40)[-1][0] == 400
        with pytest.raises(DataLoss, match=r"SKIPPED.*offsets 120 to 140"):
            list(found.read(0, 100, 200))
