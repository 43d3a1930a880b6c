"""What a running query shows: a line for each micro-batch with rows, and a JSON file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TextIO

from pyspark.sql.streaming.query import StreamingQuery

from aqueduct_core.primitives import atomic_file


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
