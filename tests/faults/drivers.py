"""Starting, watching and killing drivers, with or without executors of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark

from tests.support.processes import descendants, executors_of, planners_of, workers_of
from tests.support.waiting import (
    LONG,
    Output,
    alive,
    ended,
    environment,
    intake_status,
    send_signal,
    wait_until,
)

START_SECONDS = LONG
"""For a driver with executors to come up on a busy machine."""
END_SECONDS = LONG


class Plan:
    """One query with its places; each driver of it goes on where the last one was."""

    def __init__(self, home: Path, **options: str) -> None:
        self.home = home
        self.spool = home / "spool"
        self.table = home / "table"
        self.checkpoint = home / "checkpoint"
        self.master = "local[2]"
        self.format = "aqueduct"
        self.sink = "parquet"
        self.trigger: dict[str, Any] = {}
        self.conf: dict[str, str] = {}
        self.attempts: Path | None = None
        self.endpoint: dict[str, str] = {}
        self.options = {"spool": str(self.spool), "lease": f"{LONG:.0f}s", **options}
        self._drivers: list[Driver] = []

    def start(self) -> Driver:
        driver = Driver(self)
        self._drivers.append(driver)
        return driver

    def write(self) -> Path:
        file = self.home / "plan.json"
        file.write_text(
            json.dumps(
                {
                    "master": self.master,
                    "conf": self.conf,
                    "format": self.format,
                    "options": self.options,
                    "checkpoint": str(self.checkpoint),
                    "table": str(self.table),
                    "sink": self.sink,
                    "trigger": self.trigger,
                    "endpoint": self.endpoint,
                    "attempts": str(self.attempts) if self.attempts else "",
                }
            )
        )
        return file

    def intake(self, seconds: float = START_SECONDS) -> dict[str, Any]:
        """The status of intake 0 once it runs."""
        return intake_status(self.spool, 0, seconds)

    def close(self) -> None:
        """End everything that a driver of this plan started, intakes too."""
        for driver in self._drivers:
            driver.close()
        for path in self.spool.glob("intake-*/status.json"):
            pid = json.loads(path.read_text())["pid"]
            send_signal(pid, signal.SIGCONT)
            send_signal(pid, signal.SIGTERM)
            ended(pid, END_SECONDS)


class Driver:
    """A driver process. `close` leaves nothing of it running, but intakes, which are not its."""

    def __init__(self, plan: Plan) -> None:
        home = spark_home(plan.home) if plan.master.startswith("local-cluster") else None
        more = {"SPARK_HOME": str(home)} if home else {}
        if not home:
            more = {"SPARK_HOME": os.path.dirname(pyspark.__file__)}
        with (plan.home / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.faults.driver", str(plan.write())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(**more),
                start_new_session=True,
            )
        self._output = Output(self._process)
        self._jvm: int | None = None
        self._known: set[int] = set()

    @property
    def jvm(self) -> int:
        if self._jvm is None:
            self._jvm = int(self.said("jvm ", START_SECONDS).split()[1])
        return self._jvm

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def said(self, word: str, seconds: float) -> str:
        """The first line that begins so; AssertionError with the last lines otherwise."""
        return self._output.wait_for(word, seconds)

    def wait(self, seconds: float = END_SECONDS) -> int:
        return self._process.wait(seconds)

    @property
    def error(self) -> str:
        """What ended the query; empty when the driver was killed before it could say."""
        return next((line[5:] for line in self._output.lines if line.startswith("over ")), "")

    def planners(self) -> list[int]:
        return planners_of(self.jvm)

    def executors(self) -> list[int]:
        return executors_of(self.jvm)

    def workers(self) -> list[int]:
        return workers_of(self.jvm)

    def family(self) -> list[int]:
        """All its processes that were ever seen and run now."""
        self._known.update(descendants(self._process.pid))
        if self._jvm is not None and alive(self._jvm):
            self._known.update([self._jvm, *descendants(self._jvm)])
        return [pid for pid in [self._process.pid, *self._known] if alive(pid)]

    def kill(self, more: Sequence[int] = ()) -> None:
        """kill -9 of the driver: its JVM, its Python program, and ``more``. The planner and the
        workers are left to find out."""
        family = self.family()
        for pid in (self.jvm, self._process.pid, *more):
            send_signal(pid, signal.SIGKILL)
        for pid in family:
            ended(pid, END_SECONDS)
        self.close()

    def close(self) -> None:
        """End all of it, however it stands."""
        for pid in self.family():
            send_signal(pid, signal.SIGCONT)
            send_signal(pid, signal.SIGKILL)
        self._process.wait(END_SECONDS)
        wait_until(lambda: not self.family(), END_SECONDS, "the end of the driver's processes")
        self._output.close()


def spark_home(home: Path) -> Path:
    """A Spark home whose work directory is below ``home``: executors write beside ``jars``."""
    made = home / "spark-home"
    if not made.exists():
        made.mkdir()
        for path in Path(pyspark.__file__).parent.iterdir():
            (made / path.name).symlink_to(path)
    return made
