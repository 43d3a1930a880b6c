"""``view=status``: one row for each message partition of one intake, as it is at this moment.

An intake that runs says most of it itself. Of one that does not, its directory says it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from aqueduct_core.errors import AqueductError, DataLoss
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import KEYS_FILE, Credentials
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.intake.control import status_file
from aqueduct_core.spool.reader import SpoolReader
from aqueduct_spark.formats.description import FormatDescription, RowMapping
from aqueduct_spark.model.partitions import StatusPartition
from aqueduct_spark.read.batch.spools import message_partitions, opened, served

log = logging.getLogger(__name__)

PROBE_TIMEOUT = 5.0
"""Seconds for an intake that says of itself that it runs to answer."""

TRIES = 5
"""Times that an intake is called again because rows were truncated between two calls."""

_STATES = {"failed": "failed", "ready": "unreachable"}
"""By what the last intake wrote beside its spool. One that was killed could not write its end, so
it may be gone, or not to be reached from here."""

_ALL = 1 << 62
"""A step of sizes that no range reaches: the total is all that is wanted."""

STATUS_SCHEMA = pa.schema(
    [
        pa.field("intake", pa.int32()),
        pa.field("spool", pa.string()),
        pa.field("epoch", pa.int64()),
        pa.field("state", pa.string()),
        pa.field("listen", pa.string()),
        pa.field("flight", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("startOffset", pa.int64()),
        pa.field("durableOffset", pa.int64()),
        pa.field("committedOffset", pa.int64()),
        pa.field("cursors", pa.map_(pa.string(), pa.int64())),
        pa.field("bytes", pa.int64()),
        pa.field("spoolBytes", pa.int64()),
        pa.field("full", pa.bool_()),
        pa.field("connections", pa.int64()),
        pa.field("channels", pa.int64()),
        pa.field("oldestUncommittedSeconds", pa.float64()),
        pa.field("messagesPerSecond", pa.float64()),
        pa.field("bytesPerSecond", pa.float64()),
    ]
)
"""Exactly what Spark makes of `aqueduct_spark.model.schemas.status_schema`."""


@dataclass(frozen=True, slots=True)
class Partition:
    """What differs between the partitions of an intake. ``committed`` is of the slowest cursor."""

    start: int
    durable: int
    cursors: Mapping[str, int]
    bytes: int
    oldest: float | None

    @property
    def committed(self) -> int | None:
        return min(self.cursors.values(), default=None)


def status_rows(
    partition: StatusPartition, description: FormatDescription
) -> Iterator[pa.RecordBatch]:
    """The rows of one intake, in one batch.

    Raises:
        IntakeFailed: UNREACHABLE; AuthFailed, TlsFailed: whom it is not for.
        SpoolFailed: IO, CORRUPT, VERSION.
        InvalidOption: CONFLICT where it is of another protocol than the format.
    """
    if partition.access is not None:
        with IntakeClient(partition.at, partition.access.for_clients()) as client:
            served(client, description)
            yield _of_intake(partition.intake, client)
        return
    directory = Path(partition.at)
    found = _living(directory)
    if found is not None:
        with found as client:
            yield _of_intake(partition.intake, client)
        return
    with opened(directory) as reader:
        yield _of_directory(partition.intake, directory, reader, description.rows(), time.time())


def _living(directory: Path) -> IntakeClient | None:
    """A client of the intake that serves the directory now; None where nobody does."""
    written = status_file.read(directory)
    if written is None or written.get("state") != "ready":
        return None
    for place in (directory, directory.parent):
        # Looked at before: reading credentials where there are none would make some.
        if not (place / KEYS_FILE).is_file():
            continue
        try:
            client = IntakeClient(
                str(written["flight"]),
                Credentials.for_spool(place).for_clients(),
                action_timeout=PROBE_TIMEOUT,
            )
            if client.status().id == written["id"]:
                return client
            client.close()
        except (AqueductError, KeyError) as error:
            log.info("no intake answers for %s: %s", directory, error)
    return None


def _of_intake(intake: int, client: IntakeClient) -> pa.RecordBatch:
    for left in reversed(range(TRIES)):
        status = client.status()
        try:
            sizes = [
                client.sizes(partition, start, end, _ALL)[-1][1] if start < end else 0
                for partition, (start, end) in enumerate(
                    zip(status.starts, status.ends, strict=True)
                )
            ]
        except DataLoss:
            if not left:
                raise
            continue
        break
    return _batch(intake, status, _partitions(status, sizes))


def _partitions(status: IntakeStatus, sizes: Sequence[int]) -> list[Partition]:
    ages = status.oldest or (None,) * len(sizes)
    return [
        Partition(
            start,
            end,
            {cursor: ends[number] for cursor, ends in sorted(status.committed.items())},
            sizes[number],
            ages[number] if ages[number] else None,
        )
        for number, (start, end) in enumerate(zip(status.starts, status.ends, strict=True))
    ]


def _batch(intake: int, status: IntakeStatus, partitions: Sequence[Partition]) -> pa.RecordBatch:
    return _rows(
        partitions,
        intake=intake,
        spool=status.id,
        epoch=status.epoch,
        state="draining" if status.draining else "running",
        listen=status.listen,
        flight=status.flight,
        spoolBytes=status.bytes,
        full=status.full,
        connections=status.connections,
        channels=status.channels,
        messagesPerSecond=status.rates.rows,
        bytesPerSecond=status.rates.bytes,
    )


def _oldest(
    reader: SpoolReader, mapping: RowMapping, partition: int, at: int, now: float
) -> float | None:
    """The age of the first row from an offset on that is there; None when that cannot be read."""
    for first, _, state in reader.stretches(partition, at, reader.ends()[partition]):
        if state == "stored":
            try:
                [row] = reader.read(partition, first, first + 1)
            except AqueductError as error:
                # a status is no place to fail for damage
                log.warning("the oldest row of partition %d: %s", partition, error)
                return None
            return max(0.0, now - mapping.received_at(row, 0) / 1_000_000)
    return None


def _of_directory(
    intake: int, directory: Path, reader: SpoolReader, mapping: RowMapping, now: float
) -> pa.RecordBatch:
    written = status_file.read(directory) or {}
    count = message_partitions(reader)
    partitions = []
    for number, (start, end) in enumerate(
        zip(reader.starts()[:count], reader.ends()[:count], strict=True)
    ):
        read = {name: ends[number] for name, ends in sorted(reader.cursors.items())}
        cursors = {name: at for name, at in read.items() if at is not None}
        there = [each for each in reader.stretches(number, start, end) if each.state != "gone"]
        size = sum(reader.sizes(number, each.start, each.end, _ALL)[-1][1] for each in there)
        oldest = _oldest(
            reader, mapping, number, max(start, min(cursors.values(), default=start)), now
        )
        partitions.append(Partition(start, end, cursors, size, oldest))
    state = _STATES.get(written.get("state", ""), "ended")
    present = 0 if state != "unreachable" else None
    return _rows(
        partitions,
        intake=intake,
        spool=reader.id,
        epoch=reader.epoch,
        state=state,
        listen=None,
        flight=None,
        spoolBytes=reader.bytes,
        full=None,
        connections=present,
        channels=present,
        messagesPerSecond=present,
        bytesPerSecond=present,
    )


def _rows(partitions: Sequence[Partition], **shared: object) -> pa.RecordBatch:
    own = [
        {
            "partition": number,
            "startOffset": each.start,
            "durableOffset": each.durable,
            "committedOffset": each.committed,
            "cursors": list(each.cursors.items()),
            "bytes": each.bytes,
            "oldestUncommittedSeconds": each.oldest,
        }
        for number, each in enumerate(partitions)
    ]
    return pa.RecordBatch.from_pylist([shared | row for row in own], schema=STATUS_SCHEMA)
