"""What the spool costs beside the bare disk: ``python -m tests.bench.spool [directory]``, under 20
s.

Every repetition does the reference and the candidates one after the other; a line gives the
medians, and the median of the ratios within one repetition. Goal: 1 MB groups at 0.7 of append +
fdatasync.
"""

from __future__ import annotations

import os
import select
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from aqueduct_core.spool import Spool, SpoolSettings

REPETITIONS = 5
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


def main() -> None:
    given = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=given, prefix="bench-spool-") as name:
        directory = Path(name)
        print(f"{'group':>8} {'bare MB/s':>10} {'ahead':>6} {'spool MB/s':>11} {'ratio':>6}")
        for size, groups in ((64 << 10, 80), (1 << 20, 48), (8 << 20, 6)):
            group = batch(size)
            data = group.serialize().to_pybytes()
            for ahead in (0, 4):
                pairs = []
                for turn in range(REPETITIONS):
                    first = bare(directory, data, groups) if turn % 2 else 0.0
                    second = spooled(directory, group, groups, ahead)
                    pairs.append((first or bare(directory, data, groups), second))
                total = len(data) * groups / 1e6
                bare_rate = statistics.median(total / a for a, _ in pairs)
                rate = statistics.median(total / b for _, b in pairs)
                ratio = statistics.median(a / b for a, b in pairs)
                print(f"{size:8d} {bare_rate:10.0f} {ahead:6d} {rate:11.0f} {ratio:6.2f}")
        for rows in (1, 10, 100):
            print(f"append of {rows} rows of {ROW_BYTES} B: {append_cost(directory, rows):.1f} µs")
        rate, one = read_rate(directory, batch(1 << 20), 100)
        print(f"read with checksums: {rate:.1f} GB/s; one row at random: {one:.1f} µs")


if __name__ == "__main__":
    main()
