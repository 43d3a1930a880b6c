"""How a job ends: one line, and an exit code, whatever happened in it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from aqueduct_core.errors import InvalidOption
from aqueduct_jobs import config, running
from aqueduct_jobs.running import Stopped, first_line
from aqueduct_jobs.stop_signal import SIGNALS, StopSignal
from tests.support.waiting import LONG

MISSING = InvalidOption("MISSING", "a is missing", "Set it")
NOT_FOUND = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: aqueduct. Make sure\nof it."


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("first\nsecond", "first"),
        ("\n\n  third", "  third"),
        ("", "ValueError"),
        ("Traceback\n  x: [AQUEDUCT_SPOOL.LOCKED] a. b\nat org", "[AQUEDUCT_SPOOL.LOCKED] a. b"),
        (
            NOT_FOUND,
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: aqueduct. "
            "`aqueduct doctor` tells which Python Spark looks formats up with",
        ),
    ],
)
def test_the_first_line_of_an_error(text: str, line: str) -> None:
    assert first_line(ValueError(text)) == line


class Session:
    """A session of Spark that can be stopped, once."""

    def __init__(self) -> None:
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    made = Session()
    builder = SimpleNamespace(appName=lambda name: SimpleNamespace(getOrCreate=lambda: made))
    monkeypatch.setattr(SparkSession, "builder", builder)
    before = [signal.getsignal(number) for number in SIGNALS]
    yield made
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


def ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], outcome: str | BaseException
) -> tuple[int, str]:
    file = tmp_path / "job.toml"
    file.write_text("[query]\n")

    def work(spark: SparkSession, tables: config.Tables, signals: StopSignal) -> str:
        assert tables == {"query": {}}
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome == "cancelled":
            os.kill(os.getpid(), signal.SIGTERM)
            assert signals.wait(LONG)
            raise AnalysisException("the job was cancelled")
        return outcome

    words = ["--config", str(file)]
    code = running.run("toy", "A toy.", {"query": frozenset()}, work, words, "stopped; go on so")
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("outcome", "code", "line"),
    [
        ("3 rows", 0, "toy: 3 rows\n"),
        (MISSING, 1, f"toy: {MISSING}\n"),
        (AnalysisException("no such column\nat org"), 1, "toy: no such column\n"),
        (Stopped(), 130, "toy: stopped; go on so\n"),
        (KeyboardInterrupt(), 130, "toy: stopped; go on so\n"),
        ("cancelled", 130, "toy: stopped; go on so\n"),
    ],
)
def test_each_end_is_one_line_and_a_code(
    outcome: str | BaseException,
    code: int,
    line: str,
    session: Session,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended(tmp_path, capsys, outcome) == (code, line)
    assert session.stopped == (code == 0)


def test_a_defect_of_ours_is_not_hidden(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ZeroDivisionError):
        ended(tmp_path, capsys, ZeroDivisionError())


def test_the_settings_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        running.run("toy", "A toy.", {}, lambda spark, tables, signals: "", [])
    assert end.value.code == 2
    assert "--config" in capsys.readouterr().err
