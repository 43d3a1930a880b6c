"""Run as a program: an owner that dies at a numbered step, once for every step it takes.

``argv``: scenario, directory, number of the first point, and of the last. For each point a forked
owner works in ``<directory>/<point>`` until it dies there. It leaves in ``reported`` what it was
told to be durable, and in ``unstepped`` what it changed outside of a step.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aqueduct_core.spool import Spool
from tests.core.spool.crash_states import STATES
from tests.core.spool.rows import append, batch, open_spool
from tests.core.spool.stepping import (
    DIED,
    DONE,
    SteppedDisk,
    Steps,
    step_catalog,
    stepped_sync,
    watch_changes,
)

Say = Callable[..., None]
PLENTY, MOST = 1 << 20, 9000
WIDE = 3
"""Logs at the end of each scenario."""


def opened(directory: Path, steps: Steps, say: Say, disk: SteppedDisk, **given: Any) -> Spool:
    spool = open_spool(directory, disk=disk, sync=stepped_sync(steps), **given)
    say(epoch=spool.epoch, ends=spool.ends())
    spool.on_durable = lambda group: say(ends=spool.ends())
    return spool


def lives(directory: Path, steps: Steps, say: Say) -> None:
    """Three lives of a spool: rolls, commits, trimming, a log more, a cursor that comes and goes, a
    full spool."""
    for life in range(3):
        partitions = min(WIDE, 2 + life)
        spool = opened(
            directory,
            steps,
            say,
            SteppedDisk(steps),
            partitions=partitions,
            segment_bytes=2000,
            max_bytes=8000,
        )
        ends = spool.ends()
        reads = [True, True, False][:partitions]
        enter(spool, say, "q", reads)
        if life:
            enter(spool, say, "side", [not read for read in reads])
        for i in range(3):
            append(spool, ends, [2, i % 2, 1][:partitions])
            if i % 2:
                append(spool, ends, [1, 1])
            spool.flush()
            if i != 1:
                spool.pump()
        spool.settle(5)
        commit(spool, say, 2 if life == 0 else 0)
        while spool.trim():
            pass
        if life:
            say(dropping="side")
            spool.drop("side")
            say(dropped="side")
        if life == 2:
            while not spool.full:
                append(spool, ends, [4, 4, 1])
                spool.settle(5)
            commit(spool, say, 0)
            while spool.trim():
                pass
        spool.close()


def enter(spool: Spool, say: Say, cursor: str, reads: list[bool]) -> None:
    say(entering=cursor)
    spool.enter_cursor(cursor, reads)
    say(entered=cursor)


def commit(spool: Spool, say: Say, behind: int) -> None:
    ends = [end - behind for end in spool.ends()]
    spool.commit("q", [*ends[:2], *[None] * (spool.partitions - 2)])
    say(cursor=spool.cursors()["q"])


def without_space(directory: Path, steps: Steps, say: Say) -> None:
    """A disk that is full at a group, at the start of a segment and at a roll; space returns."""
    disk = SteppedDisk(steps, PLENTY)
    spool = opened(directory, steps, say, disk, partitions=WIDE, segment_bytes=1500, max_bytes=MOST)
    ends = spool.ends()
    enter(spool, say, "q", [True, True, False])
    for room in (300, 1900, 40, 0):
        disk.room = room
        while True:
            append(spool, ends, [2, 1, 1])
            if not spool.settle(5):
                break
        commit(spool, say, 0)
        while spool.trim():
            pass
        disk.room = PLENTY
        spool.settle(5)
    while spool.bytes < MOST:
        append(spool, ends, [2, 1, 1])
        spool.settle(5)
    commit(spool, say, 0)
    # all is read: the segment in use is closed so that it can go, first without space for a new one
    disk.room = 100
    while spool.trim():
        pass
    assert spool.full
    disk.room = PLENTY
    while spool.trim():
        pass
    assert not spool.full
    spool.close()


def recovers(directory: Path, steps: Steps, say: Say) -> None:
    """An opening of what a crash or an operator left, and a life after it."""
    spool = opened(directory, steps, say, SteppedDisk(steps), partitions=WIDE, segment_bytes=2000)
    ends = spool.ends()
    append(spool, ends, [1, 1, 1])
    spool.settle(5)
    spool.close()


SCENARIOS = {"lives": lives, "without_space": without_space}


def say_to(fd: int, text: str) -> None:
    os.write(fd, text.encode() + b"\n")


def owner(scenario: str, directory: Path, point: int) -> None:
    steps = Steps(point)
    step_catalog(steps)
    report = os.open(directory / "reported", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    unstepped = os.open(directory / "unstepped", os.O_WRONLY | os.O_CREAT)

    def say(**what: Any) -> None:
        say_to(report, json.dumps(what))

    spool = directory / "spool"
    watch_changes(steps, spool, lambda text: say_to(unstepped, text))
    SCENARIOS.get(scenario, recovers)(spool, steps, say)
    os._exit(DONE)


def main() -> None:
    scenario, root = sys.argv[1], Path(sys.argv[2])
    first, last, stride = (int(word) for word in sys.argv[3:6])
    # what is imported late is imported once, before the forks
    batch(0, 0, 1)
    state = root.with_name(f"{root.name} state")
    if scenario in STATES:
        STATES[scenario](state)
    for point in range(first, last, stride):
        directory = root / str(point)
        directory.mkdir()
        if scenario in STATES:
            shutil.copytree(state, directory / "spool")
        child = os.fork()
        if not child:
            try:
                owner(scenario, directory, point)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        (directory / "code").write_text(str(code))
        if code != DIED:
            return


if __name__ == "__main__":
    main()
