"""What a running query shows: a line for each micro-batch with rows, and a JSON file."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TextIO

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from aqueduct_core.primitives import atomic_file
from jobs.config import ConfigError

FAILURES = (ConfigError, PySparkException, Py4JJavaError)
"""What ends a job with one line; the last is how PySpark hands on what it has no class for."""


class Progress:
    """Prints each micro-batch of ``query`` once; call ``poll`` as often as you like.

    On a terminal the line is rewritten in place. With ``file`` the totals are also written there
    as one JSON object (atomically), for programs that watch the job.
    """

    def __init__(self, query: StreamingQuery, file: Path | None, out: TextIO = sys.stderr) -> None:
        self.rows = 0
        self.batches = 0
        self._query = query
        self._file = file
        self._out = out
        self._last = -1

    def poll(self) -> None:
        # a trigger without data is reported under the id of the batch that comes next
        fresh = [
            progress
            for progress in self._query.recentProgress
            if progress["batchId"] > self._last and progress["numInputRows"]
        ]
        for progress in fresh:
            self._last = progress["batchId"]
            rows = progress["numInputRows"]
            self.rows += rows
            self.batches += 1
            seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
            self._line(
                f"batch {self._last}: {rows:,} rows in {seconds:.2f} s "
                f"({rows / max(seconds, 1e-3):,.0f}/s), {self.rows:,} in all"
            )
        if fresh and self._file is not None:
            content = json.dumps({"batch": self._last, "rows": self.rows})
            atomic_file.replace(self._file, content.encode(), 0o644, durable=False)

    def close(self) -> None:
        if self._out.isatty() and self.batches:
            self._out.write("\n")

    def _line(self, text: str) -> None:
        if self._out.isatty():
            self._out.write(f"\r\x1b[2K{text}")
        else:
            self._out.write(text + "\n")
        self._out.flush()


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
