"""The content of numbered messages as one number, whatever the order in which they came (pure).

Each message is mixed into 64 bits; the checksum of a set of messages is the sum of these modulo
2^64. So it is the same for any cut into batches and any interleaving, and two sets are added by
adding their sums. ``docs/protocol.md`` says exactly how a message is mixed, for those who write
another implementation.

It tells content that differs by accident, as a second run of a computation does (missed once in
2^32 times for a single message, far less for several); it is no defence against forgery.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from aqueduct_core.engine.header_column import HeaderColumn, encode_pairs
from aqueduct_core.engine.message_batch import Headers, MessageBatch
from aqueduct_core.primitives.cursor import encode_varbytes

MASK = (1 << 64) - 1
"""Checksums are below 2^64."""

COPY_BYTES = 4096
"""Payloads are longer than that on average: then a view is cheaper than a copy of each."""

EQUAL = 16
"""So many messages in a row are looked at whether they have one length, which is quicker."""

SINGLY = 6
"""So few messages are mixed one by one, which is quicker than columns of them."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


Checks = NDArray[np.uint32]
"""Of messages in a row: a CRC-32 of the content of each, whatever its number."""

UNKNOWN = 0xFFFF_FFFF
"""Stands for a message whose content is not known; so one content in 2^32 is not."""


class Content(NamedTuple):
    """Of a set of messages: how many, and their checksum."""

    messages: int = 0
    total: int = 0

    def plus(self, other: Content) -> Content:
        """Of both sets, which have no message in common."""
        return Content(self.messages + other.messages, (self.total + other.total) & MASK)

    def minus(self, other: Content) -> Content:
        """Without the other set, which is part of this one."""
        return Content(self.messages - other.messages, (self.total - other.total) & MASK)


class BatchPart(NamedTuple):
    """Messages ``[low, high)`` of a batch, at least one; ``first`` is the logical number of the
    first of them."""

    batch: MessageBatch
    low: int
    high: int
    first: int


def of_batches(parts: Sequence[BatchPart]) -> tuple[list[Content], Checks]:
    """The content of each part, and the checks of all messages; many parts at once cost little more
    than their messages."""
    if not parts:
        return [], np.empty(0, np.uint32)
    crcs: list[int] = []
    for part in parts:
        crcs += _crcs(part)
    checks = np.array(crcs, np.uint32)
    if len(crcs) <= SINGLY:
        return _singly(parts, crcs), checks
    counts = np.array([part.high - part.low for part in parts], np.int64)
    stops = np.cumsum(counts)
    starts = stops - counts
    ends = np.concatenate([part.batch.offsets[part.low : part.high + 1] for part in parts])
    lengths = np.delete(np.diff(ends), (stops + np.arange(len(parts)))[:-1])
    firsts = np.array([part.first for part in parts], np.int64)
    numbers = np.repeat(firsts - starts, counts) + np.arange(stops[-1], dtype=np.int64)
    totals = np.add.reduceat(_mixed(numbers, lengths, checks), starts)
    return [*map(Content, counts.tolist(), totals.tolist())], checks


def of_payloads(
    payloads: Sequence[bytes], first: int, headers: HeaderColumn | None = None
) -> Content:
    """The content of messages with these payloads and headers, numbered from ``first`` on."""
    crcs = list(map(crc32, payloads))
    if headers is not None:
        regions = headers.regions
        for index in headers.indexes():
            crcs[index] = crc32(regions[index], crcs[index])
    lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
    numbers = np.arange(first, first + len(payloads), dtype=np.int64)
    mixed = _mixed(numbers, lengths, np.array(crcs, np.uint32))
    return Content(len(payloads), int(mixed.sum(dtype=np.uint64)))


def _crcs(part: BatchPart) -> list[int]:
    batch, low, high, _ = part
    ends: list[int] = batch.offsets[low : high + 1].tolist()
    start, stop, size = ends[0], ends[-1], ends[1] - ends[0]
    large = len(batch.payload) > COPY_BYTES * batch.count
    if not large and high - low >= EQUAL and size and ends == list(range(start, stop + 1, size)):
        column = np.frombuffer(batch.payload, f"V{size}", high - low, start)
        crcs = list(map(crc32, column.tolist()))
    else:
        payload = memoryview(batch.payload) if large else batch.payload
        crcs = [crc32(payload[begin:end]) for begin, end in pairwise(ends)]
    for index, headers in batch.headers.items():
        if low <= index < high:
            crcs[index - low] = _with_headers(crcs[index - low], headers)
    for index in batch.absent:
        if low <= index < high:
            crcs[index - low] = UNKNOWN
    return crcs


def _with_headers(crc: int, headers: Headers) -> int:
    if not headers:
        return crc
    return crc32(encode_varbytes(encode_pairs(headers)), crc)


def _singly(parts: Sequence[BatchPart], crcs: list[int]) -> list[Content]:
    """The content of each part, as of `_mixed`."""
    left = iter(crcs)
    contents = []
    for batch, low, high, first in parts:
        ends: list[int] = batch.offsets[low : high + 1].tolist()
        total = 0
        for number, (begin, end) in enumerate(pairwise(ends), first):
            mixed = (number * int(_STEP) + (end - begin << 32 | next(left))) & MASK
            mixed = (mixed ^ mixed >> 30) * int(_FIRST) & MASK
            mixed = (mixed ^ mixed >> 27) * int(_SECOND) & MASK
            total += mixed ^ mixed >> 31
        contents.append(Content(high - low, total & MASK))
    return contents


def _mixed(
    numbers: NDArray[np.int64], lengths: NDArray[np.int64], checks: Checks
) -> NDArray[np.uint64]:
    """splitmix64 of ``number * _STEP + (length << 32 | check)``, for each message."""
    mixed = numbers.astype(np.uint64) * _STEP
    mixed += (lengths.astype(np.uint64) << np.uint64(32)) | checks
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))
