"""A disk that remembers what was synced, and what a power cut would leave of the rest."""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from aqueduct_core.spool import Disk, InlineSync

PAGE = 512


class File:
    """The content that is surely on the disk, and what was done since."""

    def __init__(self, content: bytes = b"") -> None:
        self.durable = content
        self.since: list[tuple[int, bytes | None]] = []

    def sync(self) -> None:
        self.durable = self.after(lambda: True)
        self.since.clear()

    def after(self, kept: Callable[[], bool]) -> bytes:
        """The content with those pages of each write, and those truncations, that were kept."""
        found = bytearray(self.durable)
        for at, data in self.since:
            if data is None:
                if kept():
                    found[at:] = b""
                continue
            start = at
            while start < at + len(data):
                stop = min((start // PAGE + 1) * PAGE, at + len(data))
                if kept():
                    found.extend(bytes(max(0, stop - len(found))))
                    found[start:stop] = data[start - at : stop - at]
                start = stop
        return bytes(found)


Change = Callable[[dict[str, File]], None]


class PowerDisk(Disk):
    """Names and contents count once they were synced; ``watch`` is called after each operation."""

    def __init__(self, directory: Path, watch: Callable[[], None] = lambda: None) -> None:
        self.watch = watch
        self._directory = directory
        self._files: dict[int, File] = {}
        self._names: dict[str, File] = {}
        self._changes: list[Change] = []

    def create(self, path: Path) -> int:
        return self._made(super().create(path), path)

    def draft(self, path: Path) -> int:
        return self._made(super().draft(path), path)

    def _made(self, fd: int, path: Path) -> int:
        file = self._files[os.fstat(fd).st_ino] = File()
        self._change(lambda names: names.update({path.name: file}))
        return fd

    def write(self, fd: int, pieces: Sequence[bytes | memoryview], at: int) -> int:
        data = b"".join(pieces)
        written = super().write(fd, [data], at)
        self._files[os.fstat(fd).st_ino].since.append((at, data))
        self.watch()
        return written

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        self._files[os.fstat(fd).st_ino].since.append((size, None))
        self.watch()

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._change(lambda names: names.pop(path.name, None) and None)

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        self._change(lambda names: names.update({new.name: names.pop(old.name)}))

    def link(self, old: Path, new: Path) -> None:
        super().link(old, new)
        self._change(lambda names: names.update({new.name: names[old.name]}))

    def sync(self, fd: int) -> None:
        found = os.fstat(fd)
        self.watch()
        if stat.S_ISDIR(found.st_mode):
            self._names_synced()
        elif found.st_ino in self._files:
            self._files[found.st_ino].sync()
        self.watch()

    def sync_directory(self, directory: Path) -> None:
        self.watch()
        if directory == self._directory:
            self._names_synced()
        self.watch()

    def _names_synced(self) -> None:
        for change in self._changes:
            change(self._names)
        self._changes.clear()

    def _change(self, change: Change) -> None:
        self._changes.append(change)
        self.watch()

    def cut(self, target: Path, choose: random.Random) -> None:
        """What is there when the power goes now. The journal of names is in order; pages are not.
        The catalog does its own syncing, and each of its changes was durable when it was done."""
        names = dict(self._names)
        for change in self._changes[: choose.randint(0, len(self._changes))]:
            change(names)
        chance = choose.choice((0.0, 0.5, 0.9, 1.0))
        target.mkdir()
        for name, file in names.items():
            (target / name).write_bytes(file.after(lambda: choose.random() < chance))
        for path in self._directory.glob("catalog.sqlite*"):
            if path.exists():
                shutil.copy(path, target)


class LateSync(InlineSync):
    """Syncs through a power disk, and some time after it was asked to."""

    def __init__(self, disk: PowerDisk, choose: random.Random) -> None:
        super().__init__()
        self._disk = disk
        self._choose = choose
        self._asked = 0

    def sync(self, fd: int) -> None:
        self._disk.sync(fd)

    def start(self, file: int, directory: int) -> None:
        self._settle()
        super().start(file, directory)

    def request(self, group: int) -> None:
        self._asked = group
        if self._choose.random() < 0.3:
            self._settle()
        os.write(self._written, b".")

    def answered(self) -> int:
        self._settle()
        return super().answered()

    def _settle(self) -> None:
        if self._asked:
            super().request(self._asked)
            self._asked = 0
