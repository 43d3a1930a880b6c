"""The planner's view of its intakes: one client each, kept while it answers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from aqueduct_core.errors import AqueductError, IntakeFailed, InvalidOption, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_spark.formats.description import FormatDescription
from aqueduct_spark.intakes.adoption import Adoption
from aqueduct_spark.intakes.cursor_leases import PlannerLeases
from aqueduct_spark.intakes.discovery import Discovery
from aqueduct_spark.model.offsets import StreamOffset
from aqueduct_spark.planning.views import Reader, Seen, see

log = logging.getLogger(__name__)

STATUS_TIMEOUT = 5.0
"""Seconds after which an intake counts as gone; a data task finds out by itself as well."""

SILENT_SECONDS = 1.0
"""A call that takes so long is told of: an intake answers from memory."""

TURN = 0.05
"""Seconds for which one of several intakes is waited for."""


class IntakeClients:
    """Finds the intakes of a query, leases its cursors there, and calls them.

    ``readers`` are the cursors; the first is that of the rows. ``credentials`` are called
    whenever an intake is dialled. ``description`` reads the rows of all of them. ``adoption`` says
    which may go on; without it all may. ``takes_cursors``: as `PlannerLeases`. May be used from
    several threads. Ends with `close`.
    """

    def __init__(
        self,
        discovery: Discovery,
        credentials: Callable[[], Credentials],
        readers: Sequence[Reader],
        description: FormatDescription,
        adoption: Adoption | None = None,
        takes_cursors: bool = False,
    ) -> None:
        self._discovery = discovery
        self._credentials = credentials
        self._reader = readers[0]
        self._leases = PlannerLeases(readers, takes_cursors)
        self._description = description
        self._adoption = adoption
        self._lock = threading.Lock()
        self._clients: dict[str, IntakeClient] = {}
        self._addresses: dict[int, str] = {}
        self._statuses: dict[int, IntakeStatus] = {}
        self._last: dict[int, IntakeStatus] = {}
        self._looked = 0.0
        self._start = StreamOffset()
        self._failures: dict[str, AqueductError] = {}

    def observe(self, start: StreamOffset) -> dict[int, Seen]:
        """Each intake that answers now, with its cursors leased, but for those that are ending.

        Raises:
            SpoolFailed: CURSOR_IN_USE.
            InvalidOption: CONFLICT where one is of another protocol than the query reads, and as
                `Adoption.accepts`.
            AqueductError: as `Discovery.find`.
        """
        self._leases.know(position.id for position in start.spool.values())
        self._start = start
        found = self._discovery.find(start, self._status_at)
        statuses: dict[int, IntakeStatus] = {}
        for intake, (address, status) in found.items():
            self._description.check_protocol(status.protocol, f"The intake at {address}")
            client = self._client(address)
            try:
                if not self._adopted(intake, status, client):
                    continue
                if self._leases.ensure(status, client):
                    # nothing is truncated behind us from now on
                    status = structs.replace(client.status(), opened=status.opened)
            except InvalidOption:
                raise
            except SpoolFailed as error:
                if error.subclass == "CURSOR_IN_USE":
                    raise
                log.warning("intake %d: %s", intake, error)
                continue
            except AqueductError as error:
                log.debug("intake %d is gone: %s", intake, error)
                self._failed(client, error)
                continue
            statuses[intake] = status
        expected = set(self._discovery.expected(start).values())
        with self._lock:
            self._addresses = {intake: found[intake][0] for intake in statuses}
            self._statuses = statuses
            self._last.update(statuses)
            self._failures = {at: why for at, why in self._failures.items() if at in expected}
            self._looked = time.monotonic()
        return {intake: see(status, self._reader) for intake, status in statuses.items()}

    def _adopted(self, intake: int, status: IntakeStatus, client: IntakeClient) -> bool:
        adoption = self._adoption
        return adoption is None or adoption.accepts(intake, status, client, self._leases)

    def own(self, query: str) -> bool:
        """The cursors belong to the query of this id, with the next look; see `PlannerLeases`."""
        return self._leases.own(query)

    def await_rows(self, seen: Mapping[int, Seen], timeout: float) -> None:
        """Return when an intake in ``seen`` is durable beyond what is seen, or after ``timeout``.

        It returns, too, when one stops answering. Several are waited for in turn, `TURN` seconds
        each: without threads there is nothing that could hold up the end of the process.
        """
        waiting = [
            (client, status.ends)
            for intake, status in seen.items()
            if (client := self.client(intake)) is not None
        ]
        deadline = time.monotonic() + timeout
        turn = timeout if len(waiting) == 1 else TURN
        while waiting and (remaining := deadline - time.monotonic()) > 0:
            for client, ends in waiting:
                try:
                    status = client.wait(ends, min(turn, remaining), view=self._reader.view)
                except AqueductError:
                    return
                now = see(status, self._reader).ends
                if status.draining or any(a > b for a, b in zip(now, ends, strict=False)):
                    return
        if not waiting:
            time.sleep(max(0.0, deadline - time.monotonic()))

    def commit(self, end: StreamOffset) -> None:
        """Commit at each intake that is known what the query is done with. One that is gone is
        passed over: the next commit says the same and more.

        Raises:
            SpoolFailed: CURSOR_IN_USE when the cursor belongs to another query, or was taken over.
        """
        for intake, position in end.spool.items():
            self.commit_cursor(intake, self._reader, position.to, position.id, position.reset)

    def commit_cursor(
        self, intake: int, reader: Reader, ends: Sequence[int], spool: str, reset: str = ""
    ) -> None:
        """The same for one cursor in one spool."""
        client = self.client(intake)
        if client is None:
            return
        leases = self._leases
        _unless_in_use(
            intake,
            lambda: client.commit(
                reader.cursor,
                ends,
                spool=spool,
                owner=leases.owner,
                view=reader.view,
                query=leases.query,
                reset=reset,
            ),
        )

    def report_given_out(self, at: StreamOffset) -> None:
        """Report to each intake that serves the spool that was read, how far that was
        (`PlannerLeases.report_given_out`). One that is gone is passed over."""
        statuses = self.statuses()
        for intake, position in at.spool.items():
            client, status = self.client(intake), statuses.get(intake)
            if client is None or status is None or status.id != position.id:
                continue
            try:
                self._leases.report_given_out(client, self._reader, position.to)
            except AqueductError as error:
                log.warning("intake %d: %s", intake, error)

    def begin_anew(self, intake: int) -> None:
        """Have the cursors in one spool where its rows begin. An intake that is gone meanwhile is
        passed over.

        Raises:
            SpoolFailed: CURSOR_IN_USE.
        """
        client = self.client(intake)
        if client is not None:
            _unless_in_use(intake, lambda: self._leases.begin_anew(client))

    def drop_cursor(self, intake: int, cursor: str) -> None:
        """Have a cursor forgotten that nobody needs. One that is in use stays."""
        client = self.client(intake)
        try:
            if client is not None:
                client.drop_cursor(cursor, query=self._leases.query)
        except AqueductError as error:
            log.info("cursor %s of intake %d: %s", cursor, intake, error)

    def client(self, intake: int) -> IntakeClient | None:
        """The client of an intake that was there at the last look."""
        with self._lock:
            return self._clients.get(self._addresses.get(intake, ""))

    def statuses(self) -> dict[int, IntakeStatus]:
        """What the intakes said of themselves at the last look."""
        with self._lock:
            return dict(self._statuses)

    def last_statuses(self) -> dict[int, IntakeStatus]:
        """What each intake said of itself last, also of those that do not answer any more."""
        with self._lock:
            return dict(self._last)

    def renew_cursors(self) -> None:
        self._leases.renew()

    def renew_leases(self, lease: float) -> None:
        """Keep all intakes running that are registered or were seen."""
        with self._lock:
            addresses = set(self._addresses.values())

        def renew(address: str) -> None:
            client = self._client(address)
            try:
                client.renew(lease)
            except AqueductError as error:
                self._failed(client, error)
            else:
                self._failures.pop(address, None)

        _at_once(renew, addresses | self._discovery.addresses())

    def refresh(self, seconds: float) -> None:
        """Ask the intakes how they are, where that is not known for so long: a batch runs."""
        with self._lock:
            if time.monotonic() - self._looked < seconds:
                return
            addresses = dict(self._addresses)
        answers: dict[str, IntakeStatus | AqueductError] = {}

        def ask(address: str) -> None:
            answers[address] = self._status_at(address)

        _at_once(ask, set(addresses.values()))
        statuses = {
            intake: answer
            for intake, address in addresses.items()
            if isinstance(answer := answers.get(address), IntakeStatus)
        }
        with self._lock:
            if self._addresses == addresses:
                self._statuses = self._statuses | statuses
                self._last.update(statuses)
                self._looked = time.monotonic()

    def troubles(self, now: float) -> dict[str, AqueductError]:
        """Who does not answer at monotonic ``now``, of the intakes that are known and those that
        run on their own: by what people call each, and why."""
        with self._lock:
            clients, failures = dict(self._clients), dict(self._failures)
        found: dict[str, AqueductError] = {}
        for name, address in self._discovery.expected(self._start).items():
            client = clients.get(address)
            silent = 0.0 if client is None else client.silent(now)
            if address in failures:
                found[name] = failures[address]
            elif silent >= SILENT_SECONDS:
                what = f"nothing has come from {address} for {silent:.0f} s"
                found[name] = IntakeFailed("UNREACHABLE", what, "See whether its host is there")
        return found

    def close(self) -> None:
        """Give the cursors back and hang up."""
        self._leases.release()
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def _status_at(self, address: str) -> IntakeStatus | AqueductError:
        try:
            client = self._client(address)
        except AqueductError as error:  # of its credentials
            return error
        try:
            status = client.status()
        except AqueductError as error:
            log.debug("no intake answers at %s: %s", address, error)
            self._failed(client, error)
            return error
        if status.draining:
            ending = IntakeFailed(
                "UNREACHABLE", f"the intake at {address} is about to end", "Start it again"
            )
            self._failures[address] = ending
            return ending
        self._failures.pop(address, None)
        return status

    def _client(self, address: str) -> IntakeClient:
        with self._lock:
            client = self._clients.get(address)
            if client is None:
                client = IntakeClient(address, self._credentials(), action_timeout=STATUS_TIMEOUT)
                self._clients[address] = client
        return client

    def _failed(self, client: IntakeClient, error: AqueductError) -> None:
        """The next call dials anew, with the credentials as they are then."""
        self._failures[client.address] = error
        with self._lock:
            if self._clients.get(client.address) is not client:
                return
            del self._clients[client.address]
        client.close()


def _at_once(call: Callable[[str], None], addresses: set[str]) -> None:
    """Call each of them at the same time: those that do not answer hold up no other one, whose
    lease would run out. The threads do not hold up the end of the process."""
    if len(addresses) == 1:
        call(*addresses)
        return
    threads = [threading.Thread(target=call, args=(each,), daemon=True) for each in addresses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _unless_in_use(intake: int, call: Callable[[], None]) -> None:
    """Do what may be left undone where the intake is gone; only a cursor in use is an error."""
    try:
        call()
    except AqueductError as error:
        if isinstance(error, SpoolFailed) and error.subclass == "CURSOR_IN_USE":
            raise
        log.warning("intake %d: %s", intake, error)
