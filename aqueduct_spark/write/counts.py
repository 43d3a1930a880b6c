"""What a writing task reports: counts, which Spark hands to ``commit``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage


@dataclass(frozen=True)
class SentCounts(WriterCommitMessage):
    """Totals of one task. ``sent`` = ``acked`` + ``nacked``; only unreliable ones are nacked.

    ``bytes`` are those of the payloads, ``seconds`` from the first row to the last ack. Of what was
    acked ``repeated`` were stored before, as far as the receivers say; of ``unchecked`` channels no
    receiver said whether the content that it stores is that of this attempt.
    """

    partition: int
    channels: int
    sent: int
    acked: int
    nacked: int
    bytes: int
    seconds: float = 0.0
    endpoints: tuple[str, ...] = ()
    repeated: int = 0
    unchecked: int = 0

    @classmethod
    def none(cls, partition: int) -> SentCounts:
        """Of a task without rows."""
        return cls(partition, 0, 0, 0, 0, 0)


def summary(writer: str, tasks: Iterable[SentCounts]) -> str:
    """One line for the log."""
    done = list(tasks)
    total = {
        name: sum(getattr(task, name) for task in done)
        for name in ("sent", "acked", "nacked", "repeated", "bytes", "channels", "unchecked")
    }
    counts = " ".join(f"{name}={count}" for name, count in total.items())
    seconds = max((task.seconds for task in done), default=0.0)
    endpoints = ",".join(sorted({endpoint for task in done for endpoint in task.endpoints}))
    return (
        f"writer {writer}: tasks={len(done)} {counts} seconds={seconds:.3f} "
        f"endpoints={endpoints or 'none'}"
    )
