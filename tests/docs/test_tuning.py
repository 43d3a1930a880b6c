"""What docs/tuning.md shows and says of options and settings."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.planning.pacing import APART, BYTES, ROWS
from tests.bench.triggers import AS_SPARK_COMES, TRIGGERS
from tests.docs.blocks import texts
from tests.spark.conftest import spark  # noqa: F401  the session of these tests, too
from tests.spark.producing import produce
from tests.support.repository import ROOT
from tests.support.waiting import LONG, ended, intake_status, wait_until

PAGE = (ROOT / "docs" / "tuning.md").read_text("utf-8")
ADDRESS = "127.0.0.1:4433"


@pytest.mark.spark
def test_the_query_runs(spark: SparkSession, tmp_path: Path) -> None:  # noqa: F811
    [code] = texts("docs/tuning.md", "python")
    assert ADDRESS in code
    names = {"spark": spark}
    exec(code.replace(ADDRESS, "127.0.0.1:0").replace("tuned/", f"{tmp_path}/"), names)
    query = names["query"]
    try:
        status = intake_status(tmp_path / "spool", 0, LONG)
        produce(f"aqueduct://{status['listen']}", [b"soon"])

        def rows() -> bool:
            assert query.exception() is None
            return sum(each["numInputRows"] for each in query.recentProgress) >= 2

        wait_until(rows, LONG, "the message, and the one that brings its channel")
    finally:
        query.stop()
    os.kill(status["pid"], signal.SIGTERM)
    ended(status["pid"], LONG)


def test_settings_are_those_of_both_files() -> None:
    named = re.findall(r"^\* `(spark\.[\w.]+)", PAGE, re.MULTILINE)
    assert len(named) == 3
    for name in ("low-latency.conf", "throughput.conf"):
        lines = (ROOT / "conf" / name).read_text("utf-8").splitlines()
        assert set(named) <= {line.split()[0] for line in lines if line}


def test_what_it_says_of_batches_is_so() -> None:
    defaults = {spec.name: spec.default for spec in AQUEDUCT_OPTIONS.specs}
    assert defaults["maxBytesPerTrigger"] == "256m"
    assert f"from\n{ROWS:,.0f} messages or {BYTES / 1e6:.0f} MB a second on" in PAGE
    assert f"batches are {APART:g} s apart" in PAGE


def test_the_table_has_a_line_for_each_trigger_of_the_bench() -> None:
    for name in (*TRIGGERS, AS_SPARK_COMES):
        assert f"| {name} |" in PAGE
