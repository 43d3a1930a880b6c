"""A driver for tests that kill it; arguments: ``LISTEN SPOOL CHECKPOINT TABLE LEASE``."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from tests.spark.scene import SPARK_CONF
from tests.support.python_of_spark import set_python_of_spark


def main(listen: str, spool: str, checkpoint: str, table: str, lease: str) -> None:
    set_python_of_spark()
    builder = SparkSession.builder.master("local[2]")
    for key, value in SPARK_CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    print("jvm", spark._jvm.ProcessHandle.current().pid(), flush=True)
    frame = (
        spark.readStream.format("aqueduct")
        .option("listen", listen)
        .option("spool", spool)
        .option("lease", lease)
        .load()
    )
    writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    writer.option("path", table).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
