"""What users do wrong in Spark, as `tests.spark.mistakes` has it: our line is the first one, or the
second one of a task of a batch, and there is no traceback of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.mistakes import MISTAKES, seen

OF_SPARK = {"the mode of df.write itself"}
"""Refused by Spark before it asks us."""

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.mark.parametrize("name", MISTAKES)
def test_the_line_of_ours_comes_first(name: str, spark: SparkSession, tmp_path: Path) -> None:
    found = seen(MISTAKES[name], spark, tmp_path)
    assert found["traceback"] == "False", found
    if name in OF_SPARK:
        assert found["first"].startswith("[UNSUPPORTED_DATA_SOURCE_SAVE_MODE]")
        return
    assert re.search(r"\[AQUEDUCT_[A-Z_.]+\] \S.*SQLSTATE: \w{5}", found["line"]), found
    assert "s3cret" not in str(found)
    of_task = found["first"] == "An exception was thrown from the Python worker:"
    assert found["ours"] == ("2" if of_task else "1"), found
