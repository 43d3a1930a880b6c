"""Messages for a job to read: a spool as an intake leaves it, written without an intake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from aqueduct_core.aio.message import HeadersLike, as_headers
from aqueduct_core.intake.aqueduct.rows import ATTACHMENTS, HEADERS, ROWS, SOURCE
from aqueduct_core.intake.storage.layout import settle_layout
from aqueduct_core.spool import InlineSync, Spool, SpoolSettings

SETTLE_SECONDS = 60.0
EPOCH_2020 = 1_577_836_800_000_000
"""Microseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolMessage:
    """One message of a spool.

    Attributes:
        payload: the column ``value``.
        number: the column ``messageNum``; None: one more than that of the last message of its
            channel and producer in this call, from 0 on.
        timestamp: when it was received, in microseconds since 1970; None: one millisecond after the
            message before, the first of a spool at the begin of 2020.
        partition: which log of the intake it is in; messages of one channel belong into one.
    """

    payload: bytes
    channel: str = "messages"
    producer: str = "test"
    number: int | None = None
    reliable: bool = True
    headers: HeadersLike = ()
    timestamp: int | None = None
    partition: int = 0


def write_spool(
    directory: Path | str,
    messages: Iterable[SpoolMessage | bytes],
    *,
    partitions: int = 1,
    intake: int = 0,
) -> Path:
    """Append these messages to the spool of an intake below ``directory``, which is made where it
    is not there; the path for option ``spool``.

    Offsets of a partition go on where the spool stands, so a test may write, run its job, write
    more and run it again. What is plain bytes is a ``SpoolMessage`` with that payload.

    Args:
        partitions: as option ``partitionsPerIntake`` of the job; the same in each call.
        intake: which one of ``numIntakes``.

    Raises:
        InvalidOption: CONFLICT when the spool has another number of partitions.
        SpoolFailed: LOCKED while an intake has the spool, and other faults of it.
    """
    wanted = [
        each if isinstance(each, SpoolMessage) else SpoolMessage(payload=each) for each in messages
    ]
    others = {type(each.payload).__name__ for each in wanted} - {"bytes"}
    if others:
        wrong = ", ".join(sorted(others))
        raise TypeError(f"messages are bytes or SpoolMessage(payload=bytes), not {wrong}")
    for each in wanted:
        if not 0 <= each.partition < partitions:
            raise ValueError(f"partition {each.partition} of {partitions} does not exist")
    place = Path(directory) / f"intake-{intake}"
    settle_layout(place, partitions)
    with Spool.open(
        place,
        schema=ROWS.schema,
        partitions=partitions + 1,
        settings=SpoolSettings(),
        sync=InlineSync,
    ) as spool:
        stored = sum(spool.ends()[:-1])
        rows = _numbered(wanted, EPOCH_2020 + 1_000 * stored)
        by_partition = sorted(rows, key=lambda row: row.partition)
        for partition, part in groupby(by_partition, key=lambda row: row.partition):
            spool.append(partition, _batch(list(part)), [])
        spool.settle(SETTLE_SECONDS)
    return Path(directory)


@dataclass(frozen=True, slots=True)
class _Row:
    message: SpoolMessage
    number: int
    timestamp: int

    @property
    def partition(self) -> int:
        return self.message.partition


def _numbered(messages: Sequence[SpoolMessage], begin: int) -> list[_Row]:
    rows: list[_Row] = []
    last: dict[tuple[str, str, bool], int] = {}
    timestamp = begin - 1_000
    for message in messages:
        key = message.producer, message.channel, message.reliable
        number = last.get(key, -1) + 1 if message.number is None else message.number
        last[key] = number
        timestamp = timestamp + 1_000 if message.timestamp is None else message.timestamp
        rows.append(_Row(message, number, timestamp))
    return rows


def _batch(rows: Sequence[_Row]) -> pa.RecordBatch:
    sources = [
        {
            "channel": row.message.channel,
            "producer": row.message.producer,
            "reliable": row.message.reliable,
            "timestamp": row.timestamp,
            "connectionId": "aqueduct.testing",
            "channelId": 4,
        }
        for row in rows
    ]
    headers = [
        [{"key": key.decode(), "value": value} for key, value in as_headers(row.message.headers)]
        or None
        for row in rows
    ]
    ends = pa.array(range(1, len(rows) + 1), pa.int32())
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row.message.payload for row in rows], pa.binary()),
            pa.array([row.number for row in rows], pa.int64()),
            pa.array(headers, HEADERS),
            pa.nulls(len(rows), ATTACHMENTS),
            pa.RunEndEncodedArray.from_arrays(ends, pa.array(sources, SOURCE)),
            ROWS.no_events(len(rows)),
        ],
        schema=ROWS.schema,
    )
