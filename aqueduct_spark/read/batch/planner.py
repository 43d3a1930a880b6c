"""Plans a bounded read: which rows it consists of, and which task reads which of them.

The rows are settled once, as a `SettledRows`; tasks may be planned from it any number of times and
give the same rows. Runs in a short helper process of the driver with little memory, so it imports
what the source in hand needs and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import InputPartition

from aqueduct_core.errors import DataLoss, InvalidOption
from aqueduct_spark.model.partitions import (
    DataPartition,
    FollowPartition,
    StatusPartition,
    StoredPartition,
)
from aqueduct_spark.options.read import BatchReadOptions
from aqueduct_spark.options.source import Dial, Listen, Standalone, StoredSpools
from aqueduct_spark.options.starting import AtTime, Starting
from aqueduct_spark.options.tokens import Token, standalone_credentials
from aqueduct_spark.options.until import UntilOffset
from aqueduct_spark.planning.splits import LogKey, split
from aqueduct_spark.read.batch.bounds import bounds, check_known

if TYPE_CHECKING:
    from aqueduct_core.flight.tickets import View
    from aqueduct_spark.formats.description import FormatDescription
    from aqueduct_spark.model.offsets import DataRange
    from aqueduct_spark.planning.ranges import SizeIndex
    from aqueduct_spark.read.batch.spools import ReadableSpool

log = logging.getLogger(__name__)

INDEX_FINENESS = 16
"""Sizes are known at so many places of a piece: its end is right to that part of it."""


@dataclass(frozen=True, slots=True)
class SettledRows:
    """The rows of a read: a range for each task, in the order of intake and log."""

    ranges: tuple[DataRange, ...]


def settles(options: BatchReadOptions) -> bool:
    """Whether the rows of a read are settled before it begins."""
    stored = isinstance(options.source, StoredSpools | Standalone) and options.rows.view != "status"
    return stored and isinstance(options.until, UntilOffset)


def settle(options: BatchReadOptions, token: Token, description: FormatDescription) -> SettledRows:
    """The rows that a read consists of, as of now.

    Raises:
        SpoolFailed: there is no spool, or it cannot be read.
        IntakeFailed: UNREACHABLE; AuthFailed, TlsFailed: whom it is not for.
        InvalidOption: BAD_VALUE for offsets that do not fit the spools, or an authority that
            cannot be read; CONFLICT where a spool is of another protocol than the format.
        DataLoss: what was asked for is not stored, and failOnDataLoss is set.
    """
    view = cast("View", options.rows.view)
    ranges: list[DataRange] = []
    with _readable(options, token, description) as spools:
        for name, position in (
            ("startingOffsets", options.starting),
            ("endingOffsets", options.ending),
        ):
            check_known(name, position, [spool.intake for spool in spools])
        for spool in spools:
            # What is located later may lie behind the ends of the extent: a range ends with them.
            extent = spool.extent(view)
            found = bounds(
                extent,
                options.starting,
                options.ending,
                located_start=_located(spool, options.starting, view, extent.ends),
                located_end=_located(spool, options.ending, view, extent.ends),
            )
            _report(found.losses, options)
            ranges += found.ranges
        sizes = _sizes(spools, ranges, options.split.max_bytes)
    return SettledRows(tuple(split(ranges, options.split, sizes)))


def plan(
    options: BatchReadOptions,
    token: Token,
    snapshot: SettledRows | None,
    description: FormatDescription,
) -> Sequence[InputPartition]:
    """The tasks of a read; ``snapshot`` holds its rows where they were settled before."""
    source = options.source
    if isinstance(source, Listen):
        raise InvalidOption(
            "NOT_FOR_QUERY_TYPE",
            "Option 'listen' is for spark.readStream: a bounded read has an end only where "
            "somebody was asked for it",
            "Use readStream, with trigger(availableNow=True) for a bounded run",
        )
    if isinstance(source, Dial):
        from aqueduct_spark.read.batch.dial import dial_partitions

        return dial_partitions(options, description)
    if options.rows.view == "status":
        return _status_partitions(source, token, description)
    if not settles(options):
        return _follow_partitions(options, cast(Standalone, source), token, description)
    ranges = (snapshot or settle(options, token, description)).ranges
    if isinstance(source, StoredSpools):
        return [StoredPartition(rows) for rows in ranges]
    access = standalone_credentials(source, token)
    return [
        DataPartition(
            rows=rows,
            order=None,
            fetch_timeout=options.fetch_timeout,
            lenient=not options.fail_on_data_loss,
            access=access,
        )
        for rows in ranges
    ]


def _status_partitions(
    source: StoredSpools | Standalone, token: Token, description: FormatDescription
) -> list[InputPartition]:
    if isinstance(source, Standalone):
        access = standalone_credentials(source, token)
        return [
            StatusPartition(intake, str(address), access)
            for intake, address in enumerate(source.addresses)
        ]
    from aqueduct_core.intake.storage.layout import protocol_of
    from aqueduct_spark.read.batch.spools import spool_directories

    found = spool_directories(Path(source.spool))
    for _, directory in found:
        description.check_protocol(protocol_of(directory).name, directory)
    return [StatusPartition(intake, str(directory)) for intake, directory in found]


def _follow_partitions(
    options: BatchReadOptions,
    source: Standalone,
    token: Token,
    description: FormatDescription,
) -> list[InputPartition]:
    view = cast("View", options.rows.view)
    access = standalone_credentials(source, token)
    tasks: list[InputPartition] = []
    with _readable(options, token, description) as spools:
        for spool in spools:
            extent = spool.extent(view)
            located = _located(spool, options.starting, view, extent.ends)
            found = bounds(extent, options.starting, options.ending, located_start=located)
            _report(found.losses, options)
            firsts = {rows.partition: rows.first for rows in found.ranges}
            starts = tuple(
                firsts.get(log, end) for log, end in zip(extent.logs, extent.ends, strict=True)
            )
            tasks.append(FollowPartition(spool.intake, extent.at, starts, access))
    return tasks


@contextmanager
def _readable(
    options: BatchReadOptions, token: Token, description: FormatDescription
) -> Iterator[list[ReadableSpool]]:
    from aqueduct_spark.read.batch import spools

    with ExitStack() as stack:
        if isinstance(options.source, StoredSpools):
            yield [
                spools.StoredSpool(intake, stack.enter_context(spools.opened(path)), description)
                for intake, path in spools.spool_directories(Path(options.source.spool))
            ]
            return
        from aqueduct_core.flight.client import IntakeClient

        source = cast(Standalone, options.source)
        access = standalone_credentials(source, token)
        yield [
            spools.ServedSpool(
                intake, stack.enter_context(IntakeClient(str(address), access)), description
            )
            for intake, address in enumerate(source.addresses)
        ]


def _sizes(
    spools: Sequence[ReadableSpool], ranges: Sequence[DataRange], most: int | None
) -> dict[LogKey, SizeIndex]:
    """What the rows of each range take, as finely as pieces of ``most`` bytes need it."""
    if most is None:
        return {}
    step = max(1, most // INDEX_FINENESS)
    of_intake = {spool.intake: spool for spool in spools}
    sizes: dict[LogKey, SizeIndex] = {}
    for rows in ranges:
        try:
            sizes[rows.intake, rows.partition] = of_intake[rows.intake].sizes(
                rows.partition, rows.first, rows.stop, step
            )
        except DataLoss:
            continue  # truncated in this moment: the task that reads it says so, or finds less
    return sizes


def _report(losses: Sequence[DataLoss], options: BatchReadOptions) -> None:
    for loss in losses:
        if options.fail_on_data_loss:
            raise loss
        log.warning("failOnDataLoss=false: %s", loss)


def _located(
    spool: ReadableSpool, position: Starting, view: View, ends: Sequence[int]
) -> tuple[int, ...] | None:
    if not isinstance(position, AtTime):
        return None
    return tuple(
        min(found, end)
        for found, end in zip(spool.locate(position.microseconds, view), ends, strict=True)
    )
