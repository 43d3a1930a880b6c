"""Who owns a spool: one file for each life of an owner, taken by compare-and-swap.

``owner-<epoch>`` comes into being by a link to a draft: whole, and for one process only, on any
file system that has links, whether its locks hold or not. What the owner notes of its life it
writes through the descriptor that made the file, never by name. Its successor takes a higher epoch
and then removes the file, before it looks at anything else: a late owner writes to a file that has
no name any more.

A file is lines of JSON, each with a checksum (``crc``) of the others: two *slots* of a fixed size,
written in turn, with what was reported durable last (the high-water mark), and behind them *notes*,
which are appended and synced.

    id, epoch  of the spool and the owner
    durable    segment, group, ends, stamp, boot (`Durable`): true at that time, a lower bound now
    life       notes only: random for each owner
    partitions, cursors   notes only: how many, and the cursors with positions they once had

A slot is written before its group is reported, and without it none is; it is not synced: it is
there after a kill -9 of the owner, and a power cut may take the newest ones. Two slots share no
block of a disk, so a torn one leaves the other.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.format.durable import NOTHING, Durable, boot_id
from aqueduct_core.spool.health import NO_SPACE
from aqueduct_core.spool.retention import LogPositions

log = logging.getLogger(__name__)

_PREFIX = "owner-"
_DRAFT = "owner."
_BLOCK = 4096
_DIGITS = 21
"""Of an offset and its comma, at most."""

TRIES = 5
"""Times that the files are listed anew because a new owner removed one meanwhile."""


@dataclass(frozen=True, slots=True)
class ClaimNotes:
    """What the owners of a directory left of themselves.

    ``epoch`` is the newest that was taken, ``life``, ``partitions`` and ``cursors`` are of the
    newest owner whose notes can be read, ``durable`` is the most that any of them says.
    """

    spool: str
    epoch: int
    life: str
    partitions: int
    durable: Durable
    cursors: Mapping[str, LogPositions] | None


def read_notes(directory: Path) -> ClaimNotes | None:
    """The notes in a directory; None when there are none that can be read.

    Raises:
        OSError: the disk failed.
    """
    for left in reversed(range(TRIES)):
        contents: dict[int, bytes] = {}
        try:
            for epoch in sorted(taken_epochs(directory)):
                contents[epoch] = _path(directory, epoch).read_bytes()
        except FileNotFoundError:
            if left:
                continue
        return _merged(contents)
    raise AssertionError("unreachable: the last try returns")


def taken_epochs(directory: Path) -> list[int]:
    """The epochs whose files are there."""
    names = (name[len(_PREFIX) :] for name in os.listdir(directory) if name.startswith(_PREFIX))
    return [int(name) for name in names if name.isdigit()]


class Claim:
    """The right to write of one owner, until another one takes a higher epoch. Ends with `close`.

    Used by the owner's thread, but for `held`.
    """

    def __init__(self, directory: Path, disk: Disk, fd: int, notes: ClaimNotes, size: int) -> None:
        """Use `take`."""
        self.epoch = notes.epoch
        self.life = notes.life
        self.durable = notes.durable
        self.cursors = notes.cursors
        self._spool = notes.spool
        self.partitions = notes.partitions
        self._directory = directory
        self._path = _path(directory, notes.epoch)
        self._disk = disk
        self._fd = fd
        self._slot = 0
        self._behind = False
        self._end = size
        status = os.fstat(fd)
        self._file = status.st_dev, status.st_ino

    @classmethod
    def take(cls, directory: Path, disk: Disk, known: ClaimNotes, seen: Collection[int]) -> Claim:
        """Take the epoch after those that were taken and that of ``known``, and fence its owners.

        What ``known`` and they say to be durable stands in the file when this returns.

        Args:
            seen: the `taken_epochs` from before ``known`` was read. Whoever took one since may have
                made the directory another spool: it stays the owner.

        Raises:
            SpoolFailed: LOCKED when another process took that epoch, or any since.
            OSError: the disk failed.
        """
        older = taken_epochs(directory)
        if newer := set(older) - set(seen):
            raise _at_the_same_moment(directory, max(newer))
        epoch = max([known.epoch, *older]) + 1
        notes = ClaimNotes(
            known.spool,
            epoch,
            secrets.token_hex(8),
            known.partitions,
            known.durable,
            known.cursors,
        )
        slot = _line(_high_water(notes.spool, epoch, notes.durable), _slot_size(notes.partitions))
        content = slot + slot + _line(_note(notes))
        draft = directory / f"{_DRAFT}{notes.life}"
        fd = disk.create(draft)
        try:
            try:
                disk.write(fd, [content], 0)
                disk.sync(fd)
                # whether it worked is read back: a server may make the link, lose its answer, and
                # refuse the next try
                with suppress(FileExistsError, FileNotFoundError):
                    disk.link(draft, _path(directory, epoch))
            finally:
                with suppress(FileNotFoundError):
                    disk.unlink(draft)
            disk.sync_directory(directory)
            claim = cls(directory, disk, fd, notes, len(content))
            # a name is free again once a later owner has removed it, so having it is not enough;
            # who takes a higher epoch from now on finds it, and removes it
            if not claim.held() or max(taken_epochs(directory), default=0) > epoch:
                raise _at_the_same_moment(directory, epoch)
            claim._fence(older)
        except BaseException:
            os.close(fd)
            raise
        return claim

    def held(self) -> bool:
        """Whether nobody has come after us, as the name says that our file has.

        The name is opened each time, because then a file system asks its server; what ``stat``
        says may come from a cache. Thread-safe. Asked after a sync and before its outcome is
        reported: what was on the disk before a successor came, that one has found.

        Raises:
            OSError: it cannot be known.
        """
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            found = os.fstat(fd)
        finally:
            os.close(fd)
        return (found.st_dev, found.st_ino) == self._file and found.st_nlink > 0

    def lost(self) -> SpoolFailed:
        """What to tell when it is not held any more: LOCKED, or IO when nobody else came."""
        try:
            newest = max(taken_epochs(self._directory), default=0)
        except OSError:
            newest = 0
        if newest > self.epoch:
            return SpoolFailed(
                "LOCKED",
                f"{self._directory} was opened by another owner, epoch {newest} after {self.epoch}",
                "Nothing was reported since; let that owner go on, and keep the lock file in place",
            )
        return SpoolFailed(
            "IO",
            f"the spool directory {self._directory} is not as this owner left it: the file of its"
            f" epoch {self.epoch} is gone",
            "Bring the directory back, then start the owner again",
        )

    @property
    def behind(self) -> bool:
        """Whether the last `advance` found no space."""
        return self._behind

    def advance(self, durable: Durable) -> bool:
        """Write down what is about to be reported durable. Does not wait for the disk.

        False: a file system that never writes in place found no space for it. The mark before it
        stands, so it is not to be reported; the next call writes the same slot.

        Raises:
            OSError: the disk failed otherwise; the same holds.
        """
        size = _slot_size(self.partitions)
        durable = durable._replace(boot=boot_id())
        line = _line(_high_water(self._spool, self.epoch, durable), size)
        try:
            self._disk.write(self._fd, [line], self._slot * size)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            if not self._behind:
                log.warning("%s: no space to note what is durable", self._directory)
            self._behind = True
            return False
        self._slot = 1 - self._slot
        self._behind = False
        self.durable = durable
        return True

    def note(self, durable: Durable, cursors: Mapping[str, LogPositions]) -> None:
        """Note what is durable and which cursors there are; on the disk when this returns.

        Raises:
            OSError: the disk failed; the note before it stands.
        """
        notes = ClaimNotes(
            self._spool, self.epoch, self.life, self.partitions, durable, dict(cursors)
        )
        line = _line(_note(notes))
        self._disk.write(self._fd, [line], self._end)
        self._disk.sync(self._fd)
        self._end += len(line)
        self.durable, self.cursors = durable, notes.cursors

    def close(self) -> None:
        os.close(self._fd)

    def _fence(self, older: Iterable[int]) -> None:
        """Take their names from the owners before us, then take over what they said until then."""
        files = []
        try:
            for epoch in older:
                with suppress(FileNotFoundError):
                    path = _path(self._directory, epoch)
                    files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                    self._disk.unlink(path)
            for name in os.listdir(self._directory):
                if name.startswith(_DRAFT):
                    with suppress(FileNotFoundError):
                        self._disk.unlink(self._directory / name)
            self._disk.sync_directory(self._directory)
            for fd in files:
                left = _merged({0: os.pread(fd, os.fstat(fd).st_size, 0)})
                if left is None or left.spool != self._spool:
                    continue
                if left.durable.group > self.durable.group:
                    self.note(left.durable.with_partitions(self.partitions), self.cursors or {})
        finally:
            for fd in files:
                os.close(fd)


def _at_the_same_moment(directory: Path, epoch: int) -> SpoolFailed:
    return SpoolFailed(
        "LOCKED",
        f"{directory} was opened by another process at the same moment, epoch {epoch}",
        "Let that process go on, or stop it and try again",
    )


def _path(directory: Path, epoch: int) -> Path:
    return directory / f"{_PREFIX}{epoch:012d}"


def _slot_size(partitions: int) -> int:
    return -(-(256 + _DIGITS * partitions) // _BLOCK) * _BLOCK


def _high_water(spool: str, epoch: int, durable: Durable) -> dict[str, Any]:
    return {"id": spool, "epoch": epoch, "durable": durable}


def _note(notes: ClaimNotes) -> dict[str, Any]:
    return _high_water(notes.spool, notes.epoch, notes.durable) | {
        "life": notes.life,
        "partitions": notes.partitions,
        "cursors": notes.cursors,
    }


def _line(content: dict[str, Any], size: int = 0) -> bytes:
    """With its checksum, and filled up with blanks."""
    text = json.dumps(content, separators=(",", ":"))
    line = b'{"crc":%d,%s' % (zlib.crc32(text.encode()), text[1:].encode())
    return line.ljust(size - 1) + b"\n"


def _lines(data: bytes) -> Iterable[dict[str, Any]]:
    for line in data.split(b"\n"):
        try:
            content = json.loads(line)
            crc = content.pop("crc")
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
            continue
        if crc == zlib.crc32(json.dumps(content, separators=(",", ":")).encode()):
            yield content


def _merged(contents: Mapping[int, bytes]) -> ClaimNotes | None:
    lines = [(epoch, line) for epoch in sorted(contents) for line in _lines(contents[epoch])]
    notes = [line for _, line in lines if "life" in line]
    if not lines:
        return None
    last = notes[-1] if notes else {}
    spool = str(lines[-1][1]["id"])
    partitions = max(
        [int(last.get("partitions", 0)), *(len(line["durable"][2]) for _, line in lines)]
    )
    said = [
        Durable.from_json(line["durable"], partitions) for _, line in lines if line["id"] == spool
    ]
    durable = max(said, key=lambda each: each.order, default=NOTHING)
    return ClaimNotes(
        spool,
        max(contents),
        str(last.get("life", "")),
        partitions,
        durable,
        last.get("cursors"),
    )
