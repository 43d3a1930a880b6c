"""Does in Spark what the tests do, once and small, so that a JVM meets the classes that it needs.

``.ci/quick-start`` runs it: the JVM writes those classes to an archive as it ends, and the JVMs
of the tests map the archive instead of loading, checking and linking 15,000 classes each.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import Row, StructType

from tests.support.python_of_spark import set_python_of_spark


class Numbers(DataSource):
    """Ten numbers, as a table and as a stream; what is written to it is gone."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "number bigint, payload binary, headers array<struct<key: string, value: binary>>"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Table()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Stream()

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return _Writer()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return _StreamWriter()


def _rows() -> Iterator[tuple[int, bytes, list[tuple[str, bytes]]]]:
    for number in range(10):
        yield number, b"%d" % number, [("key", b"value")]


class _Table(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        return _rows()


class _Stream(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:
        return {"at": 10}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        return _rows()


class _Writer(DataSourceWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        for _row in iterator:
            pass
        return WriterCommitMessage()


class _StreamWriter(DataSourceStreamWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        for _row in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None: ...


def main() -> None:
    set_python_of_spark()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    spark.dataSource.register(Numbers)
    with tempfile.TemporaryDirectory() as folder:
        _tables(spark, Path(folder))
        _streams(spark, Path(folder))
    spark.stop()


def _tables(spark: SparkSession, home: Path) -> None:
    frame = spark.read.format("numbers").load()
    frame.write.format("numbers").mode("append").save()
    frame.write.parquet(str(home / "table"))
    frame.createOrReplaceTempView("numbers_view")
    spark.sql("select max(number), count(*) from numbers_view group by number % 2").collect()
    stored = spark.read.parquet(str(home / "table")).orderBy("number").repartition(2)
    stored.join(frame.select("number"), "number").dropDuplicates(["number"]).toPandas()
    spark.createDataFrame([(1, b"one")], "number bigint, payload binary").collect()


def _streams(spark: SparkSession, home: Path) -> None:
    def to_table(frame: DataFrame, batch: int) -> None:
        frame.write.mode("append").parquet(str(home / "batches"))

    for name in ("parquet", "numbers", "memory", "batches"):
        writer = spark.readStream.format("numbers").load().writeStream
        writer = writer.option("checkpointLocation", str(home / f"checkpoint-{name}"))
        if name == "batches":
            writer = writer.foreachBatch(to_table)
        else:
            writer = writer.format(name).option("path", str(home / f"stream-{name}"))
        query = writer.queryName(name).start()
        query.processAllAvailable()
        query.stop()


if __name__ == "__main__":
    sys.exit(main())
