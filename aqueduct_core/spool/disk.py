"""The few file operations that durability rests on, behind one port."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from aqueduct_core.primitives.atomic_file import DIRECTORY_MODE, FILE_MODE

# one writev takes at most IOV_MAX buffers (1024 on Linux)
_MAX_BUFFERS = 1024


class Disk:
    """File operations of a spool. Every error is the ``OSError`` of the system.

    A fault (no space, an I/O error, a crash) can be had by deriving from this class.
    """

    def make_directory(self, path: Path) -> None:
        """A new directory; its name is durable after ``sync_directory`` of its parent."""
        path.mkdir(DIRECTORY_MODE, exist_ok=True)

    def make_directories(self, path: Path) -> None:
        """A directory and what is missing above it, each as durable as what will be in it."""
        missing = [each for each in (path, *path.parents) if not each.exists()]
        for each in reversed(missing):
            self.make_directory(each)
            self.sync_directory(each.parent)

    def create(self, path: Path) -> int:
        """A new file to read and write; its name is durable after ``sync_directory``."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)

    def draft(self, path: Path) -> int:
        """A file to write; what it held before is gone."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)

    def write(self, fd: int, buffers: Sequence[bytes | memoryview], at: int) -> int:
        """Write all buffers from position ``at``, with one ``pwritev`` if the kernel takes all."""
        todo = [memoryview(each).cast("B") for each in buffers if len(each)]
        written = 0
        while todo:
            done = os.pwritev(fd, todo[:_MAX_BUFFERS], at + written)
            written += done
            while todo and done >= len(todo[0]):
                done -= len(todo[0])
                todo.pop(0)
            if done:
                todo[0] = todo[0][done:]
        return written

    def free(self, directory: Path) -> int:
        """Bytes that may still be written on the disk of this directory."""
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def sync_directory(self, directory: Path) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def replace(self, path: Path, content: bytes) -> None:
        """Put a small file in place at once: readers see the old one or the new one, durably."""
        fresh = path.with_name(path.name + ".new")
        fd = self.draft(fresh)
        try:
            self.write(fd, [content], 0)
            self.sync(fd)
        except OSError:
            # where there is no space it would only take some more
            self.unlink(fresh)
            raise
        finally:
            os.close(fd)
        self.rename(fresh, path)
        self.sync_directory(path.parent)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        """A second name for a file; ``FileExistsError`` where it is taken, by whoever was first."""
        os.link(old, new)
