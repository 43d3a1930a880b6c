"""A log that its writers rotate by size: several processes, each of which may die at any moment."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path


def older(path: Path) -> Path:
    """Where the log that was put aside is: one, which the next one replaces."""
    return path.with_name(path.name + ".1")


def is_log_at(path: Path, descriptor: int) -> bool:
    """Whether a process writes to the log at ``path``, or to the one that was put aside meanwhile:
    it was started with that."""
    own = os.fstat(descriptor)
    return _is_at(path, own) or _is_at(older(path), own)


def rotate(path: Path, descriptor: int, limit: int) -> None:
    """Where ``descriptor`` appends to a file of ``limit`` bytes or more that is, or was, at
    ``path``: put that file aside and go on in a new one, under the same descriptor.

    To be called before each write. Processes that share a log need not know of each other: who
    finds that the file at ``path`` is not its own any more goes on in that one and puts nothing
    aside. So no line is in a file that was replaced but the oldest, and one that is killed between
    two steps leaves a name without a file, which the next one makes. A descriptor that is no
    regular file, such as a terminal, is left alone.

    Raises:
        OSError: the disk failed; the descriptor is as it was.
    """
    own = os.fstat(descriptor)
    if own.st_size < limit or not stat.S_ISREG(own.st_mode):
        return
    lock = _open(path)
    try:
        # Of the file that is looked at; the lock of who is killed goes with it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_at(path, own):
            path.rename(older(path))
    finally:
        os.close(lock)
    fresh = _open(path)
    try:
        os.dup2(fresh, descriptor)
    finally:
        os.close(fresh)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def _is_at(path: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), file)
    except FileNotFoundError:
        return False
