"""What a reader is told when rows are not to be had."""

from __future__ import annotations

from pathlib import Path

from aqueduct_core.errors import DataLoss, SpoolFailed


def range_gone(partition: int, start: int, end: int) -> DataLoss:
    return DataLoss(
        "RANGE_GONE",
        f"partition {partition}: offsets {start} to {end} (exclusive) are not stored any more",
        "Start from offsets that are stored, set failOnDataLoss to false to go on without them, or"
        " give them up with aqueduct spool skip",
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


def offset_ahead(partition: int, asked: int, end: int) -> DataLoss:
    return DataLoss(
        "OFFSET_AHEAD",
        f"partition {partition}: offsets up to {asked} are named, but the spool is durable"
        f" up to {end}",
        "The checkpoint is ahead of the spool: bring the spool's directory back, or start a new"
        " query with a new checkpoint",
    )


def corrupt(path: Path, partition: int, start: int, end: int, reason: str) -> SpoolFailed:
    return SpoolFailed(
        "CORRUPT",
        f"{path}, partition {partition}, offsets {start} to {end} (exclusive): {reason}",
        "Check the disk and restore the segment from a copy, or give these rows up with: aqueduct"
        f" spool skip {path.parent} --partition {partition} --from {start} --to {end}",
    )
