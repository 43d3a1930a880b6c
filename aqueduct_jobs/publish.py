"""A table into channels: sends the rows of Parquet, CSV or JSON files to an Aqueduct endpoint.

    aqueduct job publish --config publish.toml

Ends with exit code 0 only when every reliable message was acked by the endpoint.
"""

from __future__ import annotations

import sys
import threading
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from aqueduct_jobs import config, running
from aqueduct_jobs.order import total_order
from aqueduct_jobs.stop_signal import StopSignal

KNOWN: config.Known = {
    "input": None,
    "message": frozenset({"value", "channel", "reliability", "where", "orderBy", "partitions"}),
    "endpoint": None,
}
PLACE = "publish_place"


def read(spark: SparkSession, tables: config.Tables) -> DataFrame:
    """The input files as a frame with the columns that the sink takes, in the order of ``orderBy``
    or, without it, in that of the input."""
    given = dict(tables["input"])
    path = str(config.required(tables, "input", "path"))
    given.pop("path")
    form = str(given.pop("format", "parquet"))
    schema = given.pop("schema", None)
    reader = spark.read.format(form).options(**config.options(given))
    if schema:
        reader = reader.schema(str(schema))
    frame = reader.load(path)
    message = tables["message"]
    if message.get("where"):
        frame = frame.where(str(message["where"]))
    value = str(message.get("value", "to_json(struct(*))"))
    columns = [f"{value} AS value"]
    columns += [f"{message[key]} AS {key}" for key in ("channel", "reliability") if key in message]
    order = config.strings(tables, "message", "orderBy")
    place = f.struct(*order) if order else f.monotonically_increasing_id()
    frame = frame.select(*map(f.expr, columns), place.alias(PLACE))
    partitions = message.get("partitions")
    if partitions:
        frame = frame.repartition(int(partitions))
    return frame.sortWithinPartitions(*total_order(frame, [PLACE])).drop(PLACE)


class StageProgress:
    """Prints, each second, how many tasks of the running write are done; ends with ``close``."""

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._done.wait(1.0):
            for stage in self._tracker.getActiveStageIds():
                info = self._tracker.getStageInfo(stage)
                if info is not None:
                    print(
                        f"publish: {info.numCompletedTasks} of {info.numTasks} tasks done, "
                        f"{info.numActiveTasks} running",
                        file=sys.stderr,
                    )

    def close(self) -> None:
        self._done.set()
        self._thread.join()


def publish(spark: SparkSession, tables: config.Tables, signals: StopSignal) -> str:
    """Send everything; how many rows in which time."""
    config.required(tables, "endpoint", "endpoint")
    signals.then(spark.sparkContext.cancelAllJobs)
    frame = read(spark, tables)
    rows = frame.count()
    print(f"publish: {rows:,} rows to {tables['endpoint']['endpoint']}", file=sys.stderr)
    progress = StageProgress(spark)
    begun = time.monotonic()
    try:
        options = config.options(tables["endpoint"])
        frame.write.format("aqueduct").mode("append").options(**options).save()
    finally:
        progress.close()
    return f"{rows:,} rows acked in {time.monotonic() - begun:.1f} s"


def main(argv: list[str] | None = None) -> int:
    return running.run("publish", __doc__, KNOWN, publish, argv)


if __name__ == "__main__":
    sys.exit(main())
