"""Keeps the intakes of a query running for as long as its planner lives."""

from __future__ import annotations

import logging
import os
import threading

from aqueduct_spark.receivers.fleet import Fleet

log = logging.getLogger(__name__)

RENEWALS_PER_LEASE = 4
"""So that two renewals in a row may be late or lost."""


class Renewal:
    """A thread that renews the lease of all intakes of a fleet.

    Ends with `stop`, with the process, or when the process has lost its parent, the driver: a
    planner that hangs must not keep intakes for a query that is gone.
    """

    def __init__(self, fleet: Fleet, lease: float) -> None:
        self._fleet = fleet
        self._lease = lease
        self._over = threading.Event()
        self._driver = os.getppid()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._over.wait(self._lease / RENEWALS_PER_LEASE):
            if os.getppid() != self._driver:
                return
            try:
                self._fleet.renew(self._lease)
            except Exception:
                # A dead renewal thread would end all intakes later, far from the cause.
                log.exception("renewal of leases failed")
