"""How every job runs: its settings, its session of Spark, its last line, and its exit code.

0: done, 1: an error, told in one line, 2: wrong usage, 130: stopped before it was done.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aqueduct_core.errors import AqueductError
from aqueduct_jobs import config
from aqueduct_jobs.stop_signal import GONE, StopSignal

FAILURES = (AqueductError, PySparkException, Py4JJavaError)
"""What ends a job with one line; the last is how PySpark hands on what it has no class for."""
STOPPED = 130


class Stopped(Exception):
    """The job was told to stop before it was done."""


def run(
    name: str,
    docstring: str | None,
    known: config.Known,
    work: Callable[[SparkSession, config.Tables, StopSignal], str],
    argv: list[str] | None,
    stopped: str = "stopped",
) -> int:
    """Run ``work``, whose result is the last line, and return the exit code.

    What Ctrl-C or SIGTERM does is up to ``work``: it ends in good order, or fails, or raises
    Stopped; where it did not end, ``stopped`` is the last line.
    """
    args = config.arguments(name, docstring).parse_args(argv)
    signals = StopSignal()
    try:
        tables = config.load(args.config, args.overrides, known)
        spark = SparkSession.builder.appName(f"aqueduct-{name}").getOrCreate()
        signals.heed()
        done = work(spark, tables, signals)
    except FAILURES as error:
        if signals.given:
            return _ended(name, stopped, STOPPED)
        return _ended(name, first_line(error), 1)
    except (Stopped, KeyboardInterrupt):
        return _ended(name, stopped, STOPPED)
    try:
        spark.stop()
    except GONE:
        pass
    return _ended(name, done, 0)


def first_line(error: BaseException) -> str:
    """The one line of an error that a reader needs: our own where there is one in the text."""
    text = str(error)
    ours = re.search(r"\[AQUEDUCT_[^\n]*", text)
    if ours:
        return ours.group()
    missing = re.search(r"\[DATA_SOURCE_NOT_FOUND\][^.\n]*\.", text)
    if missing:
        return f"{missing.group()} `aqueduct doctor` tells which Python Spark looks formats up with"
    return next((line for line in text.splitlines() if line.strip()), type(error).__name__)


def _ended(name: str, text: str, code: int) -> int:
    print(f"{name}: {text}", file=sys.stderr)
    return code
