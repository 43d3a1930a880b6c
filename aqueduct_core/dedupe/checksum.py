"""The content of numbered messages as one number, whatever the order in which they came (pure).

Each message is mixed into 64 bits; the checksum of a set of messages is the sum of these modulo
2^64. So it is the same for any cut into runs and any interleaving, and two sets are added by adding
their sums. ``docs/protocol.md`` says exactly how a message is mixed, for other implementations.

It tells content that differs by accident, as a second run of a computation does (missed once in
2^32 times for a single message, far less for several); it is no defence against forgery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from aqueduct_core.aqueduct.codec import encode_headers
from aqueduct_core.aqueduct.news import Headers, Run

MASK = (1 << 64) - 1
"""Checksums are below 2^64."""

COPY_BYTES = 4096
"""Payloads are longer than that on average: then a view is cheaper than a copy of each."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


class Content(NamedTuple):
    """Of a set of messages: how many, and their checksum."""

    messages: int = 0
    total: int = 0

    def plus(self, other: Content) -> Content:
        """Of both sets, which have no message in common."""
        return Content(self.messages + other.messages, (self.total + other.total) & MASK)


def of_run(run: Run, low: int, high: int, first: int) -> Content:
    """The content of messages ``[low, high)`` of a run; ``first`` is the logical number of message
    ``low``."""
    ends: list[int] = run.offsets[low : high + 1].tolist()
    large = len(run.payload) > COPY_BYTES * run.count
    payload = memoryview(run.payload) if large else run.payload
    crcs = [crc32(payload[start:stop]) for start, stop in pairwise(ends)]
    if run.headers:
        for index, headers in run.headers.items():
            if low <= index < high:
                crcs[index - low] = _with_headers(crcs[index - low], headers)
    return _content(np.diff(run.offsets[low : high + 1]), crcs, first)


def of_payloads(
    payloads: Sequence[bytes], first: int, headers: Mapping[int, Headers] | None = None
) -> Content:
    """The content of messages with these payloads, numbered from ``first`` on; ``headers`` has
    those of the messages (by index) that have any."""
    crcs = [crc32(payload) for payload in payloads]
    for index, pairs in (headers or {}).items():
        crcs[index] = _with_headers(crcs[index], pairs)
    return _content(np.array([len(payload) for payload in payloads], np.int64), crcs, first)


def _with_headers(crc: int, headers: Headers) -> int:
    return crc32(encode_headers(headers), crc) if headers else crc


def _content(lengths: NDArray[np.int64], crcs: list[int], first: int) -> Content:
    """splitmix64 of ``number * _STEP + (length << 32 | crc)``, added up."""
    count = len(crcs)
    mixed = np.arange(first, first + count, dtype=np.uint64) * _STEP
    mixed += (lengths.astype(np.uint64) << np.uint64(32)) | np.array(crcs, np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    mixed ^= mixed >> np.uint64(31)
    return Content(count, int(mixed.sum(dtype=np.uint64)))
