"""The queries of docs/quicr.md, against an intake, a publisher and an origin of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from aqueduct_core.intake.quicr.rows import EVENTS
from aqueduct_core.intake.storage.event_log import GAP
from aqueduct_spark.formats.quicr.format import object_schema
from aqueduct_spark.write.worker import BackgroundLoop
from tests.core.quicr.ends import media
from tests.docs.blocks import texts
from tests.spark.conftest import spark  # noqa: F401  the session of these tests, too
from tests.spark.formats.quicr.test_format import Origin
from tests.support.repository import ROOT
from tests.support.waiting import LONG, ended, intake_status, wait_until

PAGE = "docs/quicr.md"
TEXT = (ROOT / PAGE).read_text("utf-8")
POSTED, PREFIX, BOUNDED, WRITE = texts(PAGE, "python")
ORIGIN = '"quicr://origin.example:4433")'


@pytest.fixture
def origin() -> Iterator[Origin]:
    with BackgroundLoop() as loop:
        origin = Origin(loop)
        yield origin
        origin.close()


@pytest.mark.spark
def test_what_is_posted_becomes_rows(spark: SparkSession, tmp_path: Path) -> None:  # noqa: F811
    names: dict[str, Any] = {"spark": spark}
    exec(POSTED.replace("127.0.0.1:4433", "127.0.0.1:0").replace("/data/", f"{tmp_path}/"), names)
    query = names["query"]
    try:
        status = intake_status(tmp_path / "cams" / "spool", 0, LONG)
        exec(WRITE.replace("127.0.0.1:4433", status["listen"]), names)

        def rows() -> bool:
            assert query.exception() is None
            return sum(each["numInputRows"] for each in query.recentProgress) >= 3

        wait_until(rows, LONG, "the rows of the page")
    finally:
        query.stop()
    table = spark.read.parquet(str(tmp_path / "cams" / "table"))
    found = {(row.url, row.object_id): (bytes(row.value), row.droppable) for row in table.collect()}
    assert found == {
        ("cam/1", 0): (b"a frame", False),
        ("cam/1", 1): (b"another", True),
        ("cam/2", 0): (b"a frame", False),
    }
    os.kill(status["pid"], signal.SIGTERM)
    ended(status["pid"], LONG)


@pytest.mark.spark
def test_media_of_an_origin_become_rows(
    spark: SparkSession,  # noqa: F811
    origin: Origin,
    tmp_path: Path,
) -> None:
    origin.publish(b"cam/1", media(2, 3))
    names: dict[str, Any] = {"spark": spark}
    for code in (PREFIX, BOUNDED):
        assert ORIGIN in code
        there = f'"{origin.endpoint}").option("tls.insecure", "true")'
        exec(code.replace(ORIGIN, there).replace("/data/", f"{tmp_path}/"), names)
    assert names["stream"].isStreaming
    rows = names["rows"]
    assert rows.schema.fieldNames() == object_schema().fieldNames()
    assert sorted((row.group_id, row.object_id) for row in rows.collect()) == sorted(media(2, 3))


def test_it_shows_every_column_and_event() -> None:
    for name in object_schema().fieldNames():
        assert f"`{name}`" in TEXT
    for kind in (EVENTS.kinds - {"connected", "disconnected", "opened", "nacked"}) | {GAP}:
        if kind not in ("repeated", "rejected", "skipped"):
            assert f"| `{kind}` |" in TEXT
