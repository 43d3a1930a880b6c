"""Keeps the intakes and the cursors of a query for as long as its planner lives."""

from __future__ import annotations

import logging
import os
import threading

from aqueduct_spark.intakes.clients import IntakeClients

log = logging.getLogger(__name__)

RENEWALS_PER_LEASE = 4
"""So that two renewals in a row may be late or lost."""

LONGEST_INTERVAL = 1.0
"""Seconds between two renewals at most; the lease of a cursor lasts some of them."""

ORPHAN_GRACE = 5.0
"""Seconds after which a planner without its driver ends, whatever it is waiting for."""


class Renewal:
    """A thread that renews the leases of all intakes of a query, and those of its cursors.

    ``lease`` None: the intakes run on their own, and have no lease of this query.

    Ends with `stop`, with the process, or when the process has lost its parent, the driver: a
    planner that hangs must not keep intakes for a query that is gone, and ends itself.
    """

    def __init__(self, clients: IntakeClients, lease: float | None) -> None:
        self._clients = clients
        self._lease = lease
        self._interval = LONGEST_INTERVAL
        if lease is not None:
            self._interval = min(LONGEST_INTERVAL, lease / RENEWALS_PER_LEASE)
        self._over = threading.Event()
        self._driver = os.getppid()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            if os.getppid() != self._driver:
                if not self._over.wait(ORPHAN_GRACE):
                    os._exit(1)
                return
            try:
                # Intakes first: a cursor that runs out is leased again, an intake is gone.
                if self._lease:
                    self._clients.renew_leases(self._lease)
                self._clients.renew_cursors()
                self._clients.refresh(LONGEST_INTERVAL)
            except Exception:
                # A dead renewal thread would end all intakes later, far from the cause.
                log.exception("a renewal failed")
