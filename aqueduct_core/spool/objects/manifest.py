"""The manifest: the one object of a spool that changes, by compare-and-swap.

It says who owns the spool, which objects hold it, and where its readers are. It stays small:
entries of segments are moved to pages, objects of `PAGE` entries each that never change, and what
changes with every group is in the groups alone.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from aqueduct_core.errors import SpoolFailed

VERSION = 1
"""Of all objects of a spool. A newer one is refused, never guessed at."""

PAGE = 256
"""Entries of a page. The manifest has up to twice as many entries of its own, some 100 bytes each,
and one for each page: 100,000 segments are 40 kB."""


class SegmentEntry(NamedTuple):
    """A segment of the groups ``first`` to ``last``, of the ``attempt`` of an owner (`ObjectNames`)
    and with its ``life`` in the records.

    From ``index_at`` on it says where its rows are, from ``state_at`` on what the state after it
    is. ``sealed``: seconds since 1970.
    """

    first: int
    last: int
    attempt: str
    life: str
    size: int
    index_at: int
    state_at: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    sealed: float


class PageEntry(NamedTuple):
    """A page with the entries of the segments of the groups ``first`` to ``last``, of an
    ``attempt``; ``size`` is that of its segments."""

    first: int
    last: int
    attempt: str
    size: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """
    nonce: random in each version: a store may give equal bytes equal tags.
    floor: the sequence number from which on the log is groups; what is below is in segments.
    window: of the owner who wrote, or will write, at ``floor``; 0 where nobody has.
    swept: below it no object of a group is left but fences.
    fences: sequence numbers from ``swept`` to ``floor`` whose objects are fences.
    starts: the earliest stored offset of each partition.
    trimmed: segments of groups up to this number are gone, also where a page has their entries.
    durable: every group up to it was stored when this was written.
    doomed: keys that nothing refers to any more and that may still be there.
    owners: to which query a cursor belongs.
    """

    spool: str
    schema: pa.Schema
    partitions: int
    epoch: int = 0
    life: str = ""
    nonce: str = ""
    floor: int = 1
    window: int = 0
    swept: int = 1
    fences: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    trimmed: int = 0
    durable: int = 0
    pages: tuple[PageEntry, ...] = ()
    segments: tuple[SegmentEntry, ...] = ()
    doomed: tuple[str, ...] = ()
    cursors: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)

    def with_partitions(self, partitions: int) -> Manifest:
        """With at least so many: those added begin empty, and no cursor reads them."""
        more = max(0, partitions - self.partitions)
        if not more:
            return self
        none: tuple[int | None, ...] = (None,) * more
        return replace(
            self,
            partitions=partitions,
            starts=(*self.starts, *[0] * (partitions - len(self.starts))),
            cursors={name: (*ends, *none) for name, ends in self.cursors.items()},
        )

    @property
    def ends(self) -> list[int]:
        """The next offset of each partition at ``floor``."""
        ends = self.segments[-1].ends if self.segments else ()
        return [*ends, *[0] * (self.partitions - len(ends))]

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        pages = sum(each.size for each in self.pages)
        return pages + sum(each.size for each in self.segments)


def encode_manifest(manifest: Manifest) -> bytes:
    fields = asdict(manifest)
    fields["schema"] = b64encode(manifest.schema.serialize().to_pybytes()).decode()
    return _sealed_json(fields)


def decode_manifest(data: bytes, key: str) -> Manifest:
    """
    Raises:
        SpoolFailed: VERSION of a newer release; CORRUPT.
    """
    fields = _opened_json(data, key)
    try:
        fields["schema"] = pa.ipc.read_schema(pa.py_buffer(b64decode(fields["schema"])))
        fields["pages"] = tuple(PageEntry(*each) for each in _frozen(fields["pages"]))
        fields["segments"] = tuple(SegmentEntry(*each) for each in _frozen(fields["segments"]))
        for name in ("fences", "starts", "doomed"):
            fields[name] = tuple(fields[name])
        fields["cursors"] = {name: tuple(ends) for name, ends in fields["cursors"].items()}
        return Manifest(**fields)
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise _corrupt(key, str(error)) from None


def encode_page(entries: Sequence[SegmentEntry]) -> bytes:
    return _sealed_json({"segments": entries})


def decode_page(data: bytes, key: str) -> tuple[SegmentEntry, ...]:
    """
    Raises:
        SpoolFailed: VERSION of a newer release; CORRUPT.
    """
    try:
        return tuple(SegmentEntry(*each) for each in _frozen(_opened_json(data, key)["segments"]))
    except (KeyError, TypeError) as error:
        raise _corrupt(key, str(error)) from None


def _sealed_json(fields: Mapping[str, Any]) -> bytes:
    text = json.dumps({"v": VERSION, **fields}, separators=(",", ":")).encode()
    return b'{"crc32":"%08x",%s' % (zlib.crc32(text), text[1:])


def _opened_json(data: bytes, key: str) -> dict[str, Any]:
    text = b"{" + data[20:]
    try:
        fields: dict[str, Any] = json.loads(data)
        if fields.pop("crc32") != f"{zlib.crc32(text):08x}":
            raise ValueError("the checksum does not match")
        version = fields.pop("v")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _corrupt(key, str(error)) from None
    if version != VERSION:
        raise SpoolFailed(
            "VERSION",
            f"{key} has format {version}, this release reads {VERSION}",
            "Use the release that wrote it, or a newer one",
        )
    return fields


def _frozen(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [[tuple(each) if isinstance(each, list) else each for each in row] for row in rows]


def _corrupt(key: str, reason: str) -> SpoolFailed:
    return SpoolFailed("CORRUPT", f"{key}: {reason}", "Bring the object back from a copy")
