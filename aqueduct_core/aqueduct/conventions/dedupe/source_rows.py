"""Rows that are known by where a source keeps them: which spool, which partition, which offset.

The channel names spool and partition (header ``source``), a message its offset (``source-offset``),
which is its logical number. A message of an ordered channel that says nothing has the offset behind
that of the message before it; on other channels every message says it. Offsets have holes where
rows were filtered, and come in any order where Spark moved them, so an intake remembers single
numbers of such a channel, not ranges (`primitives.number_set`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aqueduct_core.aqueduct.conventions.headers import (
    SOURCE,
    SOURCE_OFFSET,
    BadHeader,
    parse_decimal,
    single,
)
from aqueduct_core.engine.message_batch import Headers, MessageBatch
from aqueduct_core.primitives.ranges import Numbers

MAX_SOURCE_BYTES = 160


def source_of(headers: Headers) -> str | None:
    """What a channel's headers name as the source of its rows. Raises: BadHeader."""
    value = single(headers, SOURCE)
    if value is None:
        return None
    if not 0 < len(value) <= MAX_SOURCE_BYTES or not value.isascii() or b"\0" in value:
        raise BadHeader(f"header {SOURCE.decode()} is not 1 to {MAX_SOURCE_BYTES} ASCII characters")
    return value.decode()


def message_number(channel: Headers, number: int, headers: Headers) -> int:
    """What to ask a `Deduplicator` about: the number of a message, or its place in the source that
    its channel names. A sink tells a receiver of which it does not know that it deduplicates the
    place of each message. Raises: BadHeader.
    """
    if source_of(channel) is None:
        return number
    at = _place(headers)
    if at is None:
        raise BadHeader(f"a message has no header {SOURCE_OFFSET.decode()}")
    return parse_decimal(SOURCE_OFFSET, headers[at][1])


class RowNumbers:
    """Numbers the reliable messages of one channel, batch by batch as they arrive."""

    def __init__(self) -> None:
        self._shift: int | None = None

    def take(self, batch: MessageBatch) -> tuple[MessageBatch, Numbers]:
        """The batch without its headers that say it, and the number of each of its messages.

        Raises: BadHeader.
        """
        shifts: list[int] = []
        begins: list[int] = []
        kept: dict[int, Headers] = {}
        for index, headers in sorted(batch.headers.items()):
            at = _place(headers)
            if at is None:
                kept[index] = headers
                continue
            begins.append(index)
            shifts.append(parse_decimal(SOURCE_OFFSET, headers[at][1]) - batch.first - index)
            rest = (*headers[:at], *headers[at + 1 :])
            if rest:
                kept[index] = rest
        if not begins or begins[0] > 0:
            if self._shift is None:
                raise BadHeader(f"the first message has no header {SOURCE_OFFSET.decode()}")
            begins.insert(0, 0)
            shifts.insert(0, self._shift)
        self._shift = shifts[-1]
        lengths = np.diff([*begins, batch.count])
        wire = np.arange(batch.first, batch.first + batch.count, dtype=np.int64)
        return replace(batch, headers=kept), wire + np.repeat(np.array(shifts, np.int64), lengths)


def _place(headers: Headers) -> int | None:
    """Which of the headers says the offset."""
    return next((at for at, (key, _) in enumerate(headers) if key == SOURCE_OFFSET), None)
