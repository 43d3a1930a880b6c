"""Whose directory this is: the file of format, id and columns, and what can be known without it."""

from __future__ import annotations

import json
import logging
import shlex
import uuid
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.claim import Claim, ClaimNotes, read_notes
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.format.durable import NOTHING, Durable, padded
from aqueduct_core.spool.format.record import Codec
from aqueduct_core.spool.format.scan import read_head
from aqueduct_core.spool.format.segment import segment_numbers, segment_path
from aqueduct_core.spool.retention import LogPositions

if TYPE_CHECKING:
    from aqueduct_core.spool.catalog import CatalogOwner

FORMAT = 3
"""The version of everything in the directory. A newer one is refused, never guessed at.

1: without stamps, lives and what was durable at the last closing. 2: epoch, life, cursors and what
was durable stood in this file, which each owner replaced; now in `claim`. Both are read and
carried on."""

log = logging.getLogger(__name__)

IDENTITY = "spool.json"

EPOCH_LEAP = 1_000_000
"""Added to an epoch that was found in the segments: openings that wrote nothing left no trace."""


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
    cursors: Mapping[str, LogPositions] | None = None
    format: int = FORMAT

    @classmethod
    def fresh(cls, partitions: int, schema: pa.Schema) -> SpoolIdentity:
        return cls(str(uuid.uuid4()), 0, partitions, schema)

    def at(self, epoch: int) -> SpoolIdentity:
        return replace(self, epoch=epoch)

    def with_partitions(self, partitions: int) -> SpoolIdentity:
        """With at least so many partitions."""
        partitions = max(partitions, self.partitions)
        cursors = self.cursors and {
            name: padded(position, partitions, None) for name, position in self.cursors.items()
        }
        durable = self.durable.with_partitions(partitions)
        return replace(self, partitions=partitions, durable=durable, cursors=cursors)

    @property
    def notes(self) -> ClaimNotes:
        """What the next owner begins with."""
        return ClaimNotes(
            self.id, self.epoch, self.life, self.partitions, self.durable, self.cursors
        )

    def with_notes(self, notes: ClaimNotes | Claim) -> SpoolIdentity:
        """With what owners noted of themselves."""
        cursors = self.cursors if notes.cursors is None else notes.cursors
        durable = max(self.durable, notes.durable, key=lambda each: each.order)
        return replace(
            self,
            epoch=max(self.epoch, notes.epoch),
            life=notes.life,
            durable=durable,
            cursors=cursors,
        ).with_partitions(self.partitions)

    def has_written(self, last: CatalogOwner | None) -> bool:
        """Whether the owner that wrote a catalog last is that of this identity, or a later one
        (then the identity is an old copy)."""
        if last is None:
            return not self.life
        return last.spool == self.id and (self.life in ("", *last.lives) or last.epoch > self.epoch)

    def save(self, directory: Path, disk: Disk) -> None:
        """Write what never changes but for the number of partitions, unless it stands there."""
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
            Durable.from_json(content.get("durable", [0, 0, []]), partitions),
            content.get("cursors"),
            version,
        ).with_partitions(partitions)
    except (ValueError, KeyError, TypeError, pa.ArrowException):
        return None
    notes = read_notes(directory)
    if notes is None or notes.spool != identity.id:
        return identity
    return identity.with_partitions(notes.partitions).with_notes(notes)


def stored_schema(directory: Path) -> pa.Schema | None:
    """The columns of the spool in a directory, as its identity says, or where that is lost its
    newest segment; None where neither does.

    Raises:
        SpoolFailed: VERSION.
        OSError: the disk failed.
    """
    identity = load_identity(directory)
    if identity is not None:
        return identity.schema
    for number in reversed(segment_numbers(directory) if directory.is_dir() else []):
        try:
            with pa.ipc.open_stream(segment_path(directory, number)) as stream:
                return stream.schema
        except pa.ArrowException:
            continue
    return None


def find_identity(directory: Path, schema: pa.Schema | None = None) -> SpoolIdentity | None:
    """What the files of identity and owners say, and where these are lost or old copies the head
    of the newest segment; None when none can be read.

    Args:
        schema: the columns, for when the file is lost.

    Raises:
        SpoolFailed: VERSION; CORRUPT when the file of the identity is that of another spool.
    """
    identity = load_identity(directory)
    if identity is not None:
        schema = identity.schema
    if schema is None:
        return None
    if identity is None and (notes := read_notes(directory)) is not None:
        log.warning(
            "%s has lost its identity; its owner says that it is %s", directory, notes.spool
        )
        identity = SpoolIdentity(notes.spool, 0, notes.partitions, schema).with_notes(notes)
    preamble = len(Codec(schema).preamble)
    for number in reversed(segment_numbers(directory)):
        state = read_head(segment_path(directory, number), number, preamble)
        if state is None:
            continue
        epoch, partitions = state["epoch"], state["partitions"]
        if identity is None:
            log.warning("%s has lost its identity; it is %s", directory, state["id"])
            return SpoolIdentity(state["id"], epoch + EPOCH_LEAP, partitions, schema)
        if identity.id == state["id"] and identity.epoch < epoch:
            log.warning("%s has lost its owners after epoch %d", directory, identity.epoch)
            identity = identity.at(epoch + EPOCH_LEAP).with_partitions(partitions)
        if identity.id != state["id"]:
            notes = read_notes(directory)
            if notes is not None and notes.spool == state["id"]:
                raise _other_identity(directory, identity.id, notes.spool)
        break
    return identity


def _other_identity(directory: Path, theirs: str, ours: str) -> SpoolFailed:
    return SpoolFailed(
        "CORRUPT",
        f"{directory / IDENTITY} belongs to the spool {theirs}, and all else there to {ours}",
        "Bring the file back, or let the next owner make it anew:"
        f" rm {shlex.quote(str(directory / IDENTITY))}",
    )


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
