"""What the jobs that run a stream share: their start, their progress, and their three ends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from jobs import config
from jobs.progress import FAILURES, Progress, first_line

POLL_SECONDS = 1


def triggered(writer: DataStreamWriter, tables: config.Tables) -> DataStreamWriter:
    """With the trigger of ``[query]``: ``availableNow`` or an interval, one second by default."""
    trigger = str(tables["query"].get("trigger", "1 second"))
    if trigger == "availableNow":
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=trigger)


def run(
    name: str,
    summary: str,
    known: config.Known,
    start: Callable[[SparkSession, config.Tables], StreamingQuery],
    argv: list[str] | None,
) -> int:
    """Run the stream that ``start`` makes of the configuration, and return the exit code.

    Ends with the query, by an interrupt, or, drained, once the file ``[query] stopFile`` exists.
    """
    args = config.arguments(summary, f"conf/{name}.toml").parse_args(argv)
    try:
        tables = config.load(args.config, args.overrides, known)
        spark = SparkSession.builder.appName(f"aqueduct-{name}").getOrCreate()
        query = start(spark, tables)
        stop_file = tables["query"].get("stopFile")
        progress_file = tables["query"].get("progressFile")
        progress = Progress(query, Path(progress_file) if progress_file else None)
        try:
            _follow(query, progress, Path(stop_file) if stop_file else None)
        except KeyboardInterrupt:
            query.stop()
        finally:
            progress.close()
    except FAILURES as error:
        print(f"{name}: {first_line(error)}", file=sys.stderr)
        return 1
    print(f"{name}: {progress.rows:,} rows in {progress.batches:,} batches", file=sys.stderr)
    spark.stop()
    return 0


def _follow(query: StreamingQuery, progress: Progress, stop_file: Path | None) -> None:
    while not query.awaitTermination(POLL_SECONDS):
        progress.poll()
        if stop_file is not None and stop_file.exists():
            query.processAllAvailable()
            query.stop()
            break
    progress.poll()
