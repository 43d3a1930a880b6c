"""``aqueduct job``: what Spark is told, and the refusals before it is started."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from aqueduct_core.cli import job
from aqueduct_core.cli.main import main

SPARKS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "SPARK_CONF_DIR")


class Became(Exception):
    """In place of the program that this process would have become."""

    def __init__(self, path: str, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self.path, self.words, self.environment = path, words, environment


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def execve(path: str, words: Sequence[str], environment: Mapping[str, str]) -> None:
        raise Became(path, words, environment)

    monkeypatch.setattr(os, "execve", execve)
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    for name in (*SPARKS, "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)


def became(*words: str) -> Became:
    with pytest.raises(Became) as caught:
        main(["job", *words])
    return caught.value


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["job", *words]) == 1
    return capsys.readouterr().err


def test_it_becomes_the_job_with_its_own_python() -> None:
    run = became("ingest", "--config", "a b.toml", "--set", "query.name=x", "--set", "sink.path=t")
    assert run.path == run.words[0] == sys.executable
    assert run.words[1:] == [
        *("-m", "aqueduct_jobs.ingest", "--config", "a b.toml"),
        *("--set", "query.name=x", "--set", "sink.path=t"),
    ]
    assert run.environment["PYSPARK_SUBMIT_ARGS"] == f"--conf {job.QUIET} pyspark-shell"


def test_spark_gets_its_settings(tmp_path: Path) -> None:
    file = tmp_path / "my spark.conf"
    file.write_text("")
    run = became(
        *("publish", "--config", "c", "--master", "local[2]", "--properties-file", str(file)),
        *("--spark-conf", "spark.ui.enabled=false", "--spark-conf", "spark.app.name=a b"),
    )
    assert shlex.split(run.environment["PYSPARK_SUBMIT_ARGS"]) == [
        *("--master", "local[2]", "--properties-file", str(file)),
        *("--conf", job.QUIET, "--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.app.name=a b", "pyspark-shell"),
    ]


def test_spark_starts_the_python_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert became("replay", "--config", "c").environment["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setattr(sys, "executable", "/a folder/bin/python")
    environment = became("replay", "--config", "c").environment
    assert environment["PYSPARK_PYTHON"] == "python"
    assert environment["PATH"] == f"/a folder/bin{os.pathsep}{os.environ['PATH']}"


def test_another_python_is_asked_and_named_with_the_line_that_mends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    shown = said(capsys, "ingest", "--config", "c")
    assert shown.startswith("[AQUEDUCT_INVALID_OPTION.CONFLICT] Spark looks formats up with")
    assert "'no-such-python' (PYSPARK_PYTHON)" in shown
    assert f"Set: export PYSPARK_PYTHON={sys.executable}" in shown


def test_the_same_python_under_its_variable_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert became("ingest", "--config", "c").environment["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({"JAVA_HOME": "", "PATH": ""}, "needs, on PATH or in JAVA_HOME. Install one, as by: apt"),
        ({"JAVA_HOME": "/none"}, "needs, in JAVA_HOME, /none. Install one"),
    ],
)
def test_java_is_missed_before_spark_is_started(
    variables: dict[str, str],
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert shown in said(capsys, "ingest", "--config", "c")
    assert main(["demo"]) == 1
    assert shown in capsys.readouterr().err


def test_pyspark_is_missed_before_it_is_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    shown = f"Install it: {sys.executable} -m pip install aqueduct-spark"
    assert shown in said(capsys, "ingest", "--config", "c")
    assert main(["demo"]) == 1
    assert shown in capsys.readouterr().err


def test_the_log_of_spark_is_short_unless_somebody_has_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dx=y")
    options = became("ingest", "--config", "c").environment["SPARK_SUBMIT_OPTS"]
    first, last = options.split()
    assert first.startswith("-Dlog4j2.configurationFile=file:///")
    assert Path(first.partition("file://")[2]).is_file()
    assert last == "-Dx=y"  # what a user says comes later, and wins
    monkeypatch.setenv("SPARK_CONF_DIR", "conf")
    monkeypatch.setattr(job, "check_spark", lambda environment: None)
    assert became("ingest", "--config", "c").environment["SPARK_SUBMIT_OPTS"] == "-Dx=y"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ([], "MISSING] job ingest has no --config. Write one to begin with: aqueduct conf ingest"),
        (["--config", "c", "--properties-file", "none"], "--properties-file is none, and there is"),
        (["--config", "c", "--spark-conf", "spark.ui"], "--spark-conf is 'spark.ui'. Write KEY="),
    ],
)
def test_what_is_wrong_is_named(
    words: list[str], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown in said(capsys, "ingest", *words)


def test_a_job_that_is_not_there_is_refused_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["job", "ingset"])
    assert end.value.code == 2
    assert "bridge" in capsys.readouterr().err


def test_the_demo_becomes_its_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Became) as caught:
        main(["demo", "--seconds", "2.5", "--out", "here"])
    assert caught.value.words[1:] == [
        *("-m", "aqueduct_jobs.demo.run", "--seconds", "2.5", "--out", "here")
    ]
    assert caught.value.environment["PYSPARK_PYTHON"] == sys.executable
    assert main(["demo", "--seconds", "nan"]) == 1
    assert "--seconds is nan. Give more than 0" in capsys.readouterr().err
