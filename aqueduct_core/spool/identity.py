"""Whose directory this is: the lock of its one owner; the file of format, id and columns."""

from __future__ import annotations

import fcntl
import json
import os
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
from aqueduct_core.primitives.atomic_file import FILE_MODE
from aqueduct_core.spool.claim import Claim, ClaimNotes, read_notes
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.durable import NOTHING, Durable
from aqueduct_core.spool.retention import Position
from aqueduct_core.spool.width import padded

FORMAT = 3
"""The version of everything in the directory. A newer one is refused, never guessed at.

1: without stamps, lives and what was durable at the last closing. 2: epoch, life, cursors and what
was durable stood in this file, which each owner replaced; now in `claims`. Both are read and
carried on."""

IDENTITY = "spool.json"
LOCK = "lock"


@dataclass(frozen=True, slots=True)
class SpoolIdentity:
    """``id`` never changes; ``epoch`` is raised, durably, at each opening by an owner.

    ``life`` is random at each opening: a file that an owner of another life wrote is a copy put
    back. ``durable`` was true at some time: a lower bound that no other file has to confirm.
    ``cursors`` are those there are, each with a position that it had at some time; None where
    nobody says. ``format`` is that of the file it was read from.
    """

    id: str
    epoch: int
    partitions: int
    schema: pa.Schema
    life: str = ""
    durable: Durable = NOTHING
    cursors: Mapping[str, Position] | None = None
    format: int = FORMAT

    @classmethod
    def fresh(cls, partitions: int, schema: pa.Schema) -> SpoolIdentity:
        return cls(str(uuid.uuid4()), 0, partitions, schema)

    def at(self, epoch: int) -> SpoolIdentity:
        return replace(self, epoch=epoch)

    def wide(self, partitions: int) -> SpoolIdentity:
        """With at least so many logs."""
        partitions = max(partitions, self.partitions)
        cursors = self.cursors and {
            name: padded(position, partitions, None) for name, position in self.cursors.items()
        }
        durable = self.durable.wide(partitions)
        return replace(self, partitions=partitions, durable=durable, cursors=cursors)

    @property
    def notes(self) -> ClaimNotes:
        """What the next owner begins with."""
        return ClaimNotes(
            self.id, self.epoch, self.life, self.partitions, self.durable, self.cursors
        )

    def noted(self, notes: ClaimNotes | Claim) -> SpoolIdentity:
        """With what owners noted of themselves."""
        cursors = self.cursors if notes.cursors is None else notes.cursors
        durable = max(self.durable, notes.durable, key=lambda each: (each.group, each.segment))
        return replace(
            self,
            epoch=max(self.epoch, notes.epoch),
            life=notes.life,
            durable=durable,
            cursors=cursors,
        ).wide(self.partitions)

    def save(self, directory: Path, disk: Disk) -> None:
        """Write what never changes but for the number of logs, unless it stands there already."""
        content: dict[str, Any] = {
            "format": FORMAT,
            "id": self.id,
            "partitions": self.partitions,
            "schema": b64encode(self.schema.serialize().to_pybytes()).decode(),
        }
        content["crc"] = _checksum(content)
        data, path = json.dumps(content).encode() + b"\n", directory / IDENTITY
        try:
            if path.read_bytes() == data:
                return
        except FileNotFoundError:
            pass
        disk.replace(path, data)


def load_identity(directory: Path) -> SpoolIdentity | None:
    """What the file and the notes of owners say; None when the file is missing or damaged.

    Raises:
        SpoolFailed: VERSION when a newer release wrote it.
        OSError: the disk failed.
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
        identity = SpoolIdentity(
            str(uuid.UUID(content["id"])),
            int(content.get("epoch", 0)),
            partitions,
            schema,
            str(content.get("life", "")),
            Durable.told(content.get("durable", [0, 0, []]), partitions),
            content.get("cursors"),
            version,
        ).wide(partitions)
    except (ValueError, KeyError, TypeError, pa.ArrowException):
        return None
    notes = read_notes(directory)
    if notes is None or notes.spool != identity.id:
        return identity
    return identity.wide(notes.partitions).noted(notes)


def spool_in(directory: Path) -> str | None:
    """The id of the spool in a directory, as its identity says, or the notes of its owners; None
    where neither is to be seen.

    Raises:
        OSError: the disk failed.
    """
    try:
        content = json.loads((directory / IDENTITY).read_bytes())
        return str(uuid.UUID(content["id"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        pass  # it may be had from the notes
    try:
        notes = read_notes(directory)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if notes is None else notes.spool


def _checksum(content: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(content).encode())


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
