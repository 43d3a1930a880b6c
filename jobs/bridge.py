"""Channels into channels: reads Aqueduct as a stream, transforms it, and writes it to an endpoint.

    spark-submit --properties-file conf/spark-defaults.conf jobs/bridge.py --config conf/bridge.toml

Runs until it is stopped, or, with ``[query] stopFile``, until that file exists and all that the
source has is sent; with ``trigger = "availableNow"`` until what is stored now is sent. A restart
goes on from the checkpoint: at an intake on the other side every message is stored exactly once.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs import config
from jobs.ingest import follow
from jobs.progress import Progress, first_line

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
    trigger = str(tables["query"].get("trigger", "1 second"))
    if trigger == "availableNow":
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=trigger).start()


def main(argv: list[str] | None = None) -> int:
    args = config.arguments(__doc__.splitlines()[0], "conf/bridge.toml").parse_args(argv)
    try:
        tables = config.load(args.config, args.overrides, KNOWN)
        spark = SparkSession.builder.appName("aqueduct-bridge").getOrCreate()
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
        print(f"bridge: {first_line(error)}", file=sys.stderr)
        return 1
    print(f"bridge: {progress.rows:,} rows in {progress.batches:,} batches", file=sys.stderr)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
