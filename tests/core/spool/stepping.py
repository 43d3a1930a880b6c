"""Everything that changes the disk of a spool as numbered steps, at which its owner may die."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from aqueduct_core.spool import Disk, InlineSync
from aqueduct_core.spool import catalog as catalog_module
from aqueduct_core.spool.catalog import Catalog

DIED = 7
DONE = 8


class Steps:
    """Counts what changes the disk. A step has a point before it and one after it; a write has one
    more, half way."""

    def __init__(self, point: int) -> None:
        self._left = point
        self.inside = False

    def take(self, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        self._point()
        self.inside = True
        if half is not None:
            self._point(half)
        try:
            return act()
        finally:
            self.inside = False
            self._point()

    def _point(self, last_act: Callable[[], Any] | None = None) -> None:
        if not self._left:
            if last_act is not None:
                last_act()
            os._exit(DIED)
        self._left -= 1


class SteppedDisk(Disk):
    """Takes ``room`` more bytes, where that is given."""

    def __init__(self, steps: Steps, room: int | None = None) -> None:
        self.steps = steps
        self.room = room

    def make_directory(self, path: Path) -> None:
        self.steps.take(lambda: super(SteppedDisk, self).make_directory(path))

    def create(self, path: Path) -> int:
        return int(self.steps.take(lambda: super(SteppedDisk, self).create(path)))

    def draft(self, path: Path) -> int:
        return int(self.steps.take(lambda: super(SteppedDisk, self).draft(path)))

    def write(self, fd: int, pieces: Sequence[bytes | memoryview], at: int) -> int:
        data = b"".join(pieces)
        return int(
            self.steps.take(
                lambda: self._write(fd, data, at),
                lambda: os.pwrite(fd, data[: len(data) * 2 // 3], at),
            )
        )

    def _write(self, fd: int, data: bytes, at: int) -> int:
        if self.room is None:
            return super().write(fd, [data], at)
        super().write(fd, [data[: self.room]], at)
        if len(data) > self.room:
            self.room = 0
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= len(data)
        return len(data)

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

    def link(self, old: Path, new: Path) -> None:
        self.steps.take(lambda: super(SteppedDisk, self).link(old, new))


def stepped_sync(steps: Steps) -> Callable[[], InlineSync]:
    class SteppedSync(InlineSync):
        def sync(self, fd: int) -> None:
            steps.take(lambda: None)

    return SteppedSync


def step_catalog(steps: Steps) -> None:
    """Every transaction of the catalog is a step, also those that make and close it."""

    def stepped(act: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: steps.take(lambda: act(*given))

    Catalog._change = stepped(Catalog._change)  # type: ignore[method-assign]
    Catalog.close = stepped(Catalog.close)  # type: ignore[method-assign]
    catalog_module.connect = stepped(catalog_module.connect)


CHANGES = ("pwritev", "pwrite", "write", "ftruncate", "fsync", "fdatasync", "unlink", "remove",
           "rename", "replace", "mkdir", "rmdir", "open", "link", "truncate")  # fmt: skip


def watch_changes(steps: Steps, directory: Path, note: Callable[[str], None]) -> None:
    """Note what changes a file of the directory outside of a step: the steps are not all then.

    The content of the lock file is for people alone, and makes no promise.
    """

    def spied(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *more: Any, **given: Any) -> Any:
            if not steps.inside and _changes(name, first, more, directory):
                note(f"{name} {first} {more}")
            return act(first, *more, **given)

        return call

    for name in CHANGES:
        setattr(os, name, spied(name, getattr(os, name)))


def _changes(name: str, first: Any, more: tuple[Any, ...], directory: Path) -> bool:
    if name == "open" and not (more and more[0] & (os.O_CREAT | os.O_TRUNC)):
        return False
    if isinstance(first, int):
        if not stat.S_ISREG(os.fstat(first).st_mode):
            return False
        path = Path(os.readlink(f"/proc/self/fd/{first}"))
    else:
        path = Path(first)
    return path.is_relative_to(directory) and path.name != "lock"
