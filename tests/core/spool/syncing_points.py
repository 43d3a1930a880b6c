"""Run as a program: an owner with the real sync process dies while a group is in flight behind
another one.

``argv``: directory, number of the first point, and of the last. The sync process is halted and let
go by the owner, so each point is the same whatever the machine does: some groups are reported, one
is written and asked for, another one is written behind it. At each point the owner dies by
SIGKILL, before or after the sync process has answered for what it was asked, and before or after
the report.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from aqueduct_core.spool import Spool, SyncerProcess
from aqueduct_core.spool.sync import wait_readable
from tests.core.spool.rows import append, batch, open_spool

PAIRS = 2


def work(directory: Path, point: int, say: Callable[..., None]) -> None:
    """The turns of an owner; it dies at the turn number ``point``."""
    ports: list[SyncerProcess] = []

    def start() -> SyncerProcess:
        ports.append(SyncerProcess())
        return ports[0]

    spool = open_spool(directory, sync=start, segment_bytes=700)
    syncer = ports[0].pid
    say(syncer=syncer)
    ends = spool.ends()
    left = point

    def turn() -> None:
        nonlocal left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    def report(group: int) -> None:
        last = spool.ends() == ends  # how many reports come before it is up to the machine
        if last:
            turn()  # noted as reported, and not told
        say(ends=spool.ends())
        if last:
            turn()  # told, and nothing is written since

    spool.on_durable = report
    turn()
    for number in range(PAIRS):
        os.kill(syncer, signal.SIGSTOP)
        append(spool, ends, [2, 1])
        turn()
        spool.flush()
        turn()  # one is asked for
        append(spool, ends, [1, number % 2])
        spool.flush()
        turn()  # another one stands behind it
        os.kill(syncer, signal.SIGCONT)
        if number % 2:
            answered(spool)
            turn()  # all is on the disk, and nothing is told
        pumped(spool, ends)
        turn()
    spool.close()
    say(done=True)


def answered(spool: Spool) -> None:
    while not wait_readable(spool.fileno(), None):
        pass


def pumped(spool: Spool, ends: list[int]) -> None:
    while spool.ends() != ends:
        answered(spool)
        spool.pump()


def main() -> None:
    root, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    batch(0, 0, 1)  # what is imported late is imported once, before the forks
    for point in range(first, last):
        directory = root / str(point)
        directory.mkdir()
        child = os.fork()
        if not child:
            report = os.open(directory / "reported", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

            def say(to: int = report, **what: object) -> None:
                os.write(to, json.dumps(what).encode() + b"\n")

            try:
                work(directory / "spool", point, say)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        told = [json.loads(line) for line in (directory / "reported").read_text().splitlines()]
        # its owner is gone: it does what it was asked and ends
        with suppress(ProcessLookupError):
            os.kill(told[0]["syncer"], signal.SIGCONT)
        if "done" in told[-1]:
            return


if __name__ == "__main__":
    main()
