"""FAULTS 1, 20: the owner dies before, in and after every step that changes the disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.core.spool.crash_scenarios import DIED, DONE
from tests.core.spool.rows import check_all, check_marks, open_spool, store

MOST = 2000


def test_nothing_reported_is_lost_and_nothing_is_there_twice(memory: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "tests.core.spool.crash_scenarios", str(memory), "0", str(MOST)],
        cwd=Path(__file__).parents[3],
        check=True,
        timeout=120,
        capture_output=True,
    )
    points = sorted(memory.iterdir(), key=lambda path: int(path.name))
    codes = [int((point / "code").read_text()) for point in points]
    assert codes == [DIED] * (len(points) - 1) + [DONE]
    assert len(points) > 150
    for point in points:
        survives(point)


def survives(point: Path) -> None:
    ends, cursor, epoch = [0, 0], [0, 0], 0
    for line in (point / "reported").read_text().splitlines():
        told = json.loads(line)
        ends, cursor = told.get("ends", ends), told.get("cursor", cursor)
        epoch = told.get("epoch", epoch)
    with open_spool(point / "spool", segment_bytes=2500) as spool:
        assert spool.epoch > epoch, point
        # the rows and their marks are numbered alike, so a row stored twice would show as well
        assert all(a >= b for a, b in zip(spool.ends(), ends, strict=True)), point
        assert all(a >= b for a, b in zip(spool.cursors().get("q", [0, 0]), cursor, strict=True)), (
            point
        )
        found = spool.cursors().get("q", [0, 0])
        assert all(a <= b for a, b in zip(spool.starts(), found, strict=True)), point
        check_all(spool)
        check_marks(spool)
        store(spool, [1, 1])
        check_all(spool)
        last = spool.ends()
    if int(point.name) % 4:
        return
    with open_spool(point / "spool") as spool:
        assert spool.ends() == last
        check_all(spool)
        check_marks(spool)
