"""What a writing task reports: counts, which Spark hands to ``commit``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage


@dataclass(frozen=True)
class SentCounts(WriterCommitMessage):
    """Totals of one task. ``sent`` = ``acked`` + ``nacked``; only unreliable ones are nacked."""

    partition: int
    channels: int
    sent: int
    acked: int
    nacked: int
    bytes: int


def summary(writer: str, tasks: Iterable[SentCounts]) -> str:
    """One line for the log."""
    done = list(tasks)
    total = {
        name: sum(getattr(task, name) for task in done)
        for name in ("sent", "acked", "nacked", "bytes", "channels")
    }
    counts = " ".join(f"{name}={count}" for name, count in total.items())
    return f"writer {writer}: tasks={len(done)} {counts}"
