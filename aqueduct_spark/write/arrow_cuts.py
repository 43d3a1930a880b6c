"""Where the messages of ``payloadFormat=arrow`` begin and end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aqueduct_core.primitives.ranges import Numbers
from aqueduct_core.spool.arrays import numeric_array
from aqueduct_spark.write.arrow_payloads import Sizes, arrow_messages, payload_rows, row_sizes
from aqueduct_spark.write.batches import Destination

MESSAGE_ROWS = 8192
"""Rows of a message at most."""

MESSAGE_BYTES = 4 * 1024 * 1024
"""Bytes of values of a message at most, so that one is sent, stored and read at ease; a row that
has more goes alone."""

HELD_BYTES = 32 * 1024 * 1024
"""Of rows whose messages are not full. Where there are more, as with very many channels, all of
them are sent as they are, at the row that was too many."""

Destinations = Callable[[pa.RecordBatch], Iterator[tuple[Destination, Numbers | None]]]
"""Each destination with the places of its rows; None: all rows go there."""


class Cut(NamedTuple):
    """A message: the places of its rows in a table, in order. ``full``: it takes no more."""

    destination: Destination
    rows: Numbers
    full: bool


class ArrowMessage(NamedTuple):
    """``row`` is the place of its first row among all rows of the task."""

    destination: Destination
    row: int
    payload: bytes


class ArrowCutter:
    """Makes messages of the rows of one task, whatever the sizes of the batches they come in.

    A message takes the rows of its destination in their order, until it has ``MESSAGE_ROWS`` or
    the next one would make it larger than ``MESSAGE_BYTES``. Both are counted in rows and their
    values, so it follows from the rows alone. Holds at most ``HELD_BYTES`` of values, and rows
    that it has not looked at: a batch, or a quarter of that. Columns ``besides`` are not sent.
    """

    def __init__(
        self, destinations: Destinations, max_message_bytes: int, besides: Collection[str] = ()
    ) -> None:
        self._destinations = destinations
        self._besides = besides
        self._most = max_message_bytes
        self._batches: list[pa.RecordBatch] = []
        self._places: Numbers = np.zeros(0, np.int64)  # of the rows that were looked at
        self._unseen = 0
        self._unseen_bytes = 0
        self._next = 0

    def push(self, batch: pa.RecordBatch) -> Iterator[ArrowMessage]:
        """Take a batch. Raises: SinkFailed: MESSAGE_TOO_LARGE for a row over the limit."""
        self._batches.append(batch)
        self._unseen += batch.num_rows
        self._unseen_bytes += batch.nbytes
        if (
            self._unseen >= max(MESSAGE_ROWS, len(self._places) // 4)
            or self._unseen_bytes >= HELD_BYTES // 4
        ):
            yield from self._cut(last=False)

    def rest(self) -> Iterator[ArrowMessage]:
        """No more rows come. Raises: as `push`."""
        if self._batches:
            yield from self._cut(last=True)

    def _cut(self, *, last: bool) -> Iterator[ArrowMessage]:
        [rows] = pa.Table.from_batches(self._batches).combine_chunks().to_batches()
        seen = np.arange(self._next, self._next + self._unseen)
        places = np.concatenate((self._places, seen))
        self._next += self._unseen
        self._unseen = self._unseen_bytes = 0
        sizes = row_sizes(payload_rows(rows, self._besides))
        while True:
            cuts = list(self._cuts(rows, sizes))
            stop = too_many(cuts, sizes)
            if stop is None:
                break
            cuts = list(self._cuts(rows.slice(0, stop), sizes[:stop]))
            yield from self._messages(rows, places, cuts)
            rows, sizes, places = rows.slice(stop), sizes[stop:], places[stop:]
        yield from self._messages(rows, places, [cut for cut in cuts if last or cut.full])
        left = [cut.rows for cut in cuts if not (last or cut.full)]
        kept = np.sort(np.concatenate(left)) if left else np.zeros(0, np.int64)
        self._batches = [rows.take(numeric_array(kept))] if left else []
        self._places = places[kept]

    def _cuts(self, rows: pa.RecordBatch, sizes: Sizes) -> Iterator[Cut]:
        """The messages that these rows are, those of a destination in order."""
        if not rows.num_rows:
            return
        wanted = min(MESSAGE_BYTES, self._most)
        for destination, found in self._destinations(rows):
            chosen = np.arange(rows.num_rows) if found is None else found
            ends = np.cumsum(sizes[chosen])
            first, before = 0, 0
            while first < len(chosen):
                stop = int(np.searchsorted(ends, before + wanted, side="right"))
                stop = min(max(stop, first + 1), first + MESSAGE_ROWS)
                full = stop < len(chosen) or stop == first + MESSAGE_ROWS
                yield Cut(destination, chosen[first:stop], full)
                first, before = stop, int(ends[stop - 1])

    def _messages(
        self, rows: pa.RecordBatch, places: Numbers, cuts: list[Cut]
    ) -> Iterator[ArrowMessage]:
        payload = payload_rows(rows, self._besides)
        for cut in cuts:
            for first, message in arrow_messages(payload.take(numeric_array(cut.rows)), self._most):
                yield ArrowMessage(cut.destination, int(places[cut.rows[first]]), message)


def too_many(cuts: list[Cut], sizes: Sizes) -> int | None:
    """How many rows may be taken until more than ``HELD_BYTES`` would be held, where each message
    goes as soon as it is full; None: all of them."""
    if sizes.sum() <= HELD_BYTES:
        return None
    held = sizes.copy()
    for cut, following in zip(cuts, [*cuts[1:], None], strict=True):
        if len(cut.rows) == MESSAGE_ROWS:
            held[cut.rows[-1]] -= sizes[cut.rows].sum()
        elif cut.full and following is not None:  # the next row of its destination found no room
            held[following.rows[0]] -= sizes[cut.rows].sum()
    over = np.flatnonzero(np.cumsum(held) > HELD_BYTES)
    return max(1, int(over[0])) if len(over) else None
