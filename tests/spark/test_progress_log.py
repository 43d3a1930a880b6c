"""How far a query is behind, out of what Spark tells of its progress."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent

from aqueduct_spark.progress_log import ProgressLog, behind, progress_line
from tests.spark.producing import numbered, produce
from tests.spark.scene import Scene
from tests.support.repository import ROOT
from tests.support.waiting import LONG


def offset(**spool: tuple[str, list[int]]) -> str:
    entries = {
        name: {"id": id, "at": "h:1", "epoch": 1, "to": to} for name, (id, to) in spool.items()
    }
    return json.dumps({"v": 2, "spool": entries, "launch": 0, "tick": 0})


@pytest.mark.parametrize(
    ("end", "latest", "expected"),
    [
        (offset(a=("x", [10, 5])), offset(a=("x", [12, 9])), 6),
        (offset(a=("x", [10, 5])), offset(a=("x", [10, 5])), 0),
        (offset(a=("x", [10]), b=("y", [1])), offset(a=("x", [11]), b=("y", [4])), 4),
        (offset(a=("x", [10])), offset(a=("x", [11]), b=("y", [4])), 5),
        (offset(a=("x", [10])), offset(a=("other", [3])), 3),
        (offset(a=("x", [10])), None, None),
        (None, offset(a=("x", [10])), None),
        ('{"topic": {"0": 5}}', '{"topic": {"0": 9}}', None),
        ("5", "9", None),
        ("not json", "[]", None),
    ],
)
def test_what_waits_is_what_lies_between(
    end: str | None, latest: str | None, expected: int | None
) -> None:
    assert behind(end, latest) == expected


OURS = offset(a=("x", [10])), offset(a=("x", [13]))


def progress(*sources: tuple[str | None, str | None], name: str | None = "orders") -> Any:
    return SimpleNamespace(
        name=name,
        id="6f3c",
        batchId=7,
        numInputRows=1_000,
        processedRowsPerSecond=512.4,
        sources=[SimpleNamespace(endOffset=end, latestOffset=latest) for end, latest in sources],
    )


def test_a_line_sums_up_a_batch_and_other_queries_have_none() -> None:
    assert progress_line(progress(OURS, ("5", "9"), OURS)) == (
        "query orders batch 7: 1000 rows, 512/s, 6 behind"
    )
    assert str(progress_line(progress(OURS, name=None))).startswith("query 6f3c batch 7")
    assert progress_line(progress(("5", "9"))) is None


PLAIN = """
import logging
{before}
from aqueduct_spark.progress_log import ProgressLog
from tests.spark.test_progress_log import OURS, progress
ProgressLog()
{after}
ProgressLog().onQueryProgress(type("Event", (), {{"progress": progress(OURS)}}))
"""


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("", "", 1),
        ("logging.basicConfig()", "", 1),
        ("", "logging.basicConfig()", 1),
        ("logging.getLogger('aqueduct_spark.progress_log').setLevel('WARNING')", "", 0),
    ],
)
def test_a_program_that_set_up_no_logging_sees_it_too(before: str, after: str, lines: int) -> None:
    """Once, whether it sets it up before or afterwards."""
    text = PLAIN.format(before=before, after=after)
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=True
    )
    assert done.stderr.count("query orders batch 7: 1000 rows, 512/s, 3 behind") == lines


@pytest.mark.long
@pytest.mark.spark
def test_a_query_has_its_lines(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    heard = threading.Event()

    class Heard(ProgressLog):
        def onQueryProgress(self, event: QueryProgressEvent) -> None:
            super().onQueryProgress(event)
            if event.progress.numInputRows:
                heard.set()

    listener = Heard()
    scene.spark.streams.addListener(listener)
    try:
        with caplog.at_level(logging.INFO, "aqueduct_spark.progress_log"):
            query = scene.start()
            outcome = produce(scene.endpoint(), numbered(500))
            scene.await_rows(query, outcome.acked)
            assert heard.wait(LONG)
    finally:
        scene.spark.streams.removeListener(listener)
    lines = [each.getMessage() for each in caplog.records if each.name.endswith("progress_log")]
    assert any(" rows, " in line and line.endswith(" behind") for line in lines)
