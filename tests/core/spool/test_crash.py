"""FAULTS 1, 16, 20: the owner dies before, in and after every step that changes the disk."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.spool.crash_scenarios import SCENARIOS, WIDE
from tests.core.spool.crash_states import STATES
from tests.core.spool.rows import (
    check_all,
    check_marks,
    check_rows,
    open_spool,
    segments,
    store,
)
from tests.core.spool.stepping import DIED, DONE
from tests.support.repository import ROOT
from tests.support.waiting import LONG

MOST = 2000
SCENARIOS_OF = "tests.core.spool.crash_scenarios"
VERBS = (("entering", None), ("entered", True), ("dropping", None), ("dropped", False))
AT_LEAST = {"lives": 250, "without_space": 150}


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("scenario", [*SCENARIOS, *STATES])
def test_nothing_reported_is_lost_and_nothing_is_there_twice(
    memory: Path, scenario: str, stride: int
) -> None:
    root = memory / scenario
    root.mkdir()
    subprocess.run(
        [sys.executable, "-m", SCENARIOS_OF, scenario, root, "0", str(MOST), str(stride)],
        cwd=ROOT,
        check=True,
        timeout=LONG,
        capture_output=True,
    )
    points = sorted(root.iterdir(), key=lambda path: int(path.name))
    codes = [int((point / "code").read_text()) for point in points]
    assert codes == [DIED] * (len(points) - 1) + [DONE]
    assert len(points) > AT_LEAST.get(scenario, 25) // stride
    # every change of the disk was a step, so with stride 1 the points are all that there are
    assert {(point / "unstepped").read_text() for point in points} == {""}
    before = told(points[-1])[0] if scenario in STATES else {}
    for point in points:
        survives(point, before, summed="format" not in scenario)


def told(point: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (point / "reported").read_text().splitlines()]


def survives(point: Path, before: dict[str, object], *, summed: bool) -> None:
    """What was reported last, or what an undisturbed opening found, is there; and it goes on.
    ``summed`` as of `check_marks`."""
    epoch, ends, cursor = 0, list(before.get("ends", [])), [0, 0]  # type: ignore[call-overload]
    cursors: dict[str, bool | None] = {}
    for line in told(point):
        epoch = line.get("epoch", epoch)
        ends, cursor = line.get("ends", ends), line.get("cursor", cursor)
        for verb, there in VERBS:
            if verb in line and not (verb == "entering" and cursors.get(str(line[verb]))):
                cursors[str(line[verb])] = there
    with open_spool(point / "spool", partitions=WIDE, segment_bytes=2500) as spool:
        assert spool.epoch > epoch, point
        # the rows and their marks are numbered alike, so a row stored twice would show as well
        assert all(a >= b for a, b in zip(spool.ends(), ends, strict=False)), point
        found = spool.cursors()
        for name, there in cursors.items():
            assert there is None or (name in found) == there, (point, name)
        if cursors.get("q"):
            assert all(a >= b for a, b in zip(found["q"][:2], cursor[:2], strict=True)), point
            starts = spool.starts()[:2]
            assert all(a <= b for a, b in zip(starts, found["q"][:2], strict=True)), point
        check_all(spool)
        check_marks(spool, summed=summed)
        store(spool, [1, 1, 1])
        check_all(spool)
        last = spool.ends()
    if int(point.name) % 4:
        return
    with open_spool(point / "spool", partitions=WIDE) as spool:
        assert spool.ends() == last
        check_all(spool)
        check_marks(spool, summed=summed)


def test_with_the_real_sync_process_and_a_group_in_flight_behind_another(memory: Path) -> None:
    """FAULTS 1, 16, 18: what was reported is there, whole groups or none, and no offset twice;
    also when the last group that was reported is damaged before the next opening."""
    root = memory / "syncing"
    root.mkdir()
    subprocess.run(
        [sys.executable, "-m", "tests.core.spool.syncing_points", root, "0", str(MOST)],
        cwd=ROOT,
        check=True,
        timeout=2 * LONG,
        capture_output=True,
    )
    points = sorted(root.iterdir(), key=lambda path: int(path.name))
    assert len(points) > 12
    reports = [told(point) for point in points]
    assert [line for lines in reports for line in lines if "done" in line] == [{"done": True}]
    for point, lines in zip(points, reports, strict=True):
        ends = [line["ends"] for line in lines if "ends" in line]
        reported: list[int] = ends[-1] if ends else [0, 0]  # type: ignore[assignment]
        damaged = shutil.copytree(point / "spool", point / "damaged")
        with open_spool(point / "spool", segment_bytes=2500) as spool:
            found = spool.ends()
            assert all(a >= b for a, b in zip(found, reported, strict=True)), point
            check_all(spool)
            check_marks(spool, summed=True)
            store(spool, [1, 1])
            check_all(spool)
        after_damage(damaged, reported, point)


def after_damage(directory: Path, reported: list[int], point: Path) -> None:
    """The end of the newest segment is cut off: no offset that was reported is given out again."""
    files = segments(directory)
    if not files:
        return
    with files[-1].open("r+b") as file:
        file.truncate(files[-1].stat().st_size // 2)
    with open_spool(directory, segment_bytes=2500) as spool:
        before = spool.ends()
        assert all(a >= b for a, b in zip(before, reported, strict=True)), point
        store(spool, [1, 1])
        for partition, end in enumerate(before):
            check_rows(spool, partition, end, end + 1)
