"""A driver for tests of the sink; its one argument is a JSON object:

    {"job": "faults", "master": …, "endpoint": …, "ca": …, "rows": n, "faults": [name, …]}
    {"job": "stream", "endpoint": …, "ca": …, "input": dir, "checkpoint": dir}
    {"job": "relay", "master": …, "endpoint": …, "ca": …, "checkpoint": dir, "source": {option: …},
     "beside": {option: …} or null, "sink": {option: …}, "parts": n or null, "keep": SQL,
     "now": bool}

The first writes a frame for each fault, on executors of their own; the second writes the files of
a directory, one micro-batch each, and ends when all are written. The third sends on what it
receives, in a union with what ``beside`` receives: those rows that ``keep`` is true for, shuffled
into ``parts`` partitions where that is a number; with ``now`` it ends when it has sent what is
there.
"""

from __future__ import annotations

import json
import sys
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.spark.sabotage import SabotagedSource
from tests.spark.scene import SPARK_CONF
from tests.support.python_of_spark import set_python_of_spark

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "1s",
}


def session(master: str, more: dict[str, str]) -> SparkSession:
    set_python_of_spark()
    builder: Any = SparkSession.builder.master(master)
    for key, value in (SPARK_CONF | more).items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    print("jvm", spark._jvm.ProcessHandle.current().pid(), flush=True)
    return spark


def faults(given: dict[str, Any]) -> None:
    more = SPECULATION | {
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(given["rows"] // 20),
    }
    spark = session(given["master"], more)
    spark.dataSource.register(SabotagedSource)
    for fault in given["faults"]:
        frame = spark.range(0, given["rows"], 1, 2).select(
            f.col("id").cast("string").alias("value"),
            f.concat(f.lit("c"), f.col("id") % 3).alias("channel"),
        )
        writer = frame.write.format("sabotaged").mode("append")
        writer = writer.option("endpoint", given["endpoint"]).option("tls.caFile", given["ca"])
        writer.option("writerId", fault).option("batchId", "0").option("sabotage", fault).save()
        print("done", fault, flush=True)
    spark.stop()


def stream(given: dict[str, Any]) -> None:
    spark = session("local[2]", {})
    frame = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(given["input"])
    writer = (
        frame.withColumn("channel", f.concat(f.lit("c"), f.length("value") % 3))
        .writeStream.format("aqueduct")
        .option("endpoint", given["endpoint"])
        .option("tls.caFile", given["ca"])
        .option("checkpointLocation", given["checkpoint"])
        .trigger(availableNow=True)
    )
    writer.start().awaitTermination()
    print("done stream", flush=True)
    spark.stop()


def relay(given: dict[str, Any]) -> None:
    spark = session(given["master"], {})
    sources = [options for options in (given["source"], given["beside"]) if options]
    frames = [spark.readStream.format("aqueduct").options(**each).load() for each in sources]
    frame = reduce(DataFrame.unionAll, frames)
    frame = frame.where("channel != '0'").where(given["keep"])
    if given["parts"]:
        frame = frame.repartition(given["parts"])
    wanted = ("value", "channel", "spool", "partition", "offset")
    if "idempotence" not in given["sink"]:
        wanted = wanted[:2]
    writer = (
        frame.select(*wanted)
        .writeStream.format("aqueduct")
        .options(**given["sink"])
        .option("endpoint", given["endpoint"])
        .option("tls.caFile", given["ca"])
        .option("checkpointLocation", given["checkpoint"])
    )
    if given["now"]:
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()
    print("done relay", flush=True)
    spark.stop()


if __name__ == "__main__":
    GIVEN = json.loads(sys.argv[1])
    {"faults": faults, "stream": stream, "relay": relay}[GIVEN["job"]](GIVEN)
