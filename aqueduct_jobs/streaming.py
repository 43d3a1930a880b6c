"""What the jobs that run a stream share: their start, their progress, and their three ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from aqueduct_jobs import config, running
from aqueduct_jobs.progress import Progress
from aqueduct_jobs.stop_signal import StopSignal

POLL_SECONDS = 1


def triggered(writer: DataStreamWriter, tables: config.Tables) -> DataStreamWriter:
    """With the trigger of ``[query]``: ``availableNow`` or an interval, one second by default."""
    trigger = str(tables["query"].get("trigger", "1 second"))
    if trigger == "availableNow":
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=trigger)


def run(
    name: str,
    docstring: str | None,
    known: config.Known,
    start: Callable[[SparkSession, config.Tables], StreamingQuery],
    argv: list[str] | None,
) -> int:
    """Run the stream that ``start`` makes of the configuration, and return the exit code.

    Ends with the query, in good order by Ctrl-C or SIGTERM, or, drained, once the file ``[query]
    stopFile`` exists.
    """

    def work(spark: SparkSession, tables: config.Tables, signals: StopSignal) -> str:
        query = start(spark, tables)
        signals.then(query.stop)
        stop_file = tables["query"].get("stopFile")
        progress_file = tables["query"].get("progressFile")
        progress = Progress(query, Path(progress_file) if progress_file else None)
        try:
            _follow(query, progress, Path(stop_file) if stop_file else None)
        finally:
            progress.close()
        return f"{progress.rows:,} rows in {progress.batches:,} batches"

    return running.run(name, docstring, known, work, argv)


def _follow(query: StreamingQuery, progress: Progress, stop_file: Path | None) -> None:
    while not query.awaitTermination(POLL_SECONDS):
        progress.poll()
        if stop_file is not None and stop_file.exists():
            query.processAllAvailable()
            query.stop()
            break
    progress.poll()
