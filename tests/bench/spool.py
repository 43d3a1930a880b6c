"""What the spool costs beside the bare disk: ``python -m tests.bench.spool``, under 20 s.

The reference is an append with ``fdatasync`` of as many bytes, on the same file system. Beside it:
how long it takes to give a segment back, and how much disk stays taken by what is committed.
"""

from __future__ import annotations

import os
import select
import time
from functools import partial
from pathlib import Path

import pyarrow as pa

from aqueduct_core.spool import Spool, SpoolSettings
from tests.bench.measuring import Bench, Effort, in_turns, ratios
from tests.bench.queries import work_folder
from tests.bench.sheet import Sheet

GROUPS = ((64 << 10, 80), (1 << 20, 48), (8 << 20, 6))
"""Bytes of a group, and groups of a run."""
AHEAD = 4
"""Groups that may wait for the disk in the second candidate."""
SEGMENT = 32_000_000
BARE, NEXT, AWAY = "append and fdatasync", "spool, one by one", f"spool, {AHEAD} ahead"
ROW_BYTES = 1000
SCHEMA = pa.schema([("value", pa.binary()), ("number", pa.int64())])


def batch(size: int) -> pa.RecordBatch:
    count = max(1, size // (ROW_BYTES + 12))
    values = pa.array([os.urandom(ROW_BYTES)] * count, pa.binary())
    return pa.record_batch([values, pa.array(range(count), pa.int64())], SCHEMA)


def bare(directory: Path, data: bytes, groups: int) -> float:
    """Seconds for append + fdatasync of each group."""
    # removed with the others at the end: giving blocks back would disturb what is measured next
    path = directory / f"bare-{time.monotonic_ns()}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    began = time.perf_counter()
    for _ in range(groups):
        os.write(fd, data)
        os.fdatasync(fd)
    took = time.perf_counter() - began
    os.close(fd)
    return took


def spooled(directory: Path, group: pa.RecordBatch, groups: int, ahead: int) -> float:
    """Seconds for the same groups through a spool; at most ``ahead`` wait for the disk at a
    time."""
    with Spool.open(
        directory / f"spool-{time.monotonic_ns()}",
        schema=SCHEMA,
        partitions=1,
        settings=SpoolSettings(),
    ) as spool:
        durable = 0

        def told(number: int) -> None:
            nonlocal durable
            durable = number

        spool.on_durable = told
        began = time.perf_counter()
        for number in range(1, groups + 1):
            spool.append(0, group)
            spool.flush()
            while durable < number - ahead:
                select.select([spool.fileno()], [], [])
                spool.pump()
        spool.settle()
        took = time.perf_counter() - began
        spool.commit("bench", spool.ends())
    return took


def append_cost(directory: Path, rows: int) -> float:
    """Microseconds of processor time for one append of so many rows, flushed every 100."""
    piece = batch(rows * (ROW_BYTES + 12))
    with Spool.open(directory / f"append-{rows}", schema=SCHEMA, partitions=1) as spool:
        count = 2_000 if rows < 10 else 400
        began = time.process_time()
        for i in range(count):
            spool.append(0, piece)
            if i % 100 == 99:
                spool.flush()
                spool.pump()
        took = time.process_time() - began
        spool.settle()
    return took / count * 1e6


def read_rate(directory: Path, group: pa.RecordBatch, groups: int) -> tuple[float, float]:
    """Gigabytes a second of reading back with checksums, and microseconds for one row at random."""
    with Spool.open(directory / "read", schema=SCHEMA, partitions=1) as spool:
        for _ in range(groups):
            spool.append(0, group)
            spool.flush()
        spool.settle()
        began = time.perf_counter()
        size = sum(piece.nbytes for piece in spool.read(0, 0, spool.ends()[0]))
        rate = size / (time.perf_counter() - began) / 1e9
        one = batch(1)
        first = spool.ends()[0]
        for _ in range(200):
            spool.append(0, one)
        spool.settle()
        began = time.perf_counter()
        for i in range(200):
            list(spool.read(0, first + i, first + i + 1))
        return rate, (time.perf_counter() - began) / 200 * 1e6


def truncation(directory: Path, segments: int = 6) -> tuple[list[float], float]:
    """Milliseconds to unlink each segment of 32 MB behind a commit, and how many segments more
    than what is live are on the disk then."""
    group = batch(1 << 20)
    with Spool.open(
        directory / f"truncation-{time.monotonic_ns()}",
        schema=SCHEMA,
        partitions=1,
        settings=SpoolSettings(segment_bytes=SEGMENT),
    ) as spool:
        stored = 0
        while stored < segments * SEGMENT:
            spool.append(0, group)
            spool.flush()
            spool.pump()
            stored += group.nbytes
        spool.settle()
        spool.commit("bench", spool.ends())
        took = []
        more = True
        while more:
            began = time.perf_counter()
            more = spool.trim()
            took.append((time.perf_counter() - began) * 1e3)
        return took, spool.bytes / SEGMENT


def compare(effort: Effort, sheet: Sheet) -> None:
    with work_folder() as folder:
        for size, groups in GROUPS:
            group = batch(size)
            data = group.serialize().to_pybytes()
            kinds = {
                BARE: partial(bare, folder, data, groups),
                NEXT: partial(spooled, folder, group, groups, 0),
                AWAY: partial(spooled, folder, group, groups, AHEAD),
            }
            runs = list(in_turns(kinds, effort, sheet))
            title, total = f"{size >> 10:,} KiB", len(data) * groups / 1e6
            for kind in kinds:
                sheet.add(f"{title}: {kind}", "MB/s", [total / run[kind] for run in runs])
            for kind in (NEXT, AWAY):
                goal = "G9" if (size, kind) == (1 << 20, AWAY) else ""
                over = ratios(runs, kind, BARE, lambda seconds: 1 / seconds)
                sheet.add(f"{title}: {kind}, over the bare disk", "x", over, goal)
        for rows in (1, 10, 100):
            sheet.add(f"append of {rows} rows, CPU", "µs", [append_cost(folder, rows)])
        rate, one = read_rate(folder, batch(1 << 20), 100)
        sheet.add("read with checksums", "GB/s", [rate])
        sheet.add("one row at random", "µs", [one])
        took, over = [], []
        for _ in range(effort.repetitions):
            milliseconds, left = truncation(folder)
            took.append(max(milliseconds))
            over.append(left)
        sheet.add("truncation of a segment of 32 MB, the slowest", "ms", took, "G11")
        sheet.add("disk beyond what is live, in segments", "segments", over, "G11-disk")


BENCH = Bench("spool", "the spool against a bare append with fdatasync", compare)

if __name__ == "__main__":
    BENCH.run()
