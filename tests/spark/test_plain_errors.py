"""What a user of Spark reads first of an error is our line, without a traceback of ours."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from aqueduct_core.errors import SinkFailed
from aqueduct_spark.plain_errors import OF_SPARK, SWITCH, plainly, plainly_each
from tests.spark.scene import PATIENCE, Scene
from tests.support.ports import free_port
from tests.support.waiting import wait_until


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Without what an earlier test, or a Spark around this one, has set."""
    for name in [*os.environ]:
        if name.startswith(OF_SPARK) or name == SWITCH:
            monkeypatch.delenv(name)
    monkeypatch.setenv(SWITCH, "")
    return monkeypatch


def fails(error: Exception) -> None:
    raise error


def fails_late(error: Exception) -> Iterator[int]:
    yield 1
    raise error


OURS = SinkFailed("FENCED", "Another run writes", "End one of them")


@pytest.mark.parametrize(
    "call",
    [lambda error: plainly(fails)(error), lambda error: list(plainly_each(fails_late)(error))],
)
def test_the_switch_is_set_for_an_error_of_ours_in_a_process_of_spark_alone(
    call: Callable[[Exception], Any], environment: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SinkFailed):
        call(OURS)
    assert not os.environ[SWITCH]  # this process is not Spark's
    environment.setenv(f"{OF_SPARK}PORT", "1")
    with pytest.raises(ZeroDivisionError):
        call(ZeroDivisionError())
    assert not os.environ[SWITCH]  # a mistake of ours keeps its traceback
    with pytest.raises(SinkFailed):
        call(OURS)
    assert os.environ[SWITCH]


def first_lines(error: BaseException, count: int = 1) -> str:
    text = str(error)
    assert "Traceback" not in text
    return "\n".join(text.splitlines()[:count])


def names_it(line: str, condition: str) -> None:
    assert re.search(rf"\[{re.escape(condition)}\] \S", line), line


@pytest.mark.spark
def test_options_at_load(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="AQUEDUCT") as refused:
        spark.read.format("aqueduct").option("spol", "x").load()
    names_it(first_lines(refused.value), "AQUEDUCT_INVALID_OPTION.UNKNOWN")


@pytest.mark.spark
def test_columns_and_endpoint_of_a_write(spark: SparkSession) -> None:
    """A task's error stands in the second line: the first one is Spark's, whatever we raise."""
    rows = spark.range(1).selectExpr("CAST(id AS STRING) AS value")
    endpoint = f"aqueduct://127.0.0.1:{free_port()}"

    def write(column: str) -> str:
        writer = rows.withColumnRenamed("value", column).write.format("aqueduct").mode("append")
        with pytest.raises(Exception, match="AQUEDUCT") as refused:
            writer.options(**{"endpoint": endpoint, "tls.insecure": "true"}).save()
        return first_lines(refused.value, 2)

    names_it(write("valu").splitlines()[0], "AQUEDUCT_SCHEMA.COLUMN_UNKNOWN")
    told = write("value")
    names_it(told, "AQUEDUCT_CONNECT.REFUSED")
    assert told.splitlines()[0] == "An exception was thrown from the Python worker:"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"payloadFormat": "json"}, "AQUEDUCT_SCHEMA.COLUMN_TYPE"),  # as the reader is made
        ({"listen": "127.0.0.2:1", "spool": "/proc/none"}, "AQUEDUCT_SPOOL.IO"),  # in a task
    ],
    ids=["reader", "launch"],
)
def test_a_stream(scene: Scene, options: dict[str, str], condition: str) -> None:
    reader = scene.spark.readStream.format("aqueduct").schema("offset STRING, a INT")
    if "payloadFormat" not in options:
        reader = scene.spark.readStream.format("aqueduct")
    given = {"listen": "127.0.0.1:0", "spool": str(scene.spool), "tls.selfSigned": "true"}
    query = scene.start(reader.options(**given | options).load())
    wait_until(lambda: not query.isActive, PATIENCE, "the end of the query")
    failure = query.exception()
    assert failure is not None
    names_it(first_lines(failure), condition)
    with pytest.raises(Exception, match="AQUEDUCT") as ended:
        query.awaitTermination()
    names_it(first_lines(ended.value), condition)
