"""Rows that cannot be had, and what a reader is told of them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from aqueduct_core.errors import DataLoss, SpoolFailed


class OffsetRange(NamedTuple):
    """Offsets ``[start, end)`` of a partition."""

    partition: int
    start: int
    end: int


def skip_command(directory: Path | str, partition: int, start: int, end: int) -> str:
    """What gives the rows ``[start, end)`` up; ends with the offset."""
    place = shlex.quote(str(directory))
    return f"aqueduct spool skip {place} --partition {partition} --from {start} --to {end}"


def range_gone(directory: Path | str, partition: int, start: int, end: int) -> DataLoss:
    return DataLoss(
        "RANGE_GONE",
        f"partition {partition}: offsets {start} to {end} (exclusive) are not stored any more",
        "Bring their segment back, set failOnDataLoss to false to go on without what is gone, or"
        f" give them up with: {skip_command(directory, partition, start, end)}",
    )


def skipped(partition: int, start: int, end: int) -> DataLoss:
    return DataLoss(
        "SKIPPED",
        f"partition {partition}: offsets {start} to {end} (exclusive) were given up with aqueduct"
        " spool skip",
        "Read what is before and behind them",
    )


def out_of_sight(directory: Path) -> SpoolFailed:
    """A segment is not found, and neither is what says whose directory this is."""
    return SpoolFailed(
        "IO",
        f"{directory} is not there, or is another spool by now: it cannot be told what is stored",
        "Bring the directory back: mount its volume again",
    )


def offset_ahead(directory: Path | str, partition: int, asked: int, end: int) -> DataLoss:
    return DataLoss(
        "OFFSET_AHEAD",
        f"partition {partition}: offsets up to {asked} are named, but the spool is durable"
        f" up to {end}",
        "The checkpoint is ahead of the spool: bring the spool's directory back, start a new query"
        " with a new checkpoint, or give these rows up, so that their offsets stay unused, with:"
        f" {skip_command(directory, partition, end, asked)} --ahead",
    )


def unreadable_segment(path: Path, number: int, what: str) -> SpoolFailed:
    """The directory cannot be opened as long as it needs this file."""
    return SpoolFailed(
        "CORRUPT",
        f"{path}{what}",
        "Bring the file back, or give up what was stored in it with: aqueduct spool skip"
        f" {shlex.quote(str(path.parent))} --segment {number}",
    )


def corrupt(path: Path, partition: int, start: int, end: int, reason: str) -> SpoolFailed:
    return SpoolFailed(
        "CORRUPT",
        f"{path}, partition {partition}, offsets {start} to {end} (exclusive): {reason}",
        "Check the disk and restore the segment from a copy, or give these rows up with:"
        f" {skip_command(path.parent, partition, start, end)}",
    )
