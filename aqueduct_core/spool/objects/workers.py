"""Threads that carry steps out: those of a caller who waits, and those of the maintenance."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.primitives.backoff import Backoff
from aqueduct_core.spool.objects.compaction import PARALLEL
from aqueduct_core.spool.objects.steps import run
from aqueduct_core.spool.objects.store import ObjectStore, Operation, Steps, StoreOutcome

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class StepRunner:
    """Carries steps out for whoever calls, several operations at once; any thread may call.

    Args:
        deadline: seconds without an answer after which it gives up.
        place: what users call the store.
    """

    def __init__(self, store: ObjectStore, deadline: float, place: str) -> None:
        self._store = store
        self._deadline = deadline
        self._place = place
        self._pool = ThreadPoolExecutor(PARALLEL, "spool-steps")
        self._closed = threading.Event()

    def run(self, steps: Steps[_Result]) -> _Result:
        """
        Raises:
            SpoolFailed: IO when the store does not answer in time: what was asked last may have
            taken place, or still will; what the steps raise.
        """
        backoff = Backoff(0.05, 2.0, random.random)
        until: float | None = None

        def wait(attempts: int, reason: str) -> None:
            nonlocal until
            if attempts <= 1 or until is None:
                backoff.reset()
                until = time.monotonic() + self._deadline
            left = until - time.monotonic()
            if left <= 0 or self._closed.wait(min(backoff.next(), left)):
                raise SpoolFailed(
                    "IO",
                    f"{self._place} does not answer: {reason}",
                    "Check the network and the store; it is tried again",
                )

        return run(steps, self._carry_out, wait)

    def close(self) -> None:
        """Whoever waits for the store to come back gives up."""
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _carry_out(self, operations: tuple[Operation, ...]) -> tuple[StoreOutcome, ...]:
        if len(operations) == 1:
            return (self._store.carry_out(operations[0]),)
        return tuple(self._pool.map(self._store.carry_out, operations))


class Maintenance:
    """One thread for what takes long and need not be done now. Of the jobs of one name the latest
    that was submitted is done.

    Args:
        notify: called when `failure` was set.
    """

    def __init__(self, runner: StepRunner, notify: Callable[[], None]) -> None:
        self.failure: SpoolFailed | None = None
        """LOCKED, when another owner has come. Nothing else is final: it is tried again."""
        self._runner = runner
        self._notify = notify
        self._changed = threading.Condition()
        self._jobs: OrderedDict[str, Callable[[], Steps[Any]]] = OrderedDict()
        self._busy = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="spool-maintenance", daemon=True)
        self._thread.start()

    def submit(self, name: str, job: Callable[[], Steps[Any]]) -> None:
        with self._changed:
            if not self._closed and self.failure is None:
                self._jobs[name] = job
                self._changed.notify_all()

    def wait(self, timeout: float | None) -> bool:
        """Until there is nothing to do; false after ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs and not self._busy, timeout)

    def close(self, timeout: float = 10.0) -> None:
        """Finish the job under way, and begin no other."""
        with self._changed:
            self._closed = True
            self._jobs.clear()
            self._changed.notify_all()
        self._thread.join(timeout)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._jobs) or self._closed)
                if self._closed:
                    return
                name, job = self._jobs.popitem(last=False)
                self._busy = True
            try:
                self._runner.run(job())
            except SpoolFailed as error:
                log.warning("the spool could not %s: %s", name, error)
                if error.subclass == "LOCKED":
                    self.failure = error
                    with self._changed:
                        self._jobs.clear()
                    self._notify()
            except Exception:
                log.exception("the spool could not %s", name)
