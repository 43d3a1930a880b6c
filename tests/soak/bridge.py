"""Aqueduct into Aqueduct in the kill loop: producers, an intake, a query, and a second intake that
the query writes to; batches of at least 10,000 rows a task and six tasks.

Every process of it is hit, the receiving intake too. A driver that died is started again; every
second time only when the lease of its intakes is over, so that the batch that is done again has to
launch one first, and each time Spark has forgotten its last commit, so that a batch is done again
also when it was complete.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.faults.batches import logged
from tests.faults.bridged import Received
from tests.faults.ledger import Entry, Verdict
from tests.soak import kills
from tests.soak.progress import Progress
from tests.soak.world import LEASE_SECONDS, World
from tests.support.intake_process import IntakeProcess, Site
from tests.support.ports import free_port
from tests.support.waiting import alive, ended

TARGETS = ("intake", "receiver", "driver", "planner", "worker")
PARTITIONS = 6
ROWS_PER_BATCH = 10_000 * PARTITIONS
CHANNELS = 8
"""Ordered channels of a producer; with three producers every partition has some."""


class Bridge(World):
    """A bridge, its producers and its receiver. Channels carry their producer's name."""

    def __init__(self, home: Path, *, master: str, producers: int, rate: float, size: int) -> None:
        super().__init__(home, master=master, producers=producers, rate=rate, size=size)
        folder = home / "receiver"
        folder.mkdir()
        self._site = Site(folder)
        self._listen = f"127.0.0.1:{free_port()}"
        self._receiver: IntakeProcess | None = None
        ca = folder / "ca.pem"
        assert self._site.client_tls.ca_pem is not None
        ca.write_bytes(self._site.client_tls.ca_pem)
        sizes = {f.split(":")[1]: size for flows in self._flows.values() for f in flows}
        self.received = Received(self._site.spool, sizes)
        self.plan.sink = "bridge"
        self.plan.endpoint = {"endpoint": f"aqueduct://{self._listen}", "tls.caFile": str(ca)}
        self.plan.trigger = {"processingTime": "1 second"}
        self.plan.options |= {
            "partitionsPerIntake": str(PARTITIONS),
            "minOffsetsPerTrigger": str(ROWS_PER_BATCH),
            "maxTriggerDelay": "30s",
        }

    def flows(self, producer: str, rate: float, size: int) -> list[str]:
        share = 0.8 * rate / CHANNELS
        flows = [f"ordered:{producer}-o{n}:{share:.1f}:{size}" for n in range(CHANNELS)]
        flows += [f"unordered:{producer}-u:{0.15 * rate:.1f}:{size}"]
        return [*flows, f"unreliable:{producer}-d:{0.05 * rate:.1f}:{size}"]

    def verdicts(self, entries: list[Entry], *, complete: bool) -> list[Verdict]:
        return self.received.verdicts(entries, complete=complete)

    def rows(self) -> int:
        return self.received.rows

    def start_producing(self) -> None:
        self._start_receiver()
        super().start_producing()

    def pids(self, target: str) -> list[int]:
        if target != "receiver":
            return super().pids(target)
        return [self._receiver.pid] if self._receiver and alive(self._receiver.pid) else []

    def watch(self) -> None:
        if not self.pids("receiver"):
            self._start_receiver()
        super().watch()

    def before_restart(self) -> None:
        checkpoint = self.plan.checkpoint
        begun, done = logged(checkpoint, "offsets"), logged(checkpoint, "commits")
        if begun and begun[-1:] == done[-1:]:
            (checkpoint / "commits" / str(done[-1])).unlink()
        intake = self.intake()
        if intake and self.restarts % 2:
            os.kill(intake, signal.SIGCONT)
            ended(intake, LEASE_SECONDS + 30.0)

    def close(self) -> list[int]:
        left = super().close()
        if self._receiver is not None:
            self._receiver.kill()
        return left

    def _start_receiver(self) -> None:
        if self._receiver is not None:
            self._receiver.kill()
        settings = self._site.settings(listen=self._listen, partitions=4, lease=86_400.0)
        self._receiver = IntakeProcess(self._site, settings)
        self._receiver.wait_ready()


@contextmanager
def bridge(home: Path, **given: Any) -> Iterator[Bridge]:
    made = Bridge(home, **given)
    try:
        yield made
    finally:
        made.close()


def run(
    home: Path,
    progress: Progress,
    *,
    bounces: int,
    seconds: float,
    master: str = "local[2,8]",
    targets: tuple[str, ...] = TARGETS,
    signals: tuple[str, ...] = kills.SIGNALS,
    halt: float = kills.HALT_SECONDS,
) -> tuple[bool, str]:
    """Whether all was well, and the report as Markdown."""
    return kills.run(
        home,
        progress,
        bounces=bounces,
        seconds=seconds,
        master=master,
        targets=targets,
        signals=signals,
        halt=halt,
        producers=3,
        rate=4500.0,
        size=100,
        make=bridge,
        title="The bridge in the kill loop",
    )
