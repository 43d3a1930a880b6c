"""A driver in processes of its own, for tests that kill it: ``python -m tests.faults.driver FILE``.

FILE holds JSON: ``master``, ``conf`` (more Spark configuration), ``format`` and ``options`` (of the
source), ``checkpoint``, ``table``, ``sink`` and ``trigger``. Sinks:

* ``parquet``: the file sink, exactly once by its own log;
* ``bridge``: an endpoint, by the options ``endpoint`` of FILE; without the entrypoints' messages;
* ``batches``: foreachBatch, each batch a Parquet directory ``batch=N`` below ``table``;
* ``batches-hold``: the same; the batch that comes after the file ``hold`` exists beside ``table``
  is written, said, and then never returns: the driver stands between offset log and commit log;
* ``batches-freeze``: the same, but the planner is stopped (SIGSTOP) and the batch returns: the
  driver stands behind the commit log, before its next call of the source.

With ``attempts``, a directory, each attempt of a task leaves a file ``BATCH-PARTITION-ATTEMPT``
with its process id there. When the file ``hold`` is in it, one first attempt takes it, stops behind
its first rows and says so in the file ``held``; it goes on when that one is gone.

Standard output has one line for each value: ``jvm PID``, ``held N``, ``frozen N``, ``over ERROR``.
Exit code 0 after the end of an AvailableNow query, 3 when the query failed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from tests.spark.scene import SPARK_CONF
from tests.support.processes import planners_of
from tests.support.python_of_spark import set_python_of_spark

HOLD_TURNS = 3_000
"""Tenths of a second that a held attempt lasts at most."""


def main(file: str) -> int:
    plan: dict[str, Any] = json.loads(Path(file).read_text())
    set_python_of_spark()
    builder = SparkSession.builder.master(plan["master"]).appName("aqueduct-faults")
    for key, value in {**SPARK_CONF, **plan.get("conf", {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(plan.get("log", "OFF"))
    jvm = spark._jvm.ProcessHandle.current().pid()
    say("jvm", jvm)
    frame = spark.readStream.format(plan["format"]).options(**plan["options"]).load()
    if plan.get("attempts"):
        frame = frame.mapInArrow(watched(plan["attempts"]), frame.schema)
    if plan["sink"] == "bridge":
        frame = frame.where("channel <> '0'").select("value", "channel")
    stream = frame.writeStream
    table = Path(plan["table"])
    if plan["sink"] == "parquet":
        stream = stream.format("parquet").option("path", str(table))
    elif plan["sink"] == "bridge":
        stream = stream.format("aqueduct").options(**plan["endpoint"])
    else:
        stream = stream.foreachBatch(keeper(plan["sink"], table, jvm))
    if plan.get("trigger"):
        stream = stream.trigger(**plan["trigger"])
    query = stream.option("checkpointLocation", plan["checkpoint"]).start()
    try:
        query.awaitTermination()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if "[AQUEDUCT_" in line]
        text = lines[-1] if lines else f"{type(error).__name__}: {error}".split("=== Streaming")[0]
        say("over", " ".join(text.split())[:300])
        return 3
    return 0


def keeper(sink: str, table: Path, jvm: int) -> Callable[[DataFrame, int], None]:
    hold = table.with_name("hold")

    def keep(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(table / f"batch={number}"))
        if not hold.exists() or batch.isEmpty():
            return
        if sink == "batches-hold":
            say("held", number)
            threading.Event().wait()
        elif sink == "batches-freeze":
            hold.unlink()
            for pid in planners_of(jvm):
                os.kill(pid, signal.SIGSTOP)
            say("frozen", number)

    return keep


def watched(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pass_on(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        attempt = context.attemptNumber()
        name = f"{batch}-{context.partitionId()}-{attempt}"
        for part in parts:
            yield part
            file = Path(folder) / name
            if not file.exists():
                (Path(folder) / f".{name}").write_text(str(os.getpid()))
                (Path(folder) / f".{name}").rename(file)
            held = Path(folder) / "held"
            if attempt or not taken(Path(folder) / "hold", held, name):
                continue
            for _ in range(HOLD_TURNS):
                if not held.exists():
                    break
                time.sleep(0.1)

    return pass_on


def taken(hold: Path, held: Path, name: str) -> bool:
    """Whether this task is the one that was to be held: one of all gets the file."""
    try:
        hold.rename(held.with_name(f".{name}"))
    except FileNotFoundError:
        return False
    held.with_name(f".{name}").write_text(name)
    held.with_name(f".{name}").rename(held)
    return True


def say(word: str, value: object) -> None:
    print(word, value, flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
