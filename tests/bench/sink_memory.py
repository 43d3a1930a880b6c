"""The memory of a sink task over many rows: flat, whatever their number.

    python -m tests.bench.sink_memory

One task attempt sends rows of 20 bytes to an intake in another process, in record batches as Spark
hands them over; its resident memory is looked at after each tenth of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_spark.formats.aqueduct.sink.attempt import AqueductSink
from aqueduct_spark.write.sink import WriteIdentity
from aqueduct_spark.write.task import write_rows
from aqueduct_spark.write.worker import Worker
from tests.bench.intakes import intake
from tests.bench.measuring import Bench, Effort
from tests.bench.queries import work_folder
from tests.bench.sheet import Sheet
from tests.spark.write.sinking import options
from tests.support.processes import resident_bytes

BATCH_ROWS = 10_000
ROWS = 10_000_000
CHANNELS = 100


def batches(rows: int, channels: int, seen: list[int]) -> Iterator[pa.RecordBatch]:
    names = pa.array([f"channel-{n}" for n in range(channels)])
    for first in range(0, rows, BATCH_ROWS):
        if first % (rows // 10) == 0 and first:
            seen.append(resident_bytes(os.getpid()))
        numbers = np.arange(first, first + BATCH_ROWS)
        value = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 20, "0")
        yield pa.record_batch({"value": value, "channel": names.take(numbers % channels)})
    seen.append(resident_bytes(os.getpid()))


def compare(effort: Effort, sheet: Sheet) -> None:
    """Once: what is compared are the tenths of one task."""
    sheet.calibrate()
    seen: list[int] = []
    worker = Worker()
    with work_folder() as folder:
        with intake(folder) as (endpoint, _):
            begun = time.perf_counter()
            counts = write_rows(
                batches(ROWS, CHANNELS, seen),
                AqueductSink(),
                options(endpoint, ackTimeout="120s"),
                token=None,
                identity=WriteIdentity("memory", 0, 0),
                worker=worker,
            )
            seconds = time.perf_counter() - begun
        worker.close()
    assert counts.acked == ROWS
    sheet.add("rows acked", "/s", [counts.acked / seconds])
    for tenth, size in enumerate(seen, 1):
        sheet.add(f"resident after {tenth} of 10 parts", "MB", [size / 1e6])
    sheet.add("resident, the last over the first", "x", [seen[-1] / seen[0]], "sink-memory")


BENCH = Bench("sink_memory", "10,000,000 rows through one sink task: flat memory", compare)

if __name__ == "__main__":
    BENCH.run()
