"""What is printed by a Python worker of Spark that ends because Spark has hung up: nothing.

Spark hangs up on a worker that was idle for a minute, of a query or of what helps to plan one, and
on one whose task it needs no longer, as behind ``take`` and when a query is stopped. The worker
meets that when it reads what to do next, or writes what nobody wants, and its daemon prints a
traceback into the log of the driver or executor, as of a failure.

An error of a task never comes this way: it is caught before, and told to Spark, as long as it
listens. This is the only place that knows how PySpark's daemon ends its workers; in any other
process nothing is changed.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

DAEMON = "pyspark.daemon"
HUNG_UP = (BrokenPipeError, ConnectionResetError, EOFError)
"""What is left of a conversation with Spark that Spark has ended."""


def end_quietly() -> None:
    """For a worker of PySpark's daemon, from now on. Again: no effect."""
    main = sys.modules.get("__main__")
    if getattr(getattr(main, "__spec__", None), "name", None) == DAEMON:
        vars(main)["traceback"] = _DaemonTraceback()


class _DaemonTraceback:
    """What the daemon's module finds under the name ``traceback``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def print_exc(self, *rest: Any, **more: Any) -> None:
        """Called for what ends a worker, and by nobody else in that module."""
        if not isinstance(sys.exception(), HUNG_UP):
            traceback.print_exc(*rest, **more)
