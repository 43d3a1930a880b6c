"""What pages show is so: each is walked from its top to its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.docs.blocks import blocks
from tests.docs.plain_place import PlainPlace
from tests.docs.walk import Walk
from tests.docs.what_runs import (
    IN_A_SESSION,
    SHORT,
    WITH_THE_WHEEL,
    WITHOUT_A_SPACE,
    not_run,
)
from tests.spark.conftest import spark  # noqa: F401  the session of these tests, too
from tests.support.waiting import LONG


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:  # noqa: F811
    """The session, whose queries and tables end with the test."""
    yield spark
    for query in spark.streams.active:
        query.stop()
    for table in spark.catalog.listTables():
        spark.catalog.dropTempView(table.name)


@pytest.mark.spark
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page == SHORT else [pytest.mark.long])
        for page in IN_A_SESSION
    ],
)
def test_a_page_is_walked(page: str, session: SparkSession, tmp_path: Path) -> None:
    running = [block for block in blocks(page) if not not_run(block)]
    with Walk(tmp_path, {"spark": session}) as walk:
        assert walk.go(running) == len(running)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("page", WITH_THE_WHEEL)
def test_a_page_is_walked_with_the_wheel(page: str, plain: PlainPlace) -> None:
    variables = {**plain.environment, "PATH": f"{plain.python.parent}:{plain.environment['PATH']}"}
    running = [block for block in blocks(page) if not not_run(block)]
    with Walk(plain.folder, variables=variables) as walk:
        assert walk.go(running) == len(running)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(10 * LONG)
@pytest.mark.parametrize("page", WITHOUT_A_SPACE)
def test_a_page_is_walked_without_a_space(page: str, tmp_path: Path) -> None:
    running = [block for block in blocks(page) if not not_run(block)]
    with Walk(tmp_path) as walk:
        assert walk.go(running) == len(running)
