"""What an attack costs a real intake, and a good producer beside it."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aqueduct_core.transport.settings import SMALLEST_DATAGRAM
from tests.hostile.attacks import ATTACKS, Stage
from tests.hostile.good import BULK, GoodProducer
from tests.support.intake_process import IntakeProcess, Site
from tests.support.processes import cpu_seconds, private_bytes
from tests.support.waiting import LONG, environment

QUIET = 150
"""Messages of the good producer before the attack, by which those beside it are judged."""
SETTLED = 20
"""Its messages between two looks at whether the intake still works on what the attack sent."""
LOOKS = 30
RATE = 1_000_000.0
"""Bytes of attack a second."""
MOST, SECONDS = 4e6, 4.0
"""An attack ends with so many bytes or, whatever the machine does meanwhile, so many seconds."""


@dataclass(frozen=True)
class Cost:
    """One attack.

    ``sent`` bytes in ``datagrams``; ``kept``: private bytes of the intake afterwards, with the
    attacker's connections as they are, less those before it; ``peak``: the most in between;
    ``cpu``: seconds of its processor beyond what the good producer takes, and ``honest`` seconds
    for a full datagram of that one. Waits for acks, in seconds, before (``calm``) and beside it.
    """

    name: str
    stage: Stage
    sent: int
    datagrams: int
    kept: int
    peak: int
    cpu: float
    honest: float
    calm: list[float]
    beside: list[float]
    good_sent: int
    good_acked: int
    good_nacked: int

    @property
    def packet_ratio(self) -> float:
        """CPU of a datagram of the attack, in full datagrams of the good producer."""
        return self.cpu / max(1, self.datagrams) / self.honest

    @property
    def byte_ratio(self) -> float:
        """CPU of a byte of the attack, in bytes of full datagrams of the good producer."""
        return self.cpu / max(1, self.sent) / (self.honest / SMALLEST_DATAGRAM)

    @property
    def p99_ratio(self) -> float:
        return quantile(self.beside, 0.99) / quantile(self.calm, 0.99)

    def __str__(self) -> str:
        return HEAD + "\n" + self.row()

    def row(self) -> str:
        """A line of the table whose head is `HEAD`."""
        return (
            f"| {self.name} | {self.stage.value} | {self.sent / 1e6:.2f} | {self.datagrams}"
            f" | {self.kept / 1e6:.1f} | {max(0, self.kept) / max(1, self.sent):.1f}"
            f" | {self.peak / 1e6:.1f}"
            f" | {1e6 * self.cpu / max(1, self.datagrams):.0f} | {self.packet_ratio:.2f}"
            f" | {self.byte_ratio:.2f}"
            f" | {1e3 * quantile(self.calm, 0.5):.0f} → {1e3 * quantile(self.beside, 0.5):.0f}"
            f" | {1e3 * quantile(self.calm, 0.99):.0f} → {1e3 * quantile(self.beside, 0.99):.0f}"
            f" | {self.p99_ratio:.2f} | {self.good_acked} of {self.good_sent} |"
        )


HEAD = (
    "| attack | stage | sent, MB | datagrams | kept, MB | kept a byte | peak, MB"
    " | CPU a datagram, µs | honest = 1 | a byte, honest = 1"
    " | ack p50, ms | ack p99, ms | p99 ratio | good acked |\n" + "|---|---" + "|---:" * 12 + "|"
)


def quantile(waits: list[float], part: float) -> float:
    """Of sorted waits; infinite where there are none, which is as bad as it can be."""
    return waits[int(part * len(waits))] if waits else float("inf")


@contextmanager
def attacker(
    name: str, intake: IntakeProcess, *, most: float, rate: float, seconds: float
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that attacks, and holds its connections until the end."""
    host, port = intake.listen.rsplit(":", 1)
    flight = intake.ready["flight"].rsplit(":", 1)[1]
    given = [name, host, port, flight, str(most), str(rate), str(seconds)]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.attacks", *given],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(),
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def measured(
    name: str,
    site: Site,
    intake: IntakeProcess,
    *,
    most: float = MOST,
    seconds: float = SECONDS,
) -> Cost:
    """One attack against an intake that serves a good producer."""
    pid = intake.pid
    with GoodProducer(intake.url, site.client_tls, lambda: cpu_seconds(pid)) as good:
        good.more_acks(BULK + QUIET // 3)
        calm, before = time.monotonic(), cpu_seconds(pid)
        acked = good.acked
        good.more_acks(QUIET)
        usual = (cpu_seconds(pid) - before) / (good.acked - acked)
        kept = peak = private_bytes(pid)
        begun, cpu, acked = time.monotonic(), cpu_seconds(pid), good.acked
        with attacker(name, intake, most=most, rate=RATE, seconds=seconds) as process:
            report = Report(process)
            while not report.wait(0.1):
                peak = max(peak, private_bytes(pid))
            over = time.monotonic()
            for _ in range(LOOKS):
                last, count = cpu_seconds(pid), good.acked
                good.more_acks(SETTLED)
                if cpu_seconds(pid) - last < 2 * usual * (good.acked - count):
                    break
            after = private_bytes(pid)
            cpu = cpu_seconds(pid) - cpu - usual * (good.acked - acked)
            peak = max(peak, after) - kept
    return Cost(
        name=name,
        stage=ATTACKS[name][0],
        sent=report.tally["bytes"],
        datagrams=report.tally["datagrams"],
        kept=after - kept,
        peak=peak,
        cpu=max(0.0, cpu),
        honest=good.datagram,
        calm=good.between(calm, begun),
        beside=good.between(begun, over),
        good_sent=good.sent,
        good_acked=good.acked,
        good_nacked=good.nacked,
    )


class Report:
    """What the attacker prints, waited for without holding up those who look meanwhile."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._ready = selectors.DefaultSelector()
        assert process.stdout is not None
        self._ready.register(process.stdout, selectors.EVENT_READ)
        self._limit = time.monotonic() + LONG
        self.tally: dict[str, int] = {}

    def wait(self, seconds: float) -> bool:
        assert time.monotonic() < self._limit, "the attacker does not end"
        if not self._ready.select(seconds):
            return False
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the attacker failed"
        self.tally = json.loads(line)
        self._ready.close()
        return True


def in_a_site(name: str, directory: Path, *, most: float = MOST, seconds: float = SECONDS) -> Cost:
    """The same with an intake of its own, at default limits."""
    site = Site(directory)
    with site.intake() as intake:
        return measured(name, site, intake, most=most, seconds=seconds)
