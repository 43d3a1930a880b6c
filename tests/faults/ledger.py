"""The conservation ledger of the fault tests: producers against everything that was stored.

Each payload begins with its number on the channel, twelve digits, counted over all connections by
the producer itself. So rows are matched by what the producer wrote, whatever the connector made of
message numbers; for reliable channels both have to agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_jobs.demo.ledger import Line, total

DIGITS = 12
COLUMNS = ("value", "channel", "producer", "messageNum", "reliable", "partition", "offset")

Ranges = tuple[tuple[int, int], ...]


def payload(number: int, size: int = DIGITS) -> bytes:
    return b"%0*d" % (DIGITS, number) + bytes(max(0, size - DIGITS))


@dataclass(frozen=True)
class Entry:
    """What a producer knows of one channel; ranges are of payload numbers.

    ``sent`` = acked + nacked + unknown + pending; ``unknown``: sent on a connection that was lost
    before the answer came, unreliable only.
    """

    channel: str
    mode: str
    producer: str
    sent: int
    acked: Ranges
    nacked: Ranges = ()
    unknown: int = 0
    resent: int = 0
    reconnects: int = 0

    @property
    def acked_count(self) -> int:
        return sum(stop - first for first, stop in self.acked)

    @property
    def nacked_count(self) -> int:
        return sum(stop - first for first, stop in self.nacked)

    @property
    def settled(self) -> bool:
        """Whether every message has its outcome."""
        return self.sent == self.acked_count + self.nacked_count + self.unknown

    @classmethod
    def load(cls, path: Path) -> Entry:
        """From a file that `aqueduct_jobs.demo.ledger.LedgerFile` wrote."""
        return cls.from_json(json.loads(path.read_text()))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Entry:
        acked = [*data["acked_reliable"], *data["acked_unreliable"]]
        return cls(
            data["channel"],
            data["mode"],
            data["producer"],
            data["sent"],
            tuple((first, stop) for first, stop in acked),
            tuple((first, stop) for first, stop in data.get("nacked_ranges", ())),
            data.get("unknown", 0),
            data.get("resent", 0),
            data.get("reconnects", 0),
        )


@dataclass(frozen=True)
class Verdict(Line):
    """A line of the ledger, and the rows that must not be there at all: never sent, nacked before
    they were stored, or under another number than their producer gave them."""

    strangers: int = 0
    producer: str = field(default="", compare=False)

    @property
    def good(self) -> bool:
        return super().good and not self.strangers

    def __str__(self) -> str:
        return f"{super().__str__()} strangers={self.strangers}"


def reconcile(table: pa.Table, entries: Iterable[Entry], *, complete: bool = True) -> list[Verdict]:
    """One line for each entry. ``table`` has `COLUMNS`; rows of other channels do not count.

    ``complete``: the entries are the last word of their producers. Else they were read before the
    table and producers went on, so that rows they do not know of are no strangers.
    """
    return [_verdict(table, entry, complete) for entry in entries]


def balance(table: pa.Table, entries: Iterable[Entry], *, complete: bool = True) -> list[Verdict]:
    """As `reconcile`; prints the lines and their total, and fails unless all is well."""
    lines = reconcile(table, entries, complete=complete)
    for line in (*lines, total(lines)):
        print(line)
    bad = [str(line) for line in lines if not line.good]
    assert not bad, "\n".join(bad)
    return lines


def _verdict(table: pa.Table, entry: Entry, complete: bool) -> Verdict:
    mine = table.filter(
        pc.and_(
            pc.equal(table["channel"], entry.channel), pc.equal(table["producer"], entry.producer)
        )
    )
    numbers = numbers_of(mine["value"])
    known = np.unique(numbers)
    acked = members(entry.acked)
    lost = int(np.count_nonzero(~np.isin(acked, known)))
    strange = np.isin(numbers, members(entry.nacked))
    if complete:
        strange |= numbers >= entry.sent
    if entry.mode != "unreliable":
        strange |= numbers != mine["messageNum"].to_numpy()
    return Verdict(
        channel=entry.channel,
        mode=entry.mode,
        sent=entry.sent,
        acked=entry.acked_count,
        nacked=entry.nacked_count,
        rows=len(numbers),
        lost_after_ack=lost,
        duplicates=len(numbers) - len(known),
        order_breaks=_breaks(mine, numbers) if entry.mode == "ordered" else 0,
        strangers=int(np.count_nonzero(strange)),
        producer=entry.producer,
    )


def _breaks(mine: pa.Table, numbers: np.ndarray[Any, Any]) -> int:
    """Places where the offsets of an ordered channel do not go up message by message."""
    if not len(numbers):
        return 0
    order = np.lexsort((mine["offset"].to_numpy(), mine["partition"].to_numpy()))
    steps = np.diff(numbers[order], prepend=-1)
    moves = len(pc.unique(mine["partition"])) - 1
    return int(np.count_nonzero(steps != 1)) + moves


def numbers_of(values: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """The numbers at the front of payloads; -1 where there is none."""
    digits = pc.cast(pc.binary_slice(values, 0, DIGITS), pa.string())
    good = pc.and_(pc.equal(pc.utf8_length(digits), DIGITS), pc.utf8_is_digit(digits))
    return pc.if_else(good, pc.cast(pc.if_else(good, digits, "-1"), pa.int64()), -1).to_numpy()


def members(ranges: Ranges) -> np.ndarray[Any, Any]:
    """Each number of some ranges."""
    parts = [np.arange(first, stop) for first, stop in ranges]
    return np.concatenate(parts) if parts else np.array([], np.int64)
