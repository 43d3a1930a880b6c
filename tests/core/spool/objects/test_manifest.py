"""The manifest goes to bytes and back, stays small, and is refused when it is not ours."""

from __future__ import annotations

import pyarrow as pa
import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.objects.manifest import (
    PAGE,
    Manifest,
    PageEntry,
    SegmentEntry,
    decode_manifest,
    decode_page,
    encode_manifest,
    encode_page,
)

SCHEMA = pa.schema([("value", pa.binary())], metadata={"k": "v"})


def entry(first: int) -> SegmentEntry:
    return SegmentEntry(
        *(first, first + 9, "1-2", "life", 64 << 20, 60 << 20, 61 << 20),
        *((first, 0), (first + 9, 3), 1.5),
    )


MANIFEST = Manifest(
    "id",
    SCHEMA,
    2,
    epoch=7,
    life="life",
    nonce="n",
    floor=31,
    window=4,
    swept=21,
    fences=(25,),
    starts=(11, 0),
    trimmed=10,
    durable=33,
    pages=(PageEntry(1, 20, "1-1", 5, (0, 0), (20, 3)),),
    segments=(entry(21),),
    doomed=("old",),
    cursors={"query": (4, None)},
    owners={"query": "its id"},
)


def test_what_was_written_is_read() -> None:
    assert decode_manifest(encode_manifest(MANIFEST), "key") == MANIFEST
    entries = (entry(1), entry(11))
    assert decode_page(encode_page(entries), "key") == entries


def test_each_bit_counts() -> None:
    data = encode_manifest(MANIFEST)
    for at in range(0, len(data), 7):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(SpoolFailed, match="CORRUPT"):
            decode_manifest(bytes(changed), "key")
    with pytest.raises(SpoolFailed, match="CORRUPT"):
        decode_page(b"[]", "key")


def test_a_newer_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aqueduct_core.spool.objects.manifest.VERSION", 2)
    data = encode_manifest(MANIFEST)
    monkeypatch.undo()
    with pytest.raises(SpoolFailed, match="VERSION"):
        decode_manifest(data, "key")


def test_partitions_that_are_added_are_empty_and_unread() -> None:
    more = MANIFEST.with_partitions(3)
    assert more.cursors == {"query": (4, None, None)}
    assert more.ends == [30, 3, 0]
    assert more.starts == (11, 0, 0)
    assert more.with_partitions(2) is more


def test_a_hundred_thousand_segments_fit() -> None:
    """Pages of the older ones, and at most two pages of entries."""
    pages = tuple(
        PageEntry(each, each + 2559, "1-1", 16 << 30, (each, each), (each + 2559, each))
        for each in range(1, 1_000_000, 2560)
    )
    entries = tuple(entry(each) for each in range(1, 10 * 2 * PAGE, 10))
    many = Manifest("id", SCHEMA, 2, pages=pages, segments=entries)
    assert len(encode_manifest(many)) < 100_000
