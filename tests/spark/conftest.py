"""One Spark session for all tests of the connector, and what queries and producers need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.python_of_spark import set_python_of_spark
from tests.support.repository import ROOT

# The JVM hands its environment to the planner and the workers: it must be right before it starts.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
set_python_of_spark()

from pyspark.sql import SparkSession  # noqa: E402

from aqueduct_spark.formats.aqueduct.sink import connection as sink_connection  # noqa: E402
from aqueduct_spark.formats.quicr.sink import connection as posting  # noqa: E402
from tests.spark.ground import Ground  # noqa: E402
from tests.spark.read.stream.loop import Yard  # noqa: E402
from tests.spark.scene import SPARK_CONF, Scene  # noqa: E402
from tests.support.waiting import LONG  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    # Said by PySpark itself about the newest pandas.
    config.addinivalue_line("filterwarnings", "ignore:PySpark does not yet fully support pandas")
    # Sockets of py4j that its own garbage collection closes late.
    config.addinivalue_line("filterwarnings", "ignore:unclosed.*socket:ResourceWarning")


@pytest.fixture(autouse=True)
def patient_sinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink in the process of a test takes no receiver for dead because the machine is busy; what
    it does about one that is dead has tests that say how soon."""
    monkeypatch.setattr(sink_connection, "SILENT_SECONDS", LONG)
    monkeypatch.setattr(posting, "SILENT_SECONDS", LONG)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]").appName("aqueduct-tests")
    for key, value in SPARK_CONF.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Iterator[Scene]:
    """A place for one query: its spool, checkpoint and table; everything ends with the test."""
    scene = Scene(spark, tmp_path)
    yield scene
    scene.close()


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    """The same for queries whose part of Spark a test plays."""
    yard = Yard(tmp_path)
    yield yard
    yard.close()


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """A rendezvous and an intake to launch."""
    ground = Ground(tmp_path / "spool")
    yield ground
    ground.close()
