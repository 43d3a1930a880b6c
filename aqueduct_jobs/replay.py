"""Messages once more: sends a range of a spool, or a table, at its own or a chosen pace.

    aqueduct job replay --config replay.toml

The rows are sent in steps of ``[pace] step`` seconds, each at its time; a step that is late is not
left out. With a ``writerId`` the job can be run again after a failure, with the same input: an
intake stores what it has not got. Of all steps but the last few it does not know any more what it
has stored, and takes the same step for the same rows (``supersededBatch=trust``). Ends with exit
code 0 only when every reliable message was acked.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import NamedTuple
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from aqueduct_core.errors import InvalidOption
from aqueduct_jobs import config, running
from aqueduct_jobs.order import total_order
from aqueduct_jobs.stop_signal import StopSignal

KNOWN: config.Known = {
    "source": None,
    "select": frozenset({"columns", "where", "orderBy", "partitions"}),
    "pace": frozenset({"mode", "timestamp", "speed", "rowsPerSecond", "step"}),
    "endpoint": None,
}
MODES = ("original", "rate", "none")
STEP = "replay_step"
COLUMNS = ("value", "channel")
SPOOL_ORDER = ("timestamp", "partition", "offset")
SPOOL_WHERE = "channel <> '0'"
"""By default the messages of entrypoints stay behind: what they carry are channels."""


class Pace(NamedTuple):
    """How fast: ``original`` follows a column of times, ``speed`` times as fast; ``rate`` sends
    ``rows_per_second``; ``none`` all at once. ``step`` is in seconds of the replay."""

    mode: str
    timestamp: str
    speed: float
    rows_per_second: float
    step: float

    @classmethod
    def parse(cls, tables: config.Tables) -> Pace:
        given = tables["pace"]
        mode = str(given.get("mode", "original"))
        if mode not in MODES:
            raise InvalidOption(
                "BAD_VALUE", f"[pace] mode is {mode}", f"Write one of {', '.join(MODES)}"
            )
        numbers = {}
        for key, default in (("speed", 1.0), ("rowsPerSecond", 1000.0), ("step", 1.0)):
            try:
                numbers[key] = float(given.get(key, default))
            except ValueError:
                numbers[key] = 0.0
            if not 0 < numbers[key] < float("inf"):
                raise InvalidOption(
                    "BAD_VALUE", f"[pace] {key} is {given[key]}", "Write a number above 0"
                )
        return cls(
            mode,
            str(given.get("timestamp", "timestamp")),
            numbers["speed"],
            numbers["rowsPerSecond"],
            numbers["step"],
        )

    def step_of(self, frame: DataFrame, order: list[str]) -> Column:
        """The number of the step in which a row is due."""
        if self.mode == "none":
            return f.lit(0)
        if self.mode == "rate":
            number = f.row_number().over(Window.orderBy(*order)) - 1
            return f.floor(number / (self.rows_per_second * self.step)).cast("long")
        seconds = f.col(self.timestamp).cast("double")
        begun = frame.agg(f.min(seconds)).collect()[0][0]
        since = (seconds - f.lit(begun)) / self.speed
        return f.coalesce(f.floor(since / self.step), f.lit(0)).cast("long")


def read(spark: SparkSession, tables: config.Tables) -> tuple[DataFrame, list[str]]:
    """The rows with the columns of the source, and the columns that order them: those that were
    named, and then all others, so that rows with the same time keep their places."""
    source = dict(tables["source"])
    form = str(source.pop("format", "aqueduct"))
    schema, path = source.pop("schema", None), source.pop("path", None)
    reader = spark.read.format(form).options(**config.options(source))
    if schema:
        reader = reader.schema(str(schema))
    frame = reader.load(str(path)) if path else reader.load()
    where = tables["select"].get("where", SPOOL_WHERE if form == "aqueduct" else "")
    if where:
        frame = frame.where(str(where))
    order = config.strings(tables, "select", "orderBy")
    if not order and form == "aqueduct":
        order = [name for name in SPOOL_ORDER if name in frame.columns]
    if not order:
        raise InvalidOption(
            "MISSING", "[select] orderBy is missing: the columns that order the table", "Set it"
        )
    return frame, total_order(frame, order)


class Step(NamedTuple):
    number: int
    rows: int


def steps(frame: DataFrame) -> list[Step]:
    counts = frame.groupBy(STEP).count().orderBy(STEP).collect()
    return [Step(int(row[0]), int(row[1])) for row in counts]


def due(planned: list[Step], pace: Pace, signals: StopSignal) -> Iterator[tuple[Step, float]]:
    """Each step at its time, with the seconds that it is late. Raises: running.Stopped."""
    begun = time.monotonic()
    for step in planned:
        ahead = begun + step.number * pace.step - time.monotonic()
        if signals.wait(max(0.0, ahead)):
            raise running.Stopped
        yield step, max(0.0, -ahead)


def replay(spark: SparkSession, tables: config.Tables, signals: StopSignal) -> int:
    """Send everything; how many rows."""
    pace = Pace.parse(tables)
    endpoint = config.options(tables["endpoint"])
    config.required(tables, "endpoint", "endpoint")
    endpoint.setdefault("writerId", f"replay-{uuid4().hex[:12]}")
    endpoint.setdefault("supersededBatch", "trust")
    source, order = read(spark, tables)
    frame = source.withColumn(STEP, pace.step_of(source, order)).persist()
    planned = steps(frame)
    total = sum(step.rows for step in planned)
    print(
        f"replay: {total:,} rows in {len(planned):,} steps to {endpoint['endpoint']}, "
        f"writerId {endpoint['writerId']}",
        file=sys.stderr,
    )
    columns = config.strings(tables, "select", "columns") or list(COLUMNS)
    partitions = int(tables["select"].get("partitions", 2))
    sent = 0
    for step, late in due(planned, pace, signals):
        rows = frame.where(f.col(STEP) == step.number)
        # the same rows in the same place each time: what makes a second run idempotent
        spread = [f.expr("channel")] if "channel" in rows.columns else [f.lit(0)]
        rows = rows.repartition(partitions, *spread).sortWithinPartitions(*order)
        writer = rows.selectExpr(*columns).write.format("aqueduct").mode("append")
        writer.options(**endpoint, batchId=str(step.number)).save()
        sent += step.rows
        print(
            f"replay: step {step.number:,}: {step.rows:,} rows, {sent:,} of {total:,}, "
            f"{late:.1f} s late",
            file=sys.stderr,
        )
    frame.unpersist()
    return sent


def work(spark: SparkSession, tables: config.Tables, signals: StopSignal) -> str:
    signals.then(spark.sparkContext.cancelAllJobs)
    begun = time.monotonic()
    sent = replay(spark, tables, signals)
    return f"{sent:,} rows acked in {time.monotonic() - begun:.1f} s"


def main(argv: list[str] | None = None) -> int:
    stopped = "stopped; run it again with the same writerId to go on"
    return running.run("replay", __doc__, KNOWN, work, argv, stopped)


if __name__ == "__main__":
    sys.exit(main())
