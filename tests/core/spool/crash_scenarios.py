"""Run as a program: an owner that dies at a numbered step, once for every step it takes.

``argv``: directory, first point, last point. For each point a forked owner works in
``<directory>/<point>`` until it dies there, and leaves in ``reported`` what it was told to be
durable.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from aqueduct_core.spool import Disk, InlineSync
from aqueduct_core.spool.catalog import Catalog
from tests.core.spool.rows import append, batch, open_spool

DIED = 7
DONE = 8


class Steps:
    """Counts what changes the disk. A step has a point before it and one after it; a write has one
    more, half way."""

    def __init__(self, point: int) -> None:
        self._left = point

    def take(self, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        self._point()
        if half is not None:
            self._point(half)
        result = act()
        self._point()
        return result

    def _point(self, last_act: Callable[[], Any] | None = None) -> None:
        if not self._left:
            if last_act is not None:
                last_act()
            os._exit(DIED)
        self._left -= 1


class SteppedDisk(Disk):
    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def create(self, path: Path) -> int:
        return int(self.steps.take(lambda: super(SteppedDisk, self).create(path)))

    def write(self, fd: int, pieces: Sequence[bytes | memoryview], at: int) -> int:
        data = b"".join(pieces)
        return int(
            self.steps.take(
                lambda: super(SteppedDisk, self).write(fd, pieces, at),
                lambda: os.pwrite(fd, data[: len(data) * 2 // 3], at),
            )
        )

    def truncate(self, fd: int, size: int) -> None:
        self.steps.take(lambda: super(SteppedDisk, self).truncate(fd, size))

    # a process that dies loses nothing of the cache: the steps count, the waiting is left out

    def sync(self, fd: int) -> None:
        self.steps.take(lambda: None)

    def sync_directory(self, directory: Path) -> None:
        self.steps.take(lambda: None)

    def unlink(self, path: Path) -> None:
        self.steps.take(lambda: super(SteppedDisk, self).unlink(path))

    def rename(self, old: Path, new: Path) -> None:
        self.steps.take(lambda: super(SteppedDisk, self).rename(old, new))


def stepped_sync(steps: Steps) -> Callable[[], InlineSync]:
    class SteppedSync(InlineSync):
        def sync(self, fd: int) -> None:
            steps.take(lambda: None)

        def request(self, group: int) -> None:
            steps.take(lambda: super(SteppedSync, self).request(group))

    return SteppedSync


def step_catalog(steps: Steps) -> None:
    """Every transaction of the catalog is a step."""
    change = Catalog._change

    def stepped(catalog: Catalog, act: Any) -> None:
        steps.take(lambda: change(catalog, act))

    Catalog._change = stepped  # type: ignore[method-assign]


def owner(directory: Path, point: int) -> None:
    """Two lives of a spool with rolls, commits, trimming and a full spool; dies at the point."""
    steps = Steps(point)
    step_catalog(steps)
    report = os.open(directory / "reported", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(**what: Any) -> None:
        os.write(report, json.dumps(what).encode() + b"\n")

    for life in range(2):
        spool = open_spool(
            directory / "spool",
            disk=SteppedDisk(steps),
            sync=stepped_sync(steps),
            segment_bytes=2000,
            max_bytes=7000,
        )
        say(epoch=spool.epoch, ends=spool.ends())
        spool.on_durable = lambda group, spool=spool: say(ends=spool.ends())  # type: ignore[misc]
        ends = spool.ends()
        for i in range(3):
            append(spool, ends, [2, i % 2])
            if i % 2:
                append(spool, ends, [1, 1])
            spool.flush()
            if i != 1:
                spool.pump()
        spool.settle(5)
        spool.commit("q", [end - 2 * (1 - life) for end in spool.ends()])
        say(cursor=spool.cursors()["q"])
        while spool.trim():
            pass
        if life:
            while not spool.full:
                append(spool, ends, [4, 4])
                spool.settle(5)
            spool.commit("q", spool.ends())
            say(cursor=spool.cursors()["q"])
            while spool.trim():
                pass
        spool.close()
    os._exit(DONE)


def main() -> None:
    root, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    # what is imported late is imported once, before the forks
    batch(0, 0, 1)
    for point in range(first, last):
        directory = root / str(point)
        directory.mkdir()
        child = os.fork()
        if not child:
            try:
                owner(directory, point)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        (directory / "code").write_text(str(code))
        if code != DIED:
            return


if __name__ == "__main__":
    main()
