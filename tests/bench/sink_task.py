"""One task of the sink without Spark: CPU of the worker and of the intake for a row, by kind.

    python -m tests.bench.sink_task [--repetitions 5] [--seconds 4]

Kinds are rows of one size and of mixed sizes, rows that say who they are in headers
(``idempotence=headers``), rows with headers of their own, record batches as payloads, and
micro-batches of one row over a connection that is kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aqueduct_spark.formats.aqueduct.sink.attempt import AqueductSink
from aqueduct_spark.write.sink import WriteIdentity
from aqueduct_spark.write.task import write_rows
from aqueduct_spark.write.worker import Worker
from tests.bench.intakes import intake
from tests.bench.measuring import Bench, Effort
from tests.bench.sheet import Sheet
from tests.spark.write.sinking import options
from tests.support.processes import cpu_seconds

BATCH_ROWS = 10_000
MIXED = (20, 2_000)
"""Bytes of a payload at least and at most, where sizes are drawn by chance."""
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SMALL_BATCHES = 25
"""Micro-batches of one row, for a second of ``--seconds``."""


class Kind(NamedTuple):
    """Rows of ``size`` bytes (None: mixed), about so many in a second."""

    rate: int
    size: int | None
    own_headers: bool = False
    idempotence: str = "auto"
    payload_format: str = "binary"

    @property
    def options(self) -> dict[str, str]:
        return {"idempotence": self.idempotence, "payloadFormat": self.payload_format}


KINDS = {
    "100 B": Kind(60_000, 100),
    "1,000 B": Kind(10_000, 1_000),
    "mixed": Kind(10_000, None),
    "100 B, headers say who": Kind(20_000, 100, idempotence="headers"),
    "100 B, own headers": Kind(20_000, 100, own_headers=True),
    "Arrow payloads": Kind(200_000, 100, payload_format="arrow"),
}


def frames(kind: Kind, count: int) -> list[pa.RecordBatch]:
    """Record batches as Spark hands them over; the same ones in every run."""
    chance = np.random.default_rng(12)
    found = []
    for first in range(0, count, BATCH_ROWS):
        rows = min(BATCH_ROWS, count - first)
        sizes = np.full(rows, kind.size) if kind.size else chance.integers(*MIXED, rows)
        ends = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(chance.bytes(int(ends[-1])))]
        columns = {"value": pa.Array.from_buffers(pa.binary(), rows, buffers)}
        if kind.own_headers:
            each = [
                [{"key": "kind", "value": b"%d" % (n % 7)}, {"key": "trace", "value": b"%016x" % n}]
                for n in range(first, first + rows)
            ]
            columns["headers"] = pa.array(each, HEADERS)
        found.append(pa.record_batch(columns))
    return found


class Task:
    """Attempts of one task, one after the other, in this process."""

    def __init__(self, endpoint: str, intake: int) -> None:
        self._endpoint = endpoint
        self._intake = intake
        self._batch = 0
        self.worker = Worker()

    def run(
        self, batches: Sequence[pa.RecordBatch], given: dict[str, str], *, streaming: bool = False
    ) -> tuple[float, float, float]:
        """Seconds of wall time, of this process's CPU and of the intake's, until all is acked."""
        self._batch += 1
        cpu, there, begun = time.process_time(), cpu_seconds(self._intake), time.perf_counter()
        counts = write_rows(
            iter(batches),
            AqueductSink(),
            options(self._endpoint, streaming=streaming, **given),
            token=None,
            identity=WriteIdentity("bench", self._batch, 0, rising=streaming),
            worker=self.worker,
        )
        wall = time.perf_counter() - begun
        rows = sum(batch.num_rows for batch in batches)
        if counts.acked not in (rows, counts.sent):
            raise RuntimeError(f"{counts.acked} of {rows} rows are acked")
        return wall, time.process_time() - cpu, cpu_seconds(self._intake) - there


def compare(effort: Effort, sheet: Sheet) -> None:
    with TemporaryDirectory(prefix="aqueduct-bench-") as folder:
        for number, (name, kind) in enumerate(KINDS.items()):
            with intake(Path(folder) / str(number)) as (endpoint, pid):
                rows(name, kind, Task(endpoint, pid), effort, sheet)
        with intake(Path(folder) / "small") as (endpoint, pid):
            small(Task(endpoint, pid), effort, sheet)


def rows(name: str, kind: Kind, task: Task, effort: Effort, sheet: Sheet) -> None:
    count = int(kind.rate * effort.seconds)
    batches = frames(kind, count)
    task.run(batches[:1], kind.options)  # connects
    runs = []
    for _ in range(effort.repetitions):
        sheet.calibrate()
        runs.append(task.run(batches, kind.options))
    task.worker.close()
    sheet.add(f"{name}: acked", "rows/s", [count / wall for wall, _, _ in runs])
    sheet.add(f"{name}: task's CPU", "µs/row", [cpu * 1e6 / count for _, cpu, _ in runs])
    sheet.add(f"{name}: intake's CPU", "µs/row", [there * 1e6 / count for *_, there in runs])


def small(task: Task, effort: Effort, sheet: Sheet) -> None:
    row = frames(Kind(1, 100), 1)
    count = max(1, int(SMALL_BATCHES * effort.seconds))
    task.run(row, {}, streaming=True)  # connects
    cpus, walls = [], []
    for _ in range(effort.repetitions):
        sheet.calibrate()
        runs = [task.run(row, {}, streaming=True) for _ in range(count)]
        cpus.append(sum(cpu for _, cpu, _ in runs) * 1e3 / count)
        walls.append(sum(wall for wall, _, _ in runs) * 1e3 / count)
    task.worker.close()
    sheet.add("micro-batch of one row: task's CPU", "ms", cpus)
    sheet.add("micro-batch of one row: until acked", "ms", walls)


BENCH = Bench("sink_task", "one task of the sink: CPU for a row, by kind", compare)

if __name__ == "__main__":
    BENCH.run()
