"""What each stage of the way to the disk adds to a loop of ours that only counts bytes.

    python -m tests.bench.stages [--repetitions 5] [--seconds 3] [--kinds 100,1000,65536]

CPU of what receives, for as many payload bytes: counting; decoded and made Arrow columns; stored by
an intake, with the process that waits for the disk. What was stored is read again, as a task on the
intake's host does, for how much faster that is; and what it costs to make rows of record batches in
payloads is set beside what it costs to store as many bytes.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from aqueduct_core.spool import SpoolReader
from aqueduct_spark.read.payloads.arrow import ArrowPayloads
from tests.bench.arrow_receiver import to_arrow
from tests.bench.intakes import intake_process
from tests.bench.loads import MIXED, Load, load_for, send_from_elsewhere
from tests.bench.measuring import Bench, CpuMeter, Effort, in_turns, ratios
from tests.bench.queries import work_folder
from tests.bench.receivers import OURS, measure
from tests.bench.sheet import Sheet

ARROW, DURABLE = "wire → Arrow", "wire → durable"
DATAGRAM = 1_200
"""Of all stages: in larger ones counting costs less than its share."""
LARGE = "65536"
ARROW_ROWS = 1_000
IN_PAYLOAD = pa.schema([("value", pa.binary())])


class Stage(NamedTuple):
    """Payload bytes, CPU seconds, seconds; and seconds to read them again."""

    total: int
    cpu: float
    wall: float
    read: float = 0.0

    @property
    def work(self) -> float:
        """Bytes a CPU second."""
        return self.total / self.cpu


def counting(load: Load) -> Stage:
    run = measure(OURS, load.total, DATAGRAM)
    return Stage(load.total, run.cpu, run.wall)


def arrow(load: Load) -> Stage:
    run = to_arrow(load, DATAGRAM)
    return Stage(load.total, run.cpu, run.wall)


def durable(load: Load) -> Stage:
    with work_folder() as folder:
        with intake_process(folder) as running:
            meter = CpuMeter(running.pid)
            sent = send_from_elsewhere(running.endpoint, load, meter.look, DATAGRAM)
            used = meter.used()
        return Stage(load.total, used, sent.wall, read_again(running.spool))


def read_again(spool: Path) -> float:
    """Seconds to read all that is stored, with checksums."""
    begun = time.perf_counter()
    with SpoolReader(spool) as reader:
        for partition, (start, end) in enumerate(zip(reader.starts(), reader.ends(), strict=True)):
            for batch in reader.read(partition, start, end):
                assert batch.num_rows
    return time.perf_counter() - begun


def decoding_cost(payload: bytes, rows: int, times: int = 200) -> float:
    """CPU seconds to make rows of a record batch in a payload, a byte of it."""
    decoder = ArrowPayloads(IN_PAYLOAD)
    begun = time.process_time()
    for _ in range(times):
        batches = decoder.decode(payload)
    used = time.process_time() - begun
    assert sum(batch.num_rows for batch in batches) == rows
    return used / times / len(payload)


def arrow_payload(rows: int) -> bytes:
    """A record batch of rows of 100 bytes, as a message carries it."""
    batch = pa.record_batch([pa.array([os.urandom(100) for _ in range(rows)])], IN_PAYLOAD)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def block(kind: str, effort: Effort, sheet: Sheet) -> None:
    load = load_for(kind, effort.seconds)
    title = f"{int(kind):,} B" if kind != MIXED else "mixed sizes"
    kinds = {
        OURS: partial(counting, load),
        ARROW: partial(arrow, load),
        DURABLE: partial(durable, load),
    }
    runs = list(in_turns(kinds, effort, sheet))
    for name in kinds:
        used = [run[name].cpu * 1e6 / load.count for run in runs]
        sheet.add(f"{title}: {name}, CPU a message", "µs", used)
    goals = {ARROW: f"G4-{kind}" if kind != MIXED else "", DURABLE: "G5"}
    for name, goal in goals.items():
        over = ratios(runs, name, OURS, lambda run: run.work)
        sheet.add(f"{title}: {name} over counting, CPU", "x", over, goal)
    again = [run[DURABLE].wall / run[DURABLE].read for run in runs]
    sheet.add(f"{title}: reading again over storing", "x", again, "G13")
    if kind == LARGE:
        payload = arrow_payload(ARROW_ROWS)
        shares = []
        for run in runs:
            stored = run[DURABLE].cpu / run[DURABLE].total
            shares.append(stored / (stored + decoding_cost(payload, ARROW_ROWS)))
        sheet.add("rows in Arrow payloads over their bytes' rate, CPU", "x", shares, "G17")


def compare(effort: Effort, sheet: Sheet) -> None:
    for kind in effort.kinds:
        block(kind, effort, sheet)


BENCH = Bench(
    "stages", "what each stage of the way to the disk adds to counting bytes", compare, seconds=3.0
)

if __name__ == "__main__":
    BENCH.run()
