"""What ranges take, from the index alone; and the first row that is not before a thing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.spool import Spool, SpoolReader
from aqueduct_core.spool import segments as stored_module
from aqueduct_core.spool.format.scan import scan
from aqueduct_core.spool.format.segment import Span
from aqueduct_core.spool.locations import measured
from tests.core.spool.rows import append, open_spool, segments, store, trim_all

SPANS = [Span(0, 10, 0, 100), Span(10, 12, 100, 1100), Span(12, 20, 1500, 1580)]


@pytest.mark.parametrize(
    ("start", "end", "step", "marks"),
    [
        (0, 20, 10_000, [(20, 1180)]),
        (0, 20, 100, [(10, 100), (11, 600), (12, 1100), (20, 1180)]),
        (0, 20, 1, [*((i, 10 * i) for i in range(1, 11)), (11, 600), (12, 1100)]
         + [(12 + i, 1100 + 10 * i) for i in range(1, 9)]),
        (0, 20, 35, [(4, 40), (8, 80), (11, 600), (12, 1100), (16, 1140), (20, 1180)]),
        (5, 11, 10_000, [(11, 550)]),
        (7, 7, 10, [(7, 0)]),
        (19, 20, 10, [(20, 10)]),
    ],
)  # fmt: skip
def test_the_marks(start: int, end: int, step: int, marks: list[tuple[int, int]]) -> None:
    assert measured(SPANS, start, end, step) == marks


def test_sizes_are_those_of_the_records(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=3000) as spool:
        store(spool, [3, 2], groups=8)
        store(spool, [40, 1])
        rows = [row for path in segments(tmp_path) for row in scan(path, int(path.name[8:20])).rows]
        for partition, end in enumerate(spool.ends()):
            total = sum(row.end - row.at for row in rows if row.partition == partition)
            assert spool.sizes(partition, 0, end, 10**9) == [(end, total)]
            for start, stop in itertools.combinations(range(0, end + 1, 2), 2):
                marks = spool.sizes(partition, start, stop, 500)
                assert marks == sorted(marks)
                assert marks[-1][0] == stop
                offsets = [start, *(offset for offset, _ in marks)]
                assert all(a < b for a, b in itertools.pairwise(offsets))
                pairs = itertools.pairwise([0, *(size for _, size in marks)])
                assert all(b - a >= 500 - 1 for a, b in list(pairs)[:-1])
        with SpoolReader(tmp_path) as reader:
            assert reader.sizes(0, 0, 30, 700) == spool.sizes(0, 0, 30, 700)
        with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
            spool.sizes(0, 0, 10_000, 1)
        with pytest.raises(ValueError, match="step"):
            spool.sizes(0, 0, 1, 0)
        spool.commit("q", [9, 6])
        assert trim_all(spool)
        with pytest.raises(DataLoss, match="RANGE_GONE"):
            spool.sizes(0, 0, 9, 1)


def test_no_payload_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_spool(tmp_path, segment_bytes=3000) as spool:
        store(spool, [3, 2], groups=20)
    with open_spool(tmp_path) as spool:
        for path in segments(tmp_path):
            path.unlink()
        ((end, total),) = spool.sizes(0, 0, 60, 10**9)
        assert end == 60
        assert total > 60 * 20


def number_before(sought: int) -> Callable[[pa.RecordBatch], bool]:
    return lambda batch: batch.column("number")[-1].as_py() < sought


def test_bisect_finds_the_first_row(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=2000) as spool:
        assert spool.bisect(0, number_before(0)) == 0
        store(spool, [3, 0], groups=3)
        store(spool, [0, 4], groups=3)
        store(spool, [7, 1], groups=5)
        for partition, end in enumerate(spool.ends()):
            for sought in range(-1, end + 2):
                found = spool.bisect(partition, number_before(sought))
                assert found == min(max(0, sought), end)
        # rows that are not durable yet are not found
        append(spool, spool.ends(), [3, 0])
        spool.flush()
        assert spool.bisect(0, number_before(45)) == 44
        spool.settle(5)
        assert spool.bisect(0, number_before(45)) == 45
        spool.commit("q", [9, 12])
        assert trim_all(spool)
        assert spool.bisect(0, number_before(0)) == spool.starts()[0] > 0
    with SpoolReader(tmp_path) as reader:
        assert reader.bisect(1, number_before(14)) == 14


def test_bisect_reads_few_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_spool(tmp_path, segment_bytes=4_000) as spool:
        store(spool, [1, 0], groups=120)
        assert len(segments(tmp_path)) > 5
        read = stored_module.read_record
        calls: list[int] = []

        def counted(*args: object) -> object:
            calls.append(1)
            return read(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(stored_module, "read_record", counted)
        assert spool.bisect(0, number_before(77)) == 77
        assert len(calls) < 14


def test_bisect_tells_damage(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [3, 2], groups=3)
        (path,) = segments(tmp_path)
        victim = scan(path, 1).rows[-2]
        with path.open("r+b") as file:
            file.seek(victim.end - 70)
            file.write(b"?")
        with pytest.raises(SpoolFailed, match=r"CORRUPT.*partition 0, offsets 6 to 9"):
            spool.bisect(0, number_before(2))
        assert spool.bisect(1, number_before(2)) == 2


def test_spool_reads_are_those_of_its_reader() -> None:
    for name in ("read", "sizes", "locations", "bisect", "ends", "starts"):
        assert getattr(Spool, name) is getattr(SpoolReader, name)
