"""Ctrl-C and SIGTERM while a job runs: noted, and never raised inside a call to Spark.

The main thread of a job waits in calls to the JVM. An exception that a signal raises there breaks
the connection in the middle of an answer, and Spark's own handler calls the JVM from within such a
call.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

from py4j.protocol import Py4JError

GONE = (Py4JError, OSError)
"""What a call to a JVM that ends meets: spark-submit's hears the signal, too."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Whether the job is to stop. Before ``heed`` a signal raises KeyboardInterrupt; behind it the
    first one is noted, and a second one raises again, for who does not want to wait."""

    def __init__(self) -> None:
        self._given = threading.Event()
        for number in SIGNALS:
            signal.signal(number, signal.default_int_handler)

    @property
    def given(self) -> bool:
        return self._given.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for it, but no longer; whether it was given."""
        return self._given.wait(seconds)

    def heed(self) -> None:
        """From now on, when Spark's session has its own handler, note the next signal."""
        for number in SIGNALS:
            signal.signal(number, self._note)

    def then(self, action: Callable[[], object]) -> None:
        """Once it is given, do this in a thread: end a query, or cancel what runs."""

        def act() -> None:
            self._given.wait()
            try:
                action()
            except GONE:
                pass

        threading.Thread(target=act, daemon=True).start()

    def _note(self, number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.default_int_handler)
        self._given.set()
