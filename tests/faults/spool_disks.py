"""Disks that run full or fail: real ones where this user may mount, else limits of the system."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.waiting import LONG

MIB = 1 << 20


@dataclass(frozen=True)
class Small:
    """A directory on a disk that is nearly full; ``free`` gives it space again."""

    directory: Path
    fill: Callable[[int], None]
    free: Callable[[], None]


def run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=LONG)


@contextmanager
def mounted(where: Path, *given: str | Path) -> Iterator[Path]:
    where.mkdir()
    run("mount", *given, where)
    try:
        yield where
    finally:
        # mapped segments may still be referred to: it goes with the last of them
        run("umount", "--lazy", where)


@cache
def may_mount() -> bool:
    """Whether this user may mount here; a container may be root and yet not allowed to."""
    if os.geteuid() or not shutil.which("mkfs.ext4"):
        return False
    place = Path("/tmp") / f"aqueduct-mount-{os.getpid()}"
    try:
        with mounted(place, "-t", "tmpfs", "-o", "size=8m", "none"):
            image = ext4_image(place / "image", 4 * MIB)
            with mounted(place / "disk", "-o", "loop", image):
                return True
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        shutil.rmtree(place, ignore_errors=True)


def ext4_image(path: Path, size: int, *options: str) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    run("mkfs.ext4", "-q", "-F", *options, path)
    return path


class Ballast:
    """A file that takes the space of a disk but for what is left."""

    def __init__(self, disk: Path) -> None:
        self._file = disk / "ballast"

    def fill(self, left: int) -> None:
        with self._file.open("ab") as file:
            for piece in (64 * 1024, 4096, 512):
                while True:
                    found = os.statvfs(self._file.parent)
                    if found.f_bavail * found.f_frsize < left + piece:
                        break
                    try:
                        file.write(bytes(piece))
                        file.flush()
                        os.fsync(file.fileno())
                    except OSError:
                        break

    def free(self) -> None:
        self._file.unlink()


@contextmanager
def tmpfs(tmp_path: Path) -> Iterator[Small]:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=4m", "none") as disk:
        ballast = Ballast(disk)
        yield Small(disk / "spool", ballast.fill, ballast.free)


@contextmanager
def ext4(tmp_path: Path) -> Iterator[Small]:
    image = ext4_image(tmp_path / "image", 8 * MIB, "-m", "0")
    with mounted(tmp_path / "disk", "-o", "loop", image) as disk:
        ballast = Ballast(disk)
        yield Small(disk / "spool", ballast.fill, ballast.free)


@contextmanager
def file_limit(tmp_path: Path) -> Iterator[Small]:
    """No file of this process may grow beyond a size: for a segment as good as a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(left: int) -> None:
        segments = (tmp_path / "spool").glob("segment-*.arrows")
        size = max((path.stat().st_size for path in segments), default=0)
        # the catalog is a file as well, and has its space
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(size + left, 256 * 1024), before[1]))

    def free() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    try:
        yield Small(tmp_path / "spool", fill, free)
    finally:
        free()


MOUNTS = {"tmpfs": tmpfs, "ext4": ext4} if may_mount() else {}
SMALL = {**MOUNTS, "file limit": file_limit}


@contextmanager
def failing(tmp_path: Path) -> Iterator[Small]:
    """A disk whose own store runs full unseen: what is written to it fails when it is synced.

    ``fill`` makes it fail, ``free`` lets it work again.
    """
    with mounted(tmp_path / "below", "-t", "tmpfs", "-o", "size=8m", "none") as below:
        image = ext4_image(below / "image", 32 * MIB, "-O", "^has_journal")
        with mounted(tmp_path / "disk", "-o", "loop", image) as disk:
            ballast = Ballast(below)
            yield Small(disk / "spool", ballast.fill, ballast.free)


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int fails(void) { const char *p = getenv("SYNC_FAILS"); return p && !access(p, F_OK); }
int fdatasync(int fd) {
    if (fails()) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
int fsync(int fd) {
    if (fails()) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(fd);
}
"""


def shim(tmp_path: Path) -> Path:
    """A library that makes every sync of a process fail while the file ``$SYNC_FAILS`` is there."""
    source, library = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    run("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
    return library
