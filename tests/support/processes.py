"""Processes by what the system says of them: which a driver has, and how much they use."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.support.waiting import alive

PLANNER = "python_streaming_source_runner"
EXECUTOR = "CoarseGrainedExecutorBackend"
WORKER = "pyspark.daemon"
INTAKE = "aqueduct_core.intake"


def command(pid: int) -> str:
    """The command line; empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in file.read_text().split()]
        except OSError:
            continue
    return found


def descendants(pid: int) -> list[int]:
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def planners_of(jvm: int) -> list[int]:
    return [pid for pid in children(jvm) if PLANNER in command(pid)]


def executors_of(jvm: int) -> list[int]:
    """Those of local-cluster, which are children of the driver's JVM."""
    return [pid for pid in descendants(jvm) if EXECUTOR in command(pid) and "java" in command(pid)]


def workers_of(jvm: int) -> list[int]:
    """Python processes that run tasks: forked by the daemon of each executor (or of the driver)."""
    daemons = [pid for pid in descendants(jvm) if WORKER in command(pid)]
    forked = [pid for pid in daemons if any(pid in children(daemon) for daemon in daemons)]
    return [pid for pid in forked if alive(pid)]


def resident_bytes(pid: int) -> int:
    """Memory of a process; 0 when it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def private_bytes(pid: int) -> int:
    """The part of it that is no file: pages of a mapped segment come and go as others need room."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def cpu_seconds(pid: int) -> float:
    """Of all threads of a process, by the kernel's clock of it."""
    return time.clock_gettime((~pid << 3) | 2)


def open_files(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def intakes_below(spool: Path) -> list[int]:
    """Intakes that were started for a spool of this directory, whoever their parent is: by their
    working files, since their command line names no spool."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and INTAKE in command(int(entry.name)):
            try:
                opened = [os.readlink(f) for f in (entry / "fd").iterdir()]
            except OSError:
                continue
            if any(name.startswith(str(spool)) for name in opened):
                found.append(int(entry.name))
    return found
