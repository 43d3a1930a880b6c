"""What a job shows of its query: each micro-batch with rows, once."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from aqueduct_jobs.progress import Progress


def progress(batch: int, rows: int) -> dict[str, Any]:
    return {"batchId": batch, "numInputRows": rows, "durationMs": {"triggerExecution": 500}}


def test_a_batch_behind_an_idle_trigger_is_counted(tmp_path: Path) -> None:
    """Spark reports a trigger without data under the id of the batch that comes next."""
    reports = [progress(0, 10)]
    file, out = tmp_path / "progress.json", io.StringIO()
    shown = Progress(SimpleNamespace(recentProgress=reports), file, out)  # type: ignore[arg-type]
    for more in ([], [progress(1, 0)], [progress(1, 0)], [progress(1, 5)], [progress(2, 0)], []):
        reports += more
        shown.poll()
    assert (shown.rows, shown.batches) == (15, 2)
    assert json.loads(file.read_text()) == {"batch": 1, "rows": 15}
    assert [line.split(" in ")[0] for line in out.getvalue().splitlines()] == [
        "batch 0: 10 rows",
        "batch 1: 5 rows",
    ]
