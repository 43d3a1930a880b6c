"""The planner's leases on its cursors: one planner owns a cursor at a time."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Sequence

from aqueduct_core.errors import AqueductError, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_spark.planning.views import Reader

log = logging.getLogger(__name__)

LEASE_SECONDS = 5.0
"""Seconds for which a lease of a cursor lasts; it is renewed about every second."""

TAKE_OVER = 8.0
"""Seconds of waiting for the lease of another planner to run out, which it does when that one was
killed."""

RETRY_PAUSE = 0.25
"""Seconds between two tries of it."""

HOST = 128
"""Characters of the name of our host that others see."""


class PlannerLeases:
    """Leases every cursor of a query in the spool of each of its intakes.

    A cursor belongs to the query for good once a lease carries the id of the query (`own`). With
    ``takes`` the query takes cursors that belong to another one, in spools of which its checkpoint
    knows nothing: a query that has read a spool never takes its cursor back.

    May be used from several threads. Ends with `release`; a lease that is not renewed runs out.
    """

    def __init__(self, readers: Sequence[Reader], takes: bool = False) -> None:
        self._readers = readers
        self._takes = takes
        self._known: frozenset[str] = frozenset()
        self.owner = secrets.token_hex(16)
        self.query = ""
        self._where = f"host {socket.gethostname()[:HOST]}, process {os.getpid()}"
        self._lock = threading.Lock()
        self._held: dict[str, IntakeClient] = {}
        self._ours: set[str] = set()
        self._lost: SpoolFailed | None = None

    def own(self, query: str) -> bool:
        """The query has this id, which Spark has written down ("": none yet). Returns whether it
        is a new one: then the cursors are to be leased anew, with the id."""
        with self._lock:
            if not query or query == self.query:
                return False
            self.query = query
            self._held.clear()
            return True

    def know(self, spools: Iterable[str]) -> None:
        """The spools, by id, in which the query has a position."""
        with self._lock:
            self._known = frozenset(spools)

    def ensure(self, status: IntakeStatus, client: IntakeClient) -> bool:
        """Lease the cursors in the spool whose status this is, which ``client`` serves.

        Returns whether they were not held before: then what was known of the spool is out of date.

        Waits up to `TAKE_OVER` for a planner that is gone, where there was no lease before, unless
        it is one of another query.

        Raises:
            SpoolFailed: CURSOR_IN_USE: a cursor belongs to another query, or another one has it, or
                took it over.
            AqueductError: the intake does not answer.
        """
        spool = status.id
        with self._lock:
            if self._lost is not None:
                raise self._lost
            if self._held.get(spool) is client:
                return False
            takes = self._takes and spool not in self._known and self._foreign(status)
            waits = takes or (spool not in self._ours and not self._foreign(status))
        longest = TAKE_OVER if waits else 0.0
        give_up = time.monotonic() + longest
        logged = False
        while True:
            try:
                if takes:
                    self._take(status, client)
                    takes = False
                self._lease(client, self.query)
                break
            except SpoolFailed as error:
                if error.subclass != "CURSOR_IN_USE" or time.monotonic() > give_up:
                    raise
                if not logged:
                    log.info("waiting up to %g s for a cursor: %s", longest, error)
                    logged = True
                time.sleep(RETRY_PAUSE)
        with self._lock:
            self._held[spool] = client
            self._ours.add(spool)
        return True

    def others(self, status: IntakeStatus, client: IntakeClient) -> tuple[str, ...]:
        """The cursors in that spool that other planners hold. Ours are held by nobody after this.

        Waits up to `TAKE_OVER` for the leases of planners that are gone.

        Raises:
            SpoolFailed: CURSOR_IN_USE, as `ensure`: what is another query's is not ours to judge.
            AqueductError: the intake does not answer.
        """
        self.ensure(status, client)
        self._let_go(status.id)
        give_up = time.monotonic() + TAKE_OVER
        while (held := client.status().held) and time.monotonic() <= give_up:
            time.sleep(RETRY_PAUSE)
        return held

    def renew(self) -> None:
        """Keep what is held. `ensure` raises when another query took a cursor over."""
        with self._lock:
            held, query = dict(self._held), self.query
        for spool, client in held.items():
            try:
                self._lease(client, query)
            except AqueductError as error:
                with self._lock:
                    if self.query != query:
                        return  # `own` came in between: an answer without the id says nothing
                    if isinstance(error, SpoolFailed) and error.subclass == "CURSOR_IN_USE":
                        self._lost = error
                    elif self._held.get(spool) is client:
                        # The intake is gone or another one; the next look at it leases anew.
                        del self._held[spool]

    def report_given_out(self, client: IntakeClient, reader: Reader, ends: Sequence[int]) -> None:
        """Have an intake whose logs end before ``ends`` take no more rows: it would give offsets
        out again that the query has read, and has acked its rows then.

        Raises:
            AqueductError: it does not answer; OFFSET_AHEAD, as it should.
        """
        client.hold(
            reader.cursor,
            self.owner,
            view=reader.view,
            seconds=LEASE_SECONDS,
            query=self.query,
            where=self._where,
            given_out=ends,
        )

    def begin_anew(self, client: IntakeClient) -> None:
        """Have the cursors where the stored rows begin: those of an earlier query are ahead.

        Raises:
            AqueductError: as `ensure`.
        """
        for reader in self._readers:
            client.release(reader.cursor, self.owner)
            client.drop_cursor(reader.cursor, query=self.query)
        self._lease(client, self.query)

    def release(self) -> None:
        """Give all leases back, so that the next run need not wait. Never raises."""
        with self._lock:
            spools = list(self._held)
        for spool in spools:
            self._let_go(spool)

    def _let_go(self, spool: str) -> None:
        with self._lock:
            client = self._held.pop(spool, None)
        if client is None:
            return
        try:
            for reader in self._readers:
                client.release(reader.cursor, self.owner)
        except AqueductError as error:
            log.debug("a lease was not given back: %s", error)

    def _lease(self, client: IntakeClient, query: str) -> None:
        for reader in self._readers:
            client.hold(
                reader.cursor,
                self.owner,
                view=reader.view,
                seconds=LEASE_SECONDS,
                query=query,
                where=self._where,
            )

    def _take(self, status: IntakeStatus, client: IntakeClient) -> None:
        for reader in self._readers:
            owner = status.owners.get(reader.cursor)
            client.give_cursor(reader.cursor)
            if owner is not None:
                log.warning(
                    "takeCursor: cursor %r of spool %s is taken from query %s (%s), which is "
                    "refused from now on",
                    reader.cursor,
                    status.id,
                    owner.query,
                    owner.where,
                )

    def _foreign(self, status: IntakeStatus) -> bool:
        owners = [status.owners.get(reader.cursor) for reader in self._readers]
        return any(owner is not None and owner.query != self.query for owner in owners)
