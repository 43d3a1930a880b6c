"""The ledger of a bridge: producers on one side against the intake that it writes to on the other.

Everything is compared: which payloads arrived and that they are whole, and the logical numbers
under which the sink sent them. Channels are named once among all producers, since a bridge keeps
the names of channels and not those of producers.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_core.cli.spool_places import only_place
from aqueduct_core.dedupe.numbering import BATCH_BITS, MODE_BITS, ROW_BITS
from aqueduct_core.errors import SpoolFailed
from aqueduct_core.intake.schema import expand
from tests.faults.ledger import DIGITS, Entry, Verdict, members, numbers_of

SCHEMA = pa.schema(
    {
        "value": pa.binary(),
        "channel": pa.string(),
        "producer": pa.string(),
        "messageNum": pa.int64(),
        "partition": pa.int32(),
        "offset": pa.int64(),
    }
)
ENTRYPOINT = "0"
SPACE_BITS = MODE_BITS + ROW_BITS
"""Numbers below that belong to one batch."""

assert BATCH_BITS + SPACE_BITS == 62


class ReceiverTable:
    """What the spool of a receiving intake holds, whether it runs or not; rows are read once, and
    of payloads only the numbers at their front are kept.

    ``sizes`` has the bytes of a payload of each channel: one of another size, or with anything but
    zeros behind its number, has no number.
    """

    def __init__(self, spool: Path, sizes: dict[str, int]) -> None:
        self._spool = spool
        self._sizes = sizes
        self._ends: list[int] = []
        self._parts = SCHEMA.empty_table()

    def read(self) -> pa.Table:
        try:
            place = only_place(self._spool, "this ledger")
            with place.reader() as reader:
                logs = [n for n in range(reader.partitions) if place.kind(n) == "messages"]
                self._ends = self._ends or [0] * len(logs)
                for log, start, end in zip(logs, self._ends, reader.ends(), strict=False):
                    at = start
                    for batch in reader.read(log, start, end):
                        self._keep(expand(batch, log, at, False, False))
                        at += batch.num_rows
                    self._ends[log] = at
        except SpoolFailed as error:
            if error.subclass != "IO":  # not there yet
                raise
        return self._parts

    def _keep(self, rows: pa.RecordBatch) -> None:
        rows = rows.filter(pc.not_equal(rows["channel"], ENTRYPOINT)).select(SCHEMA.names)
        if not rows.num_rows:
            return
        good = pa.array(
            len(value) == self._sizes.get(channel, -1) and not value[DIGITS:].strip(b"\0")
            for value, channel in zip(
                rows["value"].to_pylist(), rows["channel"].to_pylist(), strict=True
            )
        )
        numbers = pc.if_else(good, pc.binary_slice(rows["value"], 0, DIGITS), b"")
        kept = rows.set_column(0, SCHEMA.field("value"), numbers)
        self._parts = pa.concat_tables([self._parts, pa.Table.from_batches([kept], SCHEMA)])
        if self._parts["offset"].num_chunks > 500:
            self._parts = self._parts.combine_chunks()


def reconcile(table: pa.Table, entries: Iterable[Entry], *, complete: bool = True) -> list[Verdict]:
    """One line for each entry, as `tests.faults.ledger.reconcile` has it for a table.

    ``strangers`` are rows that nobody sent, that were nacked, whose payload is not whole, or whose
    logical number is not the one that the sink has to give them.
    """
    return [_verdict(table, entry, complete) for entry in entries]


def _verdict(table: pa.Table, entry: Entry, complete: bool) -> Verdict:
    mine = table.filter(pc.equal(table["channel"], entry.channel))
    numbers = numbers_of(mine["value"])
    known = np.unique(numbers)
    strange = (numbers < 0) | np.isin(numbers, members(entry.nacked))
    if complete:
        strange |= numbers >= entry.sent
    wrong = breaks = 0
    for producer in pc.unique(mine["producer"]).to_pylist():
        of = pc.equal(mine["producer"], producer).to_numpy()
        part = mine.filter(pa.array(of))
        order = np.argsort(part["offset"].to_numpy(), kind="stable")
        breaks += len(pc.unique(part["partition"])) - 1
        wrong += wrong_numbers(part["messageNum"].to_numpy()[order])
        if entry.mode == "ordered":
            breaks += int(np.count_nonzero(np.diff(numbers[of][order]) <= 0))
    return Verdict(
        channel=entry.channel,
        mode=entry.mode,
        sent=entry.sent,
        acked=entry.acked_count,
        nacked=entry.nacked_count,
        rows=len(numbers),
        lost_after_ack=int(np.count_nonzero(~np.isin(members(entry.acked), known))),
        duplicates=len(numbers) - len(known),
        order_breaks=breaks,
        strangers=int(np.count_nonzero(strange)) + wrong,
        producer=entry.producer,
    )


def wrong_numbers(stored: np.ndarray[Any, Any]) -> int:
    """How many logical numbers of one ordered sequence, in the order of their offsets, are not the
    ones due: batch after batch, and in each from 0 on without a hole."""
    batch, row = stored >> SPACE_BITS, stored & ((1 << SPACE_BITS) - 1)
    begins = np.diff(batch, prepend=-1) != 0
    due = np.arange(len(stored)) - np.maximum.accumulate(
        np.where(begins, np.arange(len(stored)), 0)
    )
    return int(np.count_nonzero(row != due)) + int(np.count_nonzero(np.diff(batch) < 0))
