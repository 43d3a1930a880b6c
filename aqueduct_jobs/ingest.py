"""Channels into a table: reads Aqueduct channels as a stream and appends them to any Spark sink.

    aqueduct job ingest --config ingest.toml

The job runs until it is stopped, or, with ``[query] stopFile``, until that file exists and all that
the source has is written; with ``trigger = "availableNow"`` until what is stored now is written.
A restart continues from the checkpoint: every stored message is in the table exactly once.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from aqueduct_jobs import config, streaming

KNOWN: config.Known = {
    "source": None,
    "select": frozenset({"columns", "where"}),
    "sink": None,
    "query": frozenset({"name", "trigger", "stopFile", "progressFile"}),
}


def start(
    spark: SparkSession, tables: config.Tables, source: str = "aqueduct", job: str = "ingest"
) -> StreamingQuery:
    """The query, from the format ``source``; it has the name of the ``job``, if it has no other."""
    frame = spark.readStream.format(source).options(**config.options(tables["source"])).load()
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
        .queryName(str(tables["query"].get("name", job)))
    )
    partition_by = config.strings(tables, "sink", "partitionBy")
    if partition_by:
        sink.pop("partitionBy")
        writer = writer.partitionBy(*partition_by)
    return streaming.triggered(writer, tables).options(**config.options(sink)).start()


def main(argv: list[str] | None = None) -> int:
    return streaming.run("ingest", __doc__, KNOWN, start, argv)


if __name__ == "__main__":
    sys.exit(main())
