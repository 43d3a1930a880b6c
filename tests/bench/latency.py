"""How long a message takes to be durable: until its ack, at a steady rate.

The sender, a process of its own, sends one message at a time at even distances on an ordered
channel and notes when each is acked: so when it is on the disk of the intake. The time of a message
begins when it was due: what its sender is late by counts. Beside the times stands what a message
costs the intake, and the process that syncs its spool.

    python -m tests.bench.latency [--repetitions N] [--seconds S]
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from aqueduct import channel, connect
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.bench.intakes import intake_process
from tests.bench.measuring import Bench, Effort, percentile
from tests.bench.sheet import Sheet
from tests.support.processes import children, cpu_seconds
from tests.support.waiting import environment

RATE = 1_000
"""Messages a second."""
PAYLOAD = 100
WARM_SECONDS = 0.5
SEND = "--send"
SENDER = (sys.executable, "-W", "ignore", "-m", "tests.bench.latency", SEND)


GROUP_MS = 20.0
"""The longest that a message waits for others of its group (``groupCommit``)."""
FLUSHES = 50


class Latency(NamedTuple):
    """Milliseconds from when a message was due to its ack; microseconds of processor time for a
    message; and milliseconds of the bare flush of so many bytes as a group has at this rate."""

    p50: float
    p99: float
    intake: float
    syncer: float
    flush: float


async def send(endpoint: str, seconds: float) -> list[float]:
    """Send at an even rate; the milliseconds from when each message was due to its ack."""
    loop = asyncio.get_running_loop()
    took: dict[int, float] = {}

    def settled(reliable: bool, first: int, stop: int, acked: bool) -> None:
        now = loop.time()
        for number in range(first, stop):
            took[number] = (now - begun - number / RATE) * 1e3

    async with connect(endpoint, tls=ClientTls(insecure=True)) as connection:
        sender, receiver = channel(mode="ordered", name="bench")
        sender.observe(settled, lambda: None)
        await connection.entrypoint.send(b"", attach=receiver)
        payload = bytes(PAYLOAD)
        begun = loop.time()
        count = int(RATE * (WARM_SECONDS + seconds))
        for number in range(count):
            await asyncio.sleep(max(0.0, begun + number / RATE - loop.time()))
            await sender.send(payload)
        await sender.finish()
    return [took[number] for number in range(int(RATE * WARM_SECONDS), count)]


def measure(seconds: float) -> Latency:
    """One sender at one intake."""
    with (
        tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as folder,
        intake_process(Path(folder)) as running,
    ):
        (syncer,) = children(running.pid)
        before = cpu_seconds(running.pid), cpu_seconds(syncer)
        done = subprocess.run(
            [*SENDER, running.endpoint, str(seconds)],
            env=environment(),
            stdout=subprocess.PIPE,
            check=True,
            timeout=120,
        )
        after = cpu_seconds(running.pid), cpu_seconds(syncer)
        flush = bare_flush(Path(folder), int(RATE * PAYLOAD * GROUP_MS / 1e3))
    took = json.loads(done.stdout)
    messages = RATE * (WARM_SECONDS + seconds)
    own, others = ((b - a) / messages * 1e6 for a, b in zip(before, after, strict=True))
    return Latency(percentile(took, 50), percentile(took, 99), own, others, flush)


def bare_flush(folder: Path, size: int) -> float:
    """Milliseconds for an append of so many bytes and its ``fdatasync``, p50."""
    took = []
    with (folder / "bare").open("wb", buffering=0) as file:
        for _ in range(FLUSHES):
            begun = time.perf_counter()
            file.write(bytes(size))
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - begun) * 1e3)
    return percentile(took, 50)


def compare(effort: Effort, sheet: Sheet) -> None:
    runs = []
    for _ in range(effort.repetitions):
        sheet.calibrate()
        runs.append(measure(effort.seconds))
    sheet.add("send → ack, p50", "ms", [run.p50 for run in runs], "ack-p50")
    sheet.add("send → ack, p99", "ms", [run.p99 for run in runs], "ack-p99")
    waits = [run.p50 / (GROUP_MS + run.flush) for run in runs]
    sheet.add("send → ack, p50, over a group's interval and a flush", "x", waits, "G10")
    sheet.add("intake, CPU a message", "µs", [run.intake for run in runs])
    sheet.add("its sync process, CPU a message", "µs", [run.syncer for run in runs])


BENCH = Bench("latency", "send → ack, one message at a time at a steady rate", compare)

if __name__ == "__main__":
    if sys.argv[1:2] == [SEND]:
        print(json.dumps(asyncio.run(send(sys.argv[2], float(sys.argv[3])))))
    else:
        BENCH.run()
