"""What a read does, once, to the Python worker of Spark that it runs in.

The only place that knows how PySpark's daemon runs its workers: it looks up ``main`` of the module
that its first argument names for each task, and gives it the two files of the worker's socket. In
any other process nothing of that happens.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any, BinaryIO

from aqueduct_core.primitives.garbage_collection import freeze_once

DAEMON = "pyspark.daemon"


@cache
def settle_worker() -> None:
    """Called by a read when all that it needs is imported: what is there stays out of the
    collection that follows each task, and the worker ends without a traceback."""
    freeze_once()
    main = sys.modules["__main__"]
    if getattr(getattr(main, "__spec__", None), "name", None) == DAEMON and len(sys.argv) > 1:
        end_quietly(sys.modules.get(sys.argv[1]))


def end_quietly(worker: Any) -> None:
    """Have ``worker.main`` end the process where Spark has hung up instead of giving it a task.

    Spark does that to a worker that was idle for a minute, and at the end of a session. PySpark
    takes it for an error, writes that to the socket, which nobody reads, and where it is a Unix
    socket fails with a BrokenPipeError, whose traceback is in the log of the executor then.
    """
    run_task = getattr(worker, "main", None)
    if run_task is None:
        return

    def main(infile: BinaryIO, outfile: BinaryIO) -> None:
        peek = getattr(infile, "peek", None)
        if peek is not None and not peek(1):
            os._exit(0)
        run_task(infile, outfile)

    worker.main = main
