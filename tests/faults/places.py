"""Which process of a query runs where: on the driver, or on which executor of which host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import INTAKE, command, descendants

DIRECTORY = "SPARK_EXECUTOR_DIRS"
"""What an executor tells its Python workers, and they the intakes that they start."""


@dataclass(frozen=True)
class Executor:
    pid: int
    number: str
    host: str
    application: str

    def __str__(self) -> str:
        return f"executor {self.number} on {self.host}"


@dataclass(frozen=True)
class Place:
    """A process and where it is; ``place`` is empty for an intake whose executor is gone."""

    kind: str
    pid: int
    place: str

    def __str__(self) -> str:
        return f"{self.kind:<9} {self.pid:>7}  {self.place or 'its executor is gone'}"


def executor(pid: int) -> Executor:
    words = command(pid)

    def option(name: str) -> str:
        found = re.search(rf"--{name} (\S+)", words)
        return found.group(1) if found else "?"

    return Executor(pid, option("executor-id"), option("hostname"), option("app-id"))


def places(
    jvm: int, planners: Sequence[int], executors: Sequence[int], intakes: Sequence[int]
) -> list[Place]:
    """All processes of a query, with the executors that launched its intakes."""
    known = [executor(pid) for pid in executors]
    found = [Place("driver", jvm, "the driver")]
    found += [Place("planner", pid, "the driver") for pid in planners]
    found += [Place("executor", one.pid, str(one)) for one in known]
    by_directory: dict[str, Executor] = {}
    for one in known:
        for child in descendants(one.pid):
            if "pyspark.daemon" in command(child) and (place := _variable(child, DIRECTORY)):
                by_directory[place] = one
    for pid in intakes:
        home = by_directory.get(_variable(pid, DIRECTORY))
        found.append(Place("intake", pid, f"launched by {home}" if home else ""))
    return found


def _variable(pid: int, name: str) -> str:
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    prefix = f"{name}=".encode()
    return next((pair[len(prefix) :].decode() for pair in pairs if pair.startswith(prefix)), "")


def is_intake(pid: int) -> bool:
    return INTAKE in command(pid)
