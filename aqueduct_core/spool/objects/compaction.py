"""Many small objects become one, and what nobody needs is deleted. Pure: yields operations.

A range of the log is *sealed*: its groups are read back and stored as one segment, partition by
partition, small batches joined. Then the manifest's floor moves behind them, and only then are they
deleted. *Trimming* takes the oldest segments out of the manifest first, and deletes them then. So
whatever breaks off leaves objects that nothing refers to, and never a reference to nothing: what is
still to be deleted stands in the manifest (``swept``, ``doomed``), and is deleted by whoever comes.
So does what is about to be made: it is doomed until something refers to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.format.record import Codec, Damaged
from aqueduct_core.spool.locations import coalesced
from aqueduct_core.spool.objects.group import LogObject, records_in
from aqueduct_core.spool.objects.manifest import (
    PAGE,
    Manifest,
    PageEntry,
    SegmentEntry,
    decode_page,
    encode_page,
)
from aqueduct_core.spool.objects.names import ObjectNames
from aqueduct_core.spool.objects.steps import answers, create, get
from aqueduct_core.spool.objects.store import DeleteObject, GetObject, ObjectFound, Steps
from aqueduct_core.spool.retention import Cursors, passed

PARALLEL = 16
"""Objects that are read, or deleted, at once."""


@dataclass(frozen=True, slots=True)
class SealedRange:
    """What is to become a segment: all that stands in the log from the floor to before ``floor``.

    ``state`` is that of a head (`record`) at ``floor``, ``window`` that of the owner there;
    ``ends`` are the next offsets.
    """

    objects: tuple[LogObject, ...]
    floor: int
    window: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    state: Mapping[str, Any]

    def key(self, names: ObjectNames, attempt: str) -> str:
        """Of the segment."""
        return names.segment(self.objects[0].sequence, self.floor - 1, attempt)

    @property
    def fences(self) -> list[int]:
        return [each.sequence for each in self.objects if each.fence is not None]


def store_segment(
    names: ObjectNames, codec: Codec, each: SealedRange, attempt: str, life: str, now: float
) -> Steps[SegmentEntry]:
    """Read the groups of a range back and store their segment, which nothing refers to yet.

    Raises:
        SpoolFailed: CORRUPT, FORBIDDEN; LOCKED when a group is gone, as only an owner deletes.
    """
    groups = [group for group in each.objects if group.fence is None]
    contents: list[bytes] = []
    for i in range(0, len(groups), PARALLEL):
        keys = [names.group(group.sequence) for group in groups[i : i + PARALLEL]]
        for key, found in zip(
            keys, (yield from answers([GetObject(k) for k in keys])), strict=True
        ):
            if not isinstance(found, ObjectFound):
                raise SpoolFailed("LOCKED", f"{key} is gone", "Another owner has the spool by now")
            contents.append(found.data)
    first, last = each.objects[0].sequence, each.floor - 1
    key = each.key(names, attempt)
    try:
        data, index_at, state_at = segment_data(codec, first, life, groups, contents, each)
    except (Damaged, pa.ArrowException) as error:
        raise SpoolFailed("CORRUPT", f"{key} cannot be made: {error}", "Check the store") from None
    yield from create(key, data)
    return SegmentEntry(
        first, last, attempt, life, len(data), index_at, state_at, each.starts, each.ends, now
    )


def segment_data(
    codec: Codec,
    first: int,
    life: str,
    groups: Sequence[LogObject],
    contents: Sequence[bytes],
    each: SealedRange,
) -> tuple[bytes, int, int]:
    """A segment, and where its index and its state begin.

    Raises:
        Damaged: a group is not whole and unchanged.
    """
    batches: list[list[pa.RecordBatch]] = [[] for _ in each.ends]
    for group, content in zip(groups, contents, strict=True):
        for record in records_in(content, group.sequence):
            message = pa.py_buffer(content)[record.at : record.end]
            batches[record.partition].append(codec.batch(message))
    pieces: list[bytes | memoryview] = [codec.preamble]
    at = len(codec.preamble)
    index: list[tuple[int, int, int, int, int]] = []
    last = each.floor - 1
    for partition, found in enumerate(batches):
        offset = each.starts[partition]
        for part, batch in enumerate(coalesced(iter(found))):
            draft = codec.rows(
                batch,
                segment=first,
                stamp=life,
                at=at,
                group=last,
                durable=last,
                part=part,
                partition=partition,
                first=offset,
                marks=(),
            )
            pieces += draft.pieces(last=False)
            index.append((partition, offset, offset + batch.num_rows, at, at + draft.size))
            offset += batch.num_rows
            at += draft.size
        if offset != each.ends[partition]:
            raise Damaged(f"partition {partition} has rows up to {offset}, not {each.ends}")
    index_at = at
    positions = [index_at]
    for state in ({"index": index}, dict(each.state)):
        head = codec.head(
            segment=first,
            stamp=life,
            group=last,
            durable=last,
            previous=(0, ""),
            state=state,
            at=positions[-1],
        )
        pieces += head.pieces(last=True)
        positions.append(positions[-1] + head.size)
    return b"".join(pieces), index_at, positions[1]


def about_to_make(manifest: Manifest, key: str) -> Manifest:
    """While it is being made: should that break off, it is deleted."""
    return replace(manifest, doomed=(*manifest.doomed, key))


def with_segment(
    names: ObjectNames, manifest: Manifest, entry: SegmentEntry, each: SealedRange
) -> Manifest:
    """With a segment in the place of a range of the log."""
    key = each.key(names, entry.attempt)
    return replace(
        manifest,
        doomed=tuple(other for other in manifest.doomed if other != key),
        floor=each.floor,
        window=each.window,
        segments=(*manifest.segments, entry),
        fences=(*manifest.fences, *each.fences),
    )


def store_page(names: ObjectNames, manifest: Manifest, attempt: str) -> Steps[PageEntry]:
    """A page of the oldest segments that the manifest has entries of.

    Raises:
        SpoolFailed: FORBIDDEN.
    """
    entries = manifest.segments[:PAGE]
    first, last = entries[0].first, entries[-1].last
    yield from create(names.page(first, last, attempt), encode_page(entries))
    size = sum(each.size for each in entries)
    return PageEntry(first, last, attempt, size, entries[0].starts, entries[-1].ends)


def with_page(names: ObjectNames, manifest: Manifest, page: PageEntry) -> Manifest:
    """With a page in the place of the entries that are in it."""
    key = names.page(page.first, page.last, page.attempt)
    return replace(
        manifest,
        doomed=tuple(other for other in manifest.doomed if other != key),
        pages=(*manifest.pages, page),
        segments=tuple(each for each in manifest.segments if each.first > page.last),
    )


def page_entries(names: ObjectNames, page: PageEntry) -> Steps[tuple[SegmentEntry, ...]]:
    """
    Raises:
        SpoolFailed: CORRUPT, also when it is gone; VERSION, FORBIDDEN.
    """
    key = names.page(page.first, page.last, page.attempt)
    found = yield from get(key)
    if found is None:
        raise SpoolFailed("CORRUPT", f"{key} is missing", "Bring the object back")
    return decode_page(found.data, key)


def oldest_entries(names: ObjectNames, manifest: Manifest) -> Steps[tuple[SegmentEntry, ...]]:
    """Those of the oldest segments: of the first page, or all that the manifest has."""
    if not manifest.pages:
        return manifest.segments
    entries = yield from page_entries(names, manifest.pages[0])
    return tuple(each for each in entries if each.last > manifest.trimmed)


def removable_entries(
    manifest: Manifest,
    entries: Sequence[SegmentEntry],
    cursors: Cursors,
    owed: int,
    sealed_before: float,
) -> list[SegmentEntry]:
    """Of the oldest entries those that may go: the newest segment never does, for the state."""
    found: list[SegmentEntry] = []
    newest = manifest.segments[-1].first if manifest.segments else 0
    for entry in entries:
        padding = [0] * (manifest.partitions - len(entry.ends))
        span = entry._replace(starts=(*entry.starts, *padding), ends=(*entry.ends, *padding))
        if entry.first >= newest or entry.sealed > sealed_before:
            break
        if not passed(span, cursors, owed):
            break
        found.append(entry)
    return found


def without_segments(
    names: ObjectNames, manifest: Manifest, gone: Sequence[SegmentEntry]
) -> Manifest:
    """Without these, the oldest ones; their objects are doomed."""
    last = gone[-1].last
    doomed = [names.segment(each.first, each.last, each.attempt) for each in gone]
    pages = []
    for page in manifest.pages:
        if page.last <= last:
            doomed.append(names.page(page.first, page.last, page.attempt))
        elif page.first <= last:
            size = page.size - sum(each.size for each in gone if each.first >= page.first)
            pages.append(page._replace(size=size, starts=gone[-1].ends))
        else:
            pages.append(page)
    return replace(
        manifest,
        starts=(*gone[-1].ends, *[0] * (manifest.partitions - len(gone[-1].ends))),
        trimmed=last,
        pages=tuple(pages),
        segments=tuple(each for each in manifest.segments if each.first > last),
        doomed=(*manifest.doomed, *doomed),
    )


def sweep(names: ObjectNames, manifest: Manifest) -> Steps[None]:
    """Delete what the manifest says is to be deleted. Fences stay (`takeover`).

    Raises:
        SpoolFailed: FORBIDDEN.
    """
    keys = _to_delete(names, manifest)
    while batch := [key for _, key in zip(range(PARALLEL), keys, strict=False)]:
        yield from answers([DeleteObject(key) for key in batch])


def swept(manifest: Manifest, done: Manifest) -> Manifest:
    """After what ``done``, an earlier version, said was deleted."""
    return replace(
        manifest,
        swept=done.floor,
        fences=tuple(each for each in manifest.fences if each >= done.floor),
        doomed=tuple(key for key in manifest.doomed if key not in set(done.doomed)),
    )


def _to_delete(names: ObjectNames, manifest: Manifest) -> Iterator[str]:
    yield from manifest.doomed
    for sequence in range(manifest.swept, manifest.floor):
        if sequence not in manifest.fences:
            yield names.group(sequence)
