"""The planner's view of its intakes: one client each, kept while it answers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from aqueduct_core.errors import AqueductError
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.tickets import IntakeStatus
from aqueduct_spark.model.offsets import StreamOffset
from aqueduct_spark.receivers.registrations import Registration
from aqueduct_spark.receivers.rendezvous import Rendezvous

log = logging.getLogger(__name__)

CURSOR = "query"
"""The cursor that a query commits in the spool of an intake it launched: such a spool has one
reader, so its name needs no identity, and a query that starts anew leaves no other one behind."""

STATUS_TIMEOUT = 5.0
"""Seconds after which an intake counts as gone; a data task finds out by itself as well."""


TURN = 0.05
"""Seconds for which one of several intakes is asked for news."""


class _Lookup(NamedTuple):
    address: str
    spool_id: str | None


class Fleet:
    """Finds intakes by registration or by the address in an offset, and asks them.

    May be used from several threads. Ends with `close`.
    """

    def __init__(self, rendezvous: Rendezvous, credentials: Credentials, intakes: int) -> None:
        self._rendezvous = rendezvous
        self._credentials = credentials
        self._intakes = intakes
        self._lock = threading.Lock()
        self._clients: dict[int, IntakeClient] = {}

    def observe(self, start: StreamOffset) -> dict[int, IntakeStatus]:
        """The status of each intake that answers now. Those that are ending do not count."""
        seen: dict[int, IntakeStatus] = {}
        for intake in range(self._intakes):
            for lookup in self._lookups(intake, start):
                status = self._ask(intake, lookup)
                if status is not None and not status.draining:
                    seen[intake] = status
                    self._make_known(intake, lookup.address, status)
                    break
        return seen

    def await_news(self, seen: Mapping[int, IntakeStatus], timeout: float) -> None:
        """Return when an intake in ``seen`` is durable beyond what is seen, or after ``timeout``.

        An intake that stops answering is news too. Several are asked in turn, `TURN` seconds
        each: without threads there is nothing that could hold up the end of the process.
        """
        with self._lock:
            waiting = [(self._clients[i], seen[i].ends) for i in seen if i in self._clients]
        deadline = time.monotonic() + timeout
        turn = timeout if len(waiting) == 1 else TURN
        while waiting and (remaining := deadline - time.monotonic()) > 0:
            for client, ends in waiting:
                try:
                    status = client.wait(ends, min(turn, remaining))
                except AqueductError:
                    return
                if status.draining or any(
                    now > then for now, then in zip(status.ends, ends, strict=False)
                ):
                    return

    def commit(self, end: StreamOffset) -> None:
        """Tell each intake that is known what the query is done with. Never raises for one that
        is gone: the next commit says the same and more."""
        for intake, position in end.spool.items():
            with self._lock:
                client = self._clients.get(intake)
            if client is None:
                continue
            try:
                client.commit(CURSOR, position.to, spool=position.id)
            except AqueductError as error:
                log.warning("commit of intake %d: %s", intake, error)

    def renew(self, lease: float) -> None:
        """Keep all intakes running that are registered or were seen."""
        with self._lock:
            addresses = {i: client.address for i, client in self._clients.items()}
        addresses |= {i: held.at for i, held in self._rendezvous.registered().items()}
        for intake, address in addresses.items():
            try:
                self._client(intake, address).renew(lease)
            except AqueductError:
                self._forget(intake, address)

    def close(self) -> None:
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def _lookups(self, intake: int, start: StreamOffset) -> list[_Lookup]:
        """Where the intake may be, best first. The spool id is known where nothing else vouches
        for what listens at an address."""
        lookups: list[_Lookup] = []
        held = self._rendezvous.registered().get(intake)
        if held is not None:
            lookups.append(_Lookup(held.at, held.id))
        position = start.spool.get(intake)
        if position is not None and position.at not in {lookup.address for lookup in lookups}:
            lookups.append(_Lookup(position.at, position.id))
        return lookups

    def _ask(self, intake: int, lookup: _Lookup) -> IntakeStatus | None:
        try:
            status = self._client(intake, lookup.address).status()
        except AqueductError as error:
            log.debug("intake %d does not answer at %s: %s", intake, lookup.address, error)
            self._forget(intake, lookup.address)
            return None
        if lookup.spool_id is not None and status.id != lookup.spool_id:
            self._forget(intake, lookup.address)
            return None
        return status

    def _make_known(self, intake: int, address: str, status: IntakeStatus) -> None:
        """Tasks look for an adopted intake at the rendezvous, as for one that was launched."""
        self._rendezvous.register(
            Registration(
                intake, status.id, status.epoch, address, status.pid, status.listen, fingerprint=""
            )
        )

    def _client(self, intake: int, address: str) -> IntakeClient:
        with self._lock:
            client = self._clients.get(intake)
            if client is not None and client.address == address:
                return client
            fresh = IntakeClient(address, self._credentials, action_timeout=STATUS_TIMEOUT)
            self._clients[intake] = fresh
        if client is not None:
            client.close()
        return fresh

    def _forget(self, intake: int, address: str) -> None:
        with self._lock:
            client = self._clients.get(intake)
            if client is None or client.address != address:
                return
            del self._clients[intake]
        client.close()
