"""Channels into a table: reads Aqueduct channels as a stream and appends them to any Spark sink.

    spark-submit --properties-file conf/spark-defaults.conf jobs/ingest.py --config conf/ingest.toml

The job runs until it is stopped, or, with ``[query] stopFile``, until that file exists and all that
the source has is written; with ``trigger = "availableNow"`` until what is stored now is written.
A restart continues from the checkpoint: every stored message is in the table exactly once.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs import config
from jobs.progress import Progress, first_line

KNOWN: config.Known = {
    "source": None,
    "select": frozenset({"columns", "where"}),
    "sink": None,
    "query": frozenset({"name", "trigger", "stopFile", "progressFile"}),
}
POLL_SECONDS = 1


def start(spark: SparkSession, tables: config.Tables) -> StreamingQuery:
    frame = spark.readStream.format("aqueduct").options(**config.options(tables["source"])).load()
    where = tables["select"].get("where")
    if where:
        frame = frame.where(str(where))
    columns = config.strings(tables, "select", "columns")
    if columns:
        frame = frame.selectExpr(*columns)
    sink = dict(tables["sink"])
    config.required(tables, "sink", "checkpointLocation")
    writer = (
        frame.writeStream.format(str(sink.pop("format", "parquet")))
        .outputMode(str(sink.pop("outputMode", "append")))
        .queryName(str(tables["query"].get("name", "ingest")))
    )
    partition_by = config.strings(tables, "sink", "partitionBy")
    if partition_by:
        sink.pop("partitionBy")
        writer = writer.partitionBy(*partition_by)
    trigger = str(tables["query"].get("trigger", "1 second"))
    if trigger == "availableNow":
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=trigger)
    return writer.options(**config.options(sink)).start()


def follow(query: StreamingQuery, progress: Progress, stop_file: Path | None) -> None:
    """Show progress until the query ends by itself, fails, or is drained after a stop file."""
    while not query.awaitTermination(POLL_SECONDS):
        progress.poll()
        if stop_file is not None and stop_file.exists():
            query.processAllAvailable()
            query.stop()
            break
    progress.poll()


def main(argv: list[str] | None = None) -> int:
    args = config.arguments(__doc__.splitlines()[0], "conf/ingest.toml").parse_args(argv)
    try:
        tables = config.load(args.config, args.overrides, KNOWN)
        spark = SparkSession.builder.appName("aqueduct-ingest").getOrCreate()
        query = start(spark, tables)
        stop_file = tables["query"].get("stopFile")
        progress_file = tables["query"].get("progressFile")
        progress = Progress(query, Path(progress_file) if progress_file else None)
        try:
            follow(query, progress, Path(stop_file) if stop_file else None)
        except KeyboardInterrupt:
            query.stop()
        finally:
            progress.close()
    except (config.ConfigError, PySparkException) as error:
        print(f"ingest: {first_line(error)}", file=sys.stderr)
        return 1
    print(f"ingest: {progress.rows:,} rows in {progress.batches:,} batches", file=sys.stderr)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
