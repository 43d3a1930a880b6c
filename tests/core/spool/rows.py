"""Rows whose content follows from partition and offset, and spools that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from aqueduct_core.spool import ContentSum, InlineSync, SequenceMark, Spool, SpoolSettings

SCHEMA = pa.schema([("value", pa.binary()), ("number", pa.int64())])


SPACE = (0, 1 << 62)


def content(first: int, stop: int) -> int:
    """What stands for the checksums of the rows."""
    return sum((number << 60 | number) + 1 for number in range(first, stop)) % (1 << 64)


def row(partition: int, offset: int) -> bytes:
    return b"%d/%d " % (partition, offset) * (offset % 3 + 1)


def batch(partition: int, first: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array([row(partition, offset) for offset in range(first, stop)], pa.binary()),
            pa.array(range(first, stop), pa.int64()),
        ],
        schema=SCHEMA,
    )


def open_spool(directory: Path, *, partitions: int = 2, **given: Any) -> Spool:
    settings = {name: given.pop(name) for name in list(given) if name in SpoolSettings.__slots__}
    given.setdefault("sync", InlineSync)
    return Spool.open(
        directory,
        schema=SCHEMA,
        partitions=partitions,
        settings=SpoolSettings(**settings),
        **given,
    )


def noted(partition: int, first: int, stop: int) -> tuple[list[SequenceMark], list[ContentSum]]:
    """Marks equal to offsets, and sums over `SPACE`."""
    name = "producer", f"channel {partition}"
    sums = [ContentSum(*name, *SPACE, stop - first, content(first, stop))]
    return [SequenceMark(*name, first, stop)], sums


def append(spool: Spool, ends: list[int], counts: Sequence[int]) -> None:
    """Put ``counts`` rows into the open group, one batch a partition, with marks equal to
    offsets, and sums over `SPACE`."""
    for partition, count in enumerate(counts):
        if count:
            first, stop = ends[partition], ends[partition] + count
            rows = batch(partition, first, stop)
            assert spool.append(partition, rows, *noted(partition, first, stop)) == (first, stop)
            ends[partition] = stop


def store(spool: Spool, counts: Sequence[int], groups: int = 1) -> None:
    """Make that many groups of ``counts`` rows durable."""
    ends = spool.ends()
    for _ in range(groups):
        append(spool, ends, counts)
        assert spool.settle(10)
    assert spool.ends() == ends


def check_rows(spool: Any, partition: int, start: int, end: int) -> None:
    """The range reads back as exactly the rows it was given."""
    at = start
    for piece in spool.read(partition, start, end):
        piece.validate(full=True)
        assert piece.column("number").to_pylist() == list(range(at, at + piece.num_rows))
        expected = [row(partition, offset) for offset in range(at, at + piece.num_rows)]
        assert piece.column("value").to_pylist() == expected
        at += piece.num_rows
    assert at == end


def check_all(spool: Any) -> None:
    """Everything that is stored reads back, and marks say the same as the rows."""
    for partition, (start, end) in enumerate(zip(spool.starts(), spool.ends(), strict=True)):
        check_rows(spool, partition, start, end)


def check_marks(spool: Spool, *, summed: bool = True) -> None:
    """``summed``: no release without sums has written any of it."""
    for partition, end in enumerate(spool.ends()):
        name = "producer", f"channel {partition}"
        found = list(spool.sequences.seen(*name))
        assert found == ([(0, end)] if end else [])
        stored = spool.sequences.content(*name, *SPACE)
        if summed and end:
            assert stored == ContentSum(*name, *SPACE, end, content(0, end))
        else:
            assert stored.total is None or stored.total == content(0, end)


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("segment-*.arrows"))


def trim_all(spool: Spool, now: float | None = None) -> int:
    """How many segments went."""
    before = len(segments(spool.directory))
    while spool.trim(now):
        pass
    return before - len(segments(spool.directory))


def lose_catalog(directory: Path) -> None:
    for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
        (directory / name).unlink(missing_ok=True)
