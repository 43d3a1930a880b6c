"""The memory of a sink task over many rows: flat, whatever their number.

    python -m tests.bench.sink_memory [--rows 10000000] [--channels 100]

One task attempt sends rows of 20 bytes to an intake in another process, in record batches as Spark
hands them over; its resident memory is looked at after each tenth of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_spark.formats.aqueduct.sink.attempt import AqueductSink
from aqueduct_spark.write.sink import WriteIdentity
from aqueduct_spark.write.task import write_rows
from aqueduct_spark.write.worker import Worker
from tests.bench.pipeline import intake
from tests.spark.write.sinking import options
from tests.support.processes import resident_bytes

BATCH_ROWS = 10_000
GOAL_GROWTH = 1.25
"""Resident memory at the end against that after the first tenth."""


def batches(rows: int, channels: int, seen: list[int]) -> Iterator[pa.RecordBatch]:
    names = pa.array([f"channel-{n}" for n in range(channels)])
    for first in range(0, rows, BATCH_ROWS):
        if first % (rows // 10) == 0 and first:
            seen.append(resident_bytes(os.getpid()))
        numbers = np.arange(first, first + BATCH_ROWS)
        value = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 20, "0")
        yield pa.record_batch({"value": value, "channel": names.take(numbers % channels)})
    seen.append(resident_bytes(os.getpid()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--channels", type=int, default=100)
    args = parser.parse_args()
    seen: list[int] = []
    worker = Worker()
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as folder:
        with intake(Path(folder)) as (endpoint, _):
            begun = time.perf_counter()
            counts = write_rows(
                batches(args.rows, args.channels, seen),
                AqueductSink(),
                options(endpoint, ackTimeout="120s"),
                token=None,
                identity=WriteIdentity("memory", 0, 0),
                worker=worker,
            )
            seconds = time.perf_counter() - begun
        worker.close()
    growth = seen[-1] / seen[0]
    print(f"{counts.acked:,} rows acked, {counts.acked / seconds:,.0f} rows/s")
    print("resident MB after each tenth: " + " ".join(f"{size / 1e6:.0f}" for size in seen))
    print(f"the last against the first: {growth:.2f} (goal: at most {GOAL_GROWTH})")
    return 0 if growth <= GOAL_GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
