"""A real intake, a good producer beside an attack, and what the attack costs.

``python -m tests.hostile.lab [NAME …]`` prints a line for each attack.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aqueduct_core.aio import channel, connect
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls import ClientTls
from tests.core.intake.processes import IntakeProcess, Site
from tests.faults.processes import private_bytes
from tests.hostile.attacks import ATTACKS
from tests.support.waiting import LONG, environment

PACE = 0.01
"""Seconds between two messages of the good producer."""
PAYLOAD = bytes(200)
RATES = {"holes": 11_000.0, "no_acks": 100_000.0, "half_frames": 50_000.0}
RATE = 1_000_000.0
"""Bytes of attack a second."""


@dataclass(frozen=True)
class Cost:
    """Bytes sent by the attacker; bytes of memory and seconds of CPU that the intake took more;
    the good producer's waits for its acks in seconds: median and 99th percentile."""

    name: str
    sent: int
    kept: int
    cpu: float
    median: float
    p99: float
    quiet_median: float
    quiet_p99: float
    acked: float

    def __str__(self) -> str:
        size = self.sent / 1e6
        return "  ".join(
            [
                f"{self.name:20} sent {size:6.2f} MB",
                f"kept {self.kept / max(1, self.sent):6.2f} B/B",
                f"cpu {self.cpu / size:6.3f} s/MB",
                f"p50 {1e3 * self.median:6.1f} ms (quiet {1e3 * self.quiet_median:5.1f})",
                f"p99 {1e3 * self.p99:7.1f} ms (quiet {1e3 * self.quiet_p99:6.1f})",
                f"×{self.p99 / self.quiet_p99:5.2f}",
                f"acked {100 * self.acked:.0f} %",
            ]
        )


class Good:
    """A producer that sends at its pace, in a thread of its own, and times each ack."""

    def __init__(self, url: str, tls: ClientTls) -> None:
        self.waits: list[tuple[float, float]] = []
        self.sent = 0
        self._url = url
        self._tls = tls
        self._over = threading.Event()
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> Good:
        self._thread.start()
        assert self._up.wait(LONG)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(LONG)

    async def _run(self) -> None:
        times: list[float] = []

        def settled(reliable: bool, first: int, stop: int, acked: bool) -> None:
            now = time.monotonic()
            self.waits.extend((times[n], now - times[n]) for n in range(first, stop) if acked)

        settings = LinkSettings(idle_timeout=60.0)
        async with connect(self._url, tls=self._tls, settings=settings) as connection:
            sender, receiver = channel(name="good")
            sender.observe(settled, lambda: None)
            await connection.entrypoint.send(b"", attach=receiver)
            self._up.set()
            while not self._over.is_set():
                times.append(time.monotonic())
                await sender.send(PAYLOAD)
                self.sent += 1
                await asyncio.sleep(PACE)
            with suppress(TimeoutError):
                await asyncio.wait_for(sender.finish(), 5.0)

    def between(self, begin: float, end: float) -> list[float]:
        return sorted(wait for at, wait in self.waits if begin <= at < end)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def measured(name: str, intake: IntakeProcess, tls: ClientTls, seconds: float = 6.0) -> Cost:
    """One attack against an intake that serves a good producer."""
    host, port = intake.listen.rsplit(":", 1)
    with Good(intake.url, tls) as good:
        time.sleep(1.0)
        quiet = time.monotonic()
        cpu_before = cpu_seconds(intake.pid)
        time.sleep(seconds / 2)
        usual = (cpu_seconds(intake.pid) - cpu_before) / (time.monotonic() - quiet)
        kept, cpu, begun = private_bytes(intake.pid), cpu_seconds(intake.pid), time.monotonic()
        attacker = subprocess.run(
            [sys.executable, "-m", "tests.hostile.attacks", name, host, port, str(seconds),
             str(RATES.get(name, RATE))],
            stdout=subprocess.PIPE, check=True, env=environment(), timeout=LONG,
        )  # fmt: skip
        over = time.monotonic()
        kept = private_bytes(intake.pid) - kept
        cpu = cpu_seconds(intake.pid) - cpu - usual * (over - begun)
    calm, under = good.between(quiet, begun), good.between(begun + 0.7, over)
    expected = (over - begun - 0.7) / (PACE * 1.15)
    return Cost(
        name,
        json.loads(attacker.stdout)["bytes"],
        kept,
        cpu,
        under[len(under) // 2] if under else float("inf"),
        under[int(0.99 * len(under))] if under else float("inf"),
        calm[len(calm) // 2],
        calm[int(0.99 * len(calm))],
        min(1.0, len(under) / expected),
    )


def main(names: list[str]) -> None:
    for name in names or ATTACKS:
        with tempfile.TemporaryDirectory() as folder:
            site = Site(Path(folder))
            with site.intake() as intake:
                print(measured(name, intake, site.client_tls), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
