"""The matrix finds what is there, and says of each part of the tests how it ended."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.repository import ROOT
from tests.wheel import matrix

REPORT = """<testsuites><testsuite>
<testcase classname="tests.spark.test_bridge" name="a"/>
<testcase classname="tests.spark.write.test_x" name="b"><failure>no</failure></testcase>
<testcase classname="tests.spark.write.test_x" name="c"><error>no</error></testcase>
<testcase classname="tests.spark.write.test_x" name="d"><skipped/></testcase>
<testcase classname="tests.spark.test_sql.TestX" name="e"/>
</testsuite></testsuites>"""


def test_each_part_is_there() -> None:
    for part, named in {**matrix.PARTS, **matrix.LONG_PARTS}.items():
        assert all((ROOT / each.partition("::")[0]).exists() for each in named), part


def test_outcomes_are_counted_by_part(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    parts = {
        "sink": ("tests/spark/test_bridge.py::test_a", "tests/spark/write"),
        "SQL": ("tests/spark/test_sql.py",),
        "source": ("tests/spark/read",),
    }
    counted = matrix.count(report, parts)
    assert counted["sink"] == Counter(passed=1, failed=2)
    assert counted["SQL"] == Counter(passed=1)
    assert [matrix.shown(counted[part]) for part in parts] == ["2 of 3 failed", "1 passed", "–"]


def test_a_run_without_a_report_has_no_outcomes(tmp_path: Path) -> None:
    assert matrix.count(tmp_path / "none.xml", {"sink": ("tests",)}) == {"sink": Counter()}


def test_pairs_are_named_or_all_that_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [tmp_path / f"python{version}" for version in ("3.11", "3.13")]
    for command in commands:
        command.write_text("#!/bin/sh\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    newest = matrix.newest_spark()
    assert list(matrix.pairs([])) == [
        (command, spark) for command in commands for spark in (matrix.OLDEST_SPARK, newest)
    ]
    assert list(matrix.pairs(["3.13:4.2.1", "3.11"])) == [
        (commands[1], "4.2.1"),
        (commands[0], newest),
    ]
    with pytest.raises(SystemExit, match=r"3\.12:4\.2\.0: there is no python3\.12 on PATH"):
        list(matrix.pairs(["3.12:4.2.0"]))
