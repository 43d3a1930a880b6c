"""The ledger of a bridge: producers on one side against the intake that it writes to on the other.

Everything is compared: which payloads arrived and that they are whole, and the logical numbers
under which the sink sent them. Channels are named once among all producers, since a bridge keeps
the names of channels and not those of producers.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_core.aqueduct.conventions.dedupe.numbering import BATCH_BITS, MODE_BITS, ROW_BITS
from aqueduct_core.cli.spool.places import only_place
from aqueduct_core.errors import SpoolFailed
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.primitives.ranges import RangeSet
from tests.faults.ledger import DIGITS, Entry, Verdict, numbers_of

ENTRYPOINT = "0"
SPACE_BITS = MODE_BITS + ROW_BITS
"""Numbers below that belong to one batch."""

assert BATCH_BITS + SPACE_BITS == 62


class Received:
    """What the spool of a receiving intake holds, whether it runs or not. Rows are read once and
    booked by channel, so that a look at the books costs what is new, however much there is.

    ``sizes`` has the bytes of a payload of each channel: one of another size, or with anything but
    zeros behind its number, has no number.
    """

    def __init__(self, spool: Path, sizes: dict[str, int]) -> None:
        self._spool = spool
        self._sizes = sizes
        self._ends: list[int] = []
        self._books: dict[str, Book] = {}

    @property
    def rows(self) -> int:
        """How many there are by now."""
        self._read()
        return sum(book.rows for book in self._books.values())

    def verdicts(self, entries: Iterable[Entry], *, complete: bool = True) -> list[Verdict]:
        """One line for each entry, as `tests.faults.ledger.reconcile` has it for a table.

        ``strangers`` are rows that nobody sent, that were nacked, whose payload is not whole, or
        whose logical number is not the one that the sink has to give them.
        """
        self._read()
        return [self._books.get(e.channel, Book()).verdict(e, complete) for e in entries]

    def book(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Take in rows of one partition, which are behind those of it that are known."""
        rows = rows.filter(pc.not_equal(rows["channel"], ENTRYPOINT))
        if not rows.num_rows:
            return
        good = pa.array(
            len(value) == self._sizes.get(channel, -1) and not value[DIGITS:].strip(b"\0")
            for value, channel in zip(
                rows["value"].to_pylist(), rows["channel"].to_pylist(), strict=True
            )
        )
        digits = pc.if_else(good, pc.binary_slice(rows["value"], 0, DIGITS), b"")
        numbers = numbers_of(pa.chunked_array([digits]) if isinstance(digits, pa.Array) else digits)
        names = rows["channel"].to_numpy(zero_copy_only=False)
        producers = rows["producer"].to_numpy(zero_copy_only=False)
        logical, partitions = rows["messageNum"].to_numpy(), rows["partition"].to_numpy()
        for name in pc.unique(rows["channel"]).to_pylist():
            book = self._books.setdefault(name, Book())
            for producer in set(producers[names == name]):
                of = (names == name) & (producers == producer)
                book.add(producer, int(partitions[of][0]), numbers[of], logical[of])

    def _read(self) -> None:
        try:
            place = only_place(self._spool, "this ledger")
            with place.reader() as reader:
                logs = [n for n in range(reader.partitions) if place.kind(n) == "messages"]
                self._ends = self._ends or [0] * len(logs)
                for log, start, end in zip(logs, self._ends, reader.ends(), strict=False):
                    at = start
                    for batch in reader.read(log, start, end):
                        self.book(ROWS.expand(batch, log, at, False, False))
                        at += batch.num_rows
                    self._ends[log] = at
        except SpoolFailed as error:
            if error.subclass != "IO":  # not there yet
                raise


class Book:
    """The rows of one channel: their payloads' numbers, and what was wrong as they came."""

    def __init__(self) -> None:
        self.rows = 0
        self._numbers = RangeSet()
        self._nameless = 0
        self._wrong = 0
        self._moves = 0
        self._backwards = 0
        self._last: dict[str, tuple[int, int, int]] = {}
        """Of each producer: partition, payload's number and logical number of its last row."""

    def add(
        self,
        producer: str,
        partition: int,
        numbers: np.ndarray[Any, Any],
        logical: np.ndarray[Any, Any],
    ) -> None:
        """Rows of one sequence, in the order of their offsets."""
        before, number, due = self._last.get(producer, (partition, -1, -1))
        self._moves += before != partition
        self._backwards += int(np.count_nonzero(np.diff(numbers, prepend=number) <= 0))
        self._wrong += wrong_numbers(due, logical)
        self._last[producer] = partition, int(numbers[-1]), int(logical[-1])
        self.rows += len(numbers)
        self._nameless += int(np.count_nonzero(numbers < 0))
        sorted_numbers = np.sort(numbers[numbers >= 0])
        cuts = np.flatnonzero(np.diff(sorted_numbers) > 1) + 1
        for first, stop in pairwise([0, *cuts, len(sorted_numbers)]):
            if first < stop:
                self._numbers.add(int(sorted_numbers[first]), int(sorted_numbers[stop - 1]) + 1)

    def verdict(self, entry: Entry, complete: bool) -> Verdict:
        known = self._numbers
        strangers = self._nameless + self._wrong
        strangers += sum(_count(known.within(first, stop)) for first, stop in entry.nacked)
        if complete:
            strangers += _count(known.within(entry.sent, known.stop))
        return Verdict(
            channel=entry.channel,
            mode=entry.mode,
            sent=entry.sent,
            acked=entry.acked_count,
            nacked=entry.nacked_count,
            rows=self.rows,
            lost_after_ack=sum(_count(known.missing(first, stop)) for first, stop in entry.acked),
            duplicates=self.rows - self._nameless - known.count,
            order_breaks=self._moves + (self._backwards if entry.mode == "ordered" else 0),
            strangers=strangers,
            producer=entry.producer,
        )


def _count(ranges: Iterable[tuple[int, int]]) -> int:
    return sum(stop - first for first, stop in ranges)


def wrong_numbers(last: int, stored: np.ndarray[Any, Any]) -> int:
    """How many logical numbers of one ordered sequence, in the order of their offsets and behind
    ``last`` (-1: none), are not the ones due: batch after batch, and in each from 0 on without a
    hole."""
    batch, row = stored >> SPACE_BITS, stored & ((1 << SPACE_BITS) - 1)
    last_batch, last_row = (
        (last >> SPACE_BITS, last & ((1 << SPACE_BITS) - 1)) if last >= 0 else (-1, 0)
    )
    steps = np.diff(batch, prepend=last_batch)
    at = np.arange(len(stored))
    begins = np.maximum.accumulate(np.where(steps != 0, at, -1))
    due = np.where(begins < 0, last_row + 1 + at, at - begins)
    return int(np.count_nonzero(row != due)) + int(np.count_nonzero(steps < 0))
