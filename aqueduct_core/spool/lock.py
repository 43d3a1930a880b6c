"""The lock of the one owner that a spool has on a host, and who holds it."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.primitives.atomic_file import FILE_MODE

LOCK = "lock"


class SpoolLock:
    """The right to write. Held until ``release`` or the end of the process, however it ends."""

    def __init__(self, directory: Path) -> None:
        """
        Raises:
            SpoolFailed: LOCKED with the process id of the owner.
        """
        # the file stays for ever: a lock on an unlinked file would lock nobody out
        self._path = directory / LOCK
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise SpoolFailed(
                "LOCKED",
                f"{directory} is in use by process {holder}",
                "Stop that process, or give this one another directory",
            ) from None
        # for people, and it need not fit on a full disk
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        os.ftruncate(self._fd, 0)
        os.close(self._fd)


def holder(directory: Path) -> int | None:
    """The process that owns the spool at this moment, as far as this host can see; None: nobody.

    Looks at the locks of the kernel where it shows them, so that no owner is ever in the way.
    """
    try:
        fd = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        written = os.pread(fd, 32, 0).decode(errors="replace").strip()
        if not written.isdigit():
            return None
        pid, inode = int(written), os.fstat(fd).st_ino
        try:
            locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        except OSError:
            return pid if _locked(fd) else None
        held = any(
            len(lock) > 5 and lock[1] == "FLOCK" and lock[5].rpartition(":")[2] == str(inode)
            for lock in locks
        )
        return pid if held else None
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False
