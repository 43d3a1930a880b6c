"""What a reader is told when rows are not to be had."""

from __future__ import annotations

from pathlib import Path

from aqueduct_core.errors import DataLoss, SpoolFailed


def range_gone(partition: int, start: int, end: int) -> DataLoss:
    return DataLoss(
        "RANGE_GONE",
        f"partition {partition}: offsets {start} to {end} (exclusive) are not stored any more",
        "Start from offsets that are stored, or set failOnDataLoss to false to go on without them",
    )


def offset_ahead(partition: int, asked: int, end: int) -> DataLoss:
    return DataLoss(
        "OFFSET_AHEAD",
        f"partition {partition}: offsets up to {asked} are named, but the spool is durable"
        f" up to {end}",
        "The checkpoint is ahead of the spool: bring the spool's directory back, or start a new"
        " query with a new checkpoint",
    )


def corrupt(path: Path, partition: int, start: int, end: int | None, reason: str) -> SpoolFailed:
    offsets = f"offset {start}" if end is None else f"offsets {start} to {end} (exclusive)"
    return SpoolFailed(
        "CORRUPT",
        f"{path}, partition {partition}, {offsets}: {reason}",
        "Check the disk; restore the segment from a copy, or start beyond the damaged record",
    )
