"""Whose directory this is: the lock of its one owner; the file of format, id and epoch."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import uuid
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.durable import NOTHING, Durable
from aqueduct_core.spool.retention import Position
from aqueduct_core.spool.width import padded

FORMAT = 2
"""The version of everything in the directory. A newer one is refused, never guessed at.

1: without stamps, lives and what was durable at the last closing. Read and carried on."""

IDENTITY = "spool.json"
LOCK = "lock"


@dataclass(frozen=True, slots=True)
class Identity:
    """``id`` never changes; ``epoch`` is raised, durably, at each opening by an owner.

    ``life`` is random at each opening: a file that an owner of another life wrote is a copy put
    back. ``durable`` was true at some time: a lower bound that no other file has to confirm.
    ``cursors`` are those there are, each with a position that it had at some time; None where
    format 1 did not say.
    """

    id: str
    epoch: int
    partitions: int
    schema: pa.Schema
    life: str = ""
    durable: Durable = NOTHING
    cursors: Mapping[str, Position] | None = None

    @classmethod
    def fresh(cls, partitions: int, schema: pa.Schema) -> Identity:
        return cls(str(uuid.uuid4()), 0, partitions, schema)

    def at(self, epoch: int) -> Identity:
        return replace(self, epoch=epoch)

    def wide(self, partitions: int) -> Identity:
        """With at least so many logs."""
        partitions = max(partitions, self.partitions)
        cursors = self.cursors and {
            name: padded(position, partitions, None) for name, position in self.cursors.items()
        }
        durable = self.durable.wide(partitions)
        return replace(self, partitions=partitions, durable=durable, cursors=cursors)

    def opened(self, after: int) -> Identity:
        """That of the next owner, with an epoch above ``after``."""
        return replace(self, epoch=max(self.epoch, after) + 1, life=secrets.token_hex(8))

    def knowing(self, durable: Durable, cursors: Mapping[str, Position]) -> Identity:
        return replace(self, durable=durable, cursors=dict(cursors))

    def save(self, directory: Path, disk: Disk) -> None:
        content = {
            "format": FORMAT,
            "id": self.id,
            "epoch": self.epoch,
            "partitions": self.partitions,
            "life": self.life,
            "durable": self.durable,
            "cursors": self.cursors,
            "schema": b64encode(self.schema.serialize().to_pybytes()).decode(),
        }
        content["crc"] = _checksum(content)
        disk.replace(directory / IDENTITY, json.dumps(content).encode() + b"\n")


def load_identity(directory: Path) -> Identity | None:
    """What the file says; None when it is missing or damaged.

    Raises:
        SpoolFailed: VERSION when a newer release wrote it.
    """
    path = directory / IDENTITY
    try:
        content = json.loads(path.read_bytes())
        version = int(content["format"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    if version > FORMAT:
        raise SpoolFailed(
            "VERSION",
            f"{directory} has spool format {version}, this release knows up to {FORMAT}",
            "Use the release that wrote it, or a newer one",
        )
    try:
        if version > 1 and content.pop("crc") != _checksum(content):
            return None
        schema = pa.ipc.read_schema(pa.py_buffer(b64decode(content["schema"])))
        partitions = int(content["partitions"])
        return Identity(
            str(uuid.UUID(content["id"])),
            int(content["epoch"]),
            partitions,
            schema,
            str(content.get("life", "")),
            Durable.told(content.get("durable", [0, 0, []]), partitions),
            content.get("cursors"),
        ).wide(partitions)
    except (ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _checksum(content: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(content).encode())


class Lock:
    """The right to write. Held until ``release`` or the end of the process, however it ends."""

    def __init__(self, directory: Path) -> None:
        """
        Raises:
            SpoolFailed: LOCKED with the process id of the owner.
        """
        # the file stays for ever: a lock on an unlinked file would lock nobody out
        self._path = directory / LOCK
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
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

    def held(self) -> bool:
        """Whether it still locks others out: not when the file was removed, as the next owner then
        locks another one.

        Asked after a sync and before its news is told: what was on the disk before another owner
        came, that one has found.
        """
        try:
            there = os.stat(self._path)
        except OSError:
            return False
        ours = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

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
