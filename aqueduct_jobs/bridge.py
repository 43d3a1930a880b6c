"""Channels into channels: reads Aqueduct as a stream, transforms it, and writes it to an endpoint.

    aqueduct job bridge --config bridge.toml

Runs until it is stopped, or, with ``[query] stopFile``, until that file exists and all that the
source has is sent; with ``trigger = "availableNow"`` until what is stored now is sent. A restart
goes on from the checkpoint: at an intake on the other side every message is stored exactly once.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from aqueduct_jobs import config, streaming

KNOWN: config.Known = {
    "source": None,
    "select": frozenset({"columns", "where"}),
    "endpoint": None,
    "query": frozenset({"name", "trigger", "checkpointLocation", "stopFile", "progressFile"}),
}
COLUMNS = ("value", "channel")
WHERE = "channel <> '0'"
"""By default the messages of entrypoints stay behind: what they carry are channels."""


def transformed(spark: SparkSession, tables: config.Tables) -> DataFrame:
    source = config.options(tables["source"])
    schema = source.pop("schema", None)
    reader = spark.readStream.format("aqueduct").options(**source)
    frame = (reader.schema(schema) if schema else reader).load()
    where = tables["select"].get("where", WHERE if "channel" in frame.columns else "")
    if where:
        frame = frame.where(str(where))
    return frame.selectExpr(*(config.strings(tables, "select", "columns") or COLUMNS))


def start(spark: SparkSession, tables: config.Tables) -> StreamingQuery:
    config.required(tables, "endpoint", "endpoint")
    writer = (
        transformed(spark, tables)
        .writeStream.format("aqueduct")
        .queryName(str(tables["query"].get("name", "bridge")))
        .option("checkpointLocation", str(config.required(tables, "query", "checkpointLocation")))
        .options(**config.options(tables["endpoint"]))
    )
    return streaming.triggered(writer, tables).start()


def main(argv: list[str] | None = None) -> int:
    return streaming.run("bridge", __doc__, KNOWN, start, argv)


if __name__ == "__main__":
    sys.exit(main())
