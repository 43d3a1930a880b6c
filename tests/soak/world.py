"""A pipeline under load, kept alive as an operator would: producers, driver, intake, table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from aqueduct_core.errors import AqueductError
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.tickets import IntakeStatus
from tests.faults.drivers import Driver, Plan
from tests.faults.ledger import Entry, Verdict, reconcile
from tests.faults.producer import entries_below
from tests.faults.tables import SinkTable
from tests.support.ports import free_port
from tests.support.processes import workers_of
from tests.support.waiting import alive, environment, running_intake

T = TypeVar("T")

FLOWS = ("ordered:readings", "unordered:events", "unreliable:load")
SHARES = (0.6, 0.3, 0.1)
LEASE_SECONDS = 15
RECOVERY_SECONDS = 300.0
"""Longest time from a fault to the first row of what was sent after it."""


class Table(Protocol):
    """Where the rows end."""

    def read(self) -> pa.Table:
        """All that is there by now."""


class World:
    """One query with its producers. `watch` restarts a driver that ended; `close` ends all."""

    def __init__(self, home: Path, *, master: str, producers: int, rate: float, size: int) -> None:
        self.home = home
        self.plan = Plan(home, listen=f"127.0.0.1:{free_port()}", lease=f"{LEASE_SECONDS}s")
        self.plan.master = master
        self.table: Table = SinkTable(self.plan.table)
        self.restarts = 0
        self.errors: list[str] = []
        self._ledger = home / "ledger"
        self._ledger.mkdir(parents=True)
        self._names = [f"p{number}" for number in range(producers)]
        self._flows = {name: self.flows(name, rate / producers, size) for name in self._names}
        self._producers: list[subprocess.Popen[bytes]] = []
        self._client: IntakeClient | None = None
        self.driver: Driver

    def flows(self, producer: str, rate: float, size: int) -> list[str]:
        """What a producer sends: ``mode:channel:messages a second:bytes``, ``rate`` in all."""
        return [
            f"{flow}:{rate * share:.1f}:{size}" for flow, share in zip(FLOWS, SHARES, strict=True)
        ]

    def verdicts(self, entries: list[Entry], *, complete: bool) -> list[Verdict]:
        """The table as it is against these ledgers."""
        return reconcile(self.table.read(), entries, complete=complete)

    def rows(self) -> int:
        """How many are in the table by now."""
        return self.table.rows

    def start(self) -> None:
        """On return rows flow."""
        self.start_producing()
        self.await_progress(RECOVERY_SECONDS)

    def start_producing(self) -> None:
        self.driver = self.plan.start()
        self.plan.intake()
        for name in self._names:
            self._producers.append(self._producer(name))

    def _producer(self, name: str) -> subprocess.Popen[bytes]:
        flows = [word for flow in self._flows[name] for word in ("--flow", flow)]
        with (self.home / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.faults.producer",
                 "--endpoint", f"aqueduct://{self.plan.options['listen']}",
                 "--producer", name, "--ledger", str(self._ledger), *flows],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(),
                start_new_session=True,
            )  # fmt: skip

    # Who is who, now.

    def intake(self) -> int:
        status = running_intake(self.plan.spool, 0)
        return status["pid"] if status else 0

    def pids(self, target: str) -> list[int]:
        """The process of a target; empty while there is none."""
        if target == "intake":
            return [pid for pid in [self.intake()] if pid]
        if not self.driver.running:
            return []
        jvm = self.driver.jvm
        match target:
            case "driver":
                return [jvm]
            case "planner":
                return self.driver.planners()
            case "worker":
                return workers_of(jvm)
            case "executor":
                return self.driver.executors()
        raise ValueError(f"no such target: {target}")

    def status(self) -> IntakeStatus | None:
        """What the intake says; None while it does not answer."""
        found = running_intake(self.plan.spool, 0)
        if found is None:
            return None
        if self._client is None or self._client.address != found["flight"]:
            if self._client is not None:
                self._client.close()
            credentials = Credentials.for_spool(self.plan.spool).for_clients()
            self._client = IntakeClient(found["flight"], credentials, action_timeout=2.0)
        try:
            return self._client.status()
        except AqueductError:
            return None

    # The ledger.

    def entries(self) -> list[Entry]:
        return list(entries_below(self._ledger))

    def acked(self) -> int:
        return sum(entry.acked_count for entry in self.entries())

    def watch(self) -> None:
        """Start the driver again when its query or its process ended."""
        if not self.driver.running:
            self.errors.append(self.driver.error or "(killed)")
            self.driver.close()
            self.restarts += 1
            self.before_restart()
            self.driver = self.plan.start()
        for producer in self._producers:
            if producer.poll() is not None:
                raise AssertionError(f"a producer ended: exit code {producer.returncode}")

    def before_restart(self) -> None:
        """What happens while no driver runs."""

    def await_progress(self, seconds: float) -> float:
        """Wait until a row is in the table that was sent after this call; the seconds it took.

        All rows that were acked at the call have to be there as well.
        """
        begun = time.monotonic()
        marks = {(e.producer, e.channel): e.sent for e in self.entries()}

        def answered() -> list[Entry] | None:
            entries = self.entries()
            newer = [
                bool(e.acked) and e.acked[-1][1] > marks.get((e.producer, e.channel), 0)
                for e in entries
                if e.mode != "unreliable"
            ]
            return entries if len(entries) == self._channels and all(newer) else None

        entries = self.until(answered, seconds, "acks of messages that were sent after the fault")
        self.until(lambda: self.complete(entries), seconds, "rows of those messages")
        return time.monotonic() - begun

    def until(self, probe: Callable[[], T | None], seconds: float, what: str) -> T:
        """`wait_until` with an eye on the driver, and a pace that leaves the machine to others."""
        limit = time.monotonic() + seconds
        while True:
            self.watch()
            found = probe()
            if found:
                return found
            assert time.monotonic() < limit, f"{what} did not come within {seconds:.0f} s"
            threading.Event().wait(0.5)

    @property
    def _channels(self) -> int:
        return sum(len(flows) for flows in self._flows.values())

    def complete(self, entries: list[Entry]) -> bool:
        """Whether the table has everything that these ledgers call acked."""
        if self.rows() < sum(entry.acked_count for entry in entries):
            return False
        return not any(v.lost_after_ack for v in self.verdicts(entries, complete=False))

    def check(self) -> list[Verdict]:
        """The ledger as of now: what was acked by now has to be in the table soon."""
        entries = self.entries()
        self.until(lambda: self.complete(entries), 60.0, "rows of all that was acked")
        return self.verdicts(entries, complete=False)

    def check_softly(self) -> list[Verdict]:
        """The ledger as it stands, whatever it says."""
        return self.verdicts(self.entries(), complete=False)

    def finish(self, seconds: float = RECOVERY_SECONDS) -> list[Verdict]:
        """Producers finish, the table gets everything, and the books are closed."""
        for producer in self._producers:
            producer.send_signal(signal.SIGTERM)
        producers, self._producers = self._producers, []
        limit = time.monotonic() + seconds
        for producer in producers:
            while producer.poll() is None and time.monotonic() < limit:
                self.watch()
                threading.Event().wait(0.1)
            assert producer.poll() == 0, f"a producer ended with {producer.poll()}"
        entries = self.entries()
        assert all(entry.settled for entry in entries), entries

        self.until(lambda: self.complete(entries), seconds, "rows of all that was acked")
        return self.verdicts(entries, complete=True)

    def close(self) -> list[int]:
        """End everything; the processes that did not end by themselves as they should."""
        for producer in self._producers:
            if producer.poll() is None:
                producer.kill()
                producer.wait()
        if self._client is not None:
            self._client.close()
        self.plan.close()
        intake = self.intake()
        return [intake] if intake and alive(intake) else []


@contextmanager
def world(home: Path, **given: Any) -> Iterator[World]:
    made = World(home, **given)
    try:
        yield made
    finally:
        made.close()


def stop(pid: int, seconds: float) -> None:
    """SIGSTOP, that long, SIGCONT: the fault is the time that passes."""
    os.kill(pid, signal.SIGSTOP)
    threading.Event().wait(seconds)
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass
