"""The intakes of one query run and what keeps them: launched by it, or running on their own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from aqueduct_core.errors import AqueductError, InvalidOption, SpoolFailed
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.storage.layout import protocol_of, spools_below
from aqueduct_spark.formats.description import FormatDescription
from aqueduct_spark.intakes.adoption import Adoption
from aqueduct_spark.intakes.clients import IntakeClients
from aqueduct_spark.intakes.discovery import LaunchedIntakes, StandaloneIntakes
from aqueduct_spark.intakes.launch_settings import launch_order
from aqueduct_spark.intakes.rendezvous import Rendezvous, bind_host, outside_of, reachable_host
from aqueduct_spark.intakes.renewal import Renewal
from aqueduct_spark.model.partitions import LaunchOrder
from aqueduct_spark.options.read import StreamReadOptions
from aqueduct_spark.options.source import Dial, Listen, Standalone
from aqueduct_spark.options.tokens import Token, standalone_credentials
from aqueduct_spark.planning.launches import Absent, PendingLaunch
from aqueduct_spark.planning.views import Reader


class AttachedIntakes(Protocol):
    """What a planner needs of the intakes of its query. Ends with `close`."""

    clients: IntakeClients

    @property
    def launches(self) -> bool:
        """Whether a task can start an intake that is missing."""

    def order(
        self,
        intake: int,
        spool: str | None,
        elsewhere: Sequence[str] = (),
        given_out: Sequence[int] = (),
    ) -> LaunchOrder | None:
        """How a task has the intake running, which leaves the endpoints ``elsewhere`` to others
        and refuses a spool that would give out again what was ``given_out``;
        None where it runs on its own."""

    def access(self) -> Credentials | None:
        """What tasks call an intake with that runs on its own; None where the order holds it."""

    def directory(self, intake: int) -> Path | None:
        """Where its spool is, for those who can see it; None where that is not known."""

    def take_absent(self) -> Absent:
        """Hosts on which a spool was looked for in vain since the last call, by intake."""

    def begin_launches(self, intakes: Iterable[int]) -> None:
        """Tasks are about to be given the launches of these."""

    def pending(self) -> Mapping[int, PendingLaunch]:
        """The launches that are waited for, by intake."""

    def close(self) -> None: ...


def attach(
    description: FormatDescription, options: StreamReadOptions, readers: Sequence[Reader]
) -> AttachedIntakes:
    """The intakes of a query; nothing is launched by this.

    Raises:
        InvalidOption: CONFLICT where the spool has more of them than the query is to read, or one
            of another protocol.
        AqueductError: their credentials cannot be had.
    """
    source = options.source
    if isinstance(source, Standalone):
        return _Standalone(description, source, options, readers)
    if isinstance(source, Listen | Dial):
        return _Launched(description, source, options, readers)
    raise ValueError("a stream needs intakes")


class _Launched:
    """Intakes that tasks start. Tasks find them at a rendezvous, a lease ends them."""

    launches = True

    def __init__(
        self,
        description: FormatDescription,
        source: Listen | Dial,
        options: StreamReadOptions,
        readers: Sequence[Reader],
    ) -> None:
        self._description = description
        self._options = options
        self._spool = Path(source.spool or "")
        spools = _spools_in_sight(self._spool)
        _check_protocols(description, self._spool, spools)
        if isinstance(source, Listen):
            _check_all_are_read(self._spool, spools, options.intakes)
        self._credentials = Credentials.for_spool(self._spool)
        outside = outside_of(source)
        self._rendezvous = Rendezvous(bind_host(outside), self._credentials)
        self._address = f"{reachable_host(outside)}:{self._rendezvous.port}"
        discovery = LaunchedIntakes(self._rendezvous, options.intakes)
        adoption = Adoption(lambda intake, spool: self.order(intake, spool).settings)
        self.clients = IntakeClients(
            discovery,
            lambda: self._credentials,
            readers,
            description,
            adoption,
            takes_cursors=options.take_cursor,
        )
        self._renewal = Renewal(self.clients, options.lease)

    def order(
        self,
        intake: int,
        spool: str | None,
        elsewhere: Sequence[str] = (),
        given_out: Sequence[int] = (),
    ) -> LaunchOrder:
        access = self._credentials, self._address
        return launch_order(
            self._description, self._options, intake, *access, spool, elsewhere, given_out
        )

    def access(self) -> Credentials | None:
        return None

    def directory(self, intake: int) -> Path | None:
        return self._spool / f"intake-{intake}"

    def take_absent(self) -> Absent:
        return self._rendezvous.take_absent()

    def begin_launches(self, intakes: Iterable[int]) -> None:
        self._rendezvous.order(intakes, time.monotonic())

    def pending(self) -> Mapping[int, PendingLaunch]:
        return self._rendezvous.pending()

    def close(self) -> None:
        """Intakes stay until their lease is over, to be adopted."""
        self._renewal.stop()
        self.clients.close()
        self._rendezvous.shutdown()


class _Standalone:
    """Intakes that nobody starts or ends for a query."""

    launches = False

    def __init__(
        self,
        description: FormatDescription,
        source: Standalone,
        options: StreamReadOptions,
        readers: Sequence[Reader],
    ) -> None:
        self._source = source
        self._token = Token.of(source.auth)
        self.access()  # what cannot be read is an error at the start
        addresses = [str(address) for address in source.addresses]
        discovery = StandaloneIntakes(addresses, options.launch_timeout)
        self.clients = IntakeClients(
            discovery, self.access, readers, description, takes_cursors=options.take_cursor
        )
        self._renewal = Renewal(self.clients, None)

    def order(
        self,
        intake: int,
        spool: str | None,
        elsewhere: Sequence[str] = (),
        given_out: Sequence[int] = (),
    ) -> LaunchOrder | None:
        return None

    def access(self) -> Credentials:
        return standalone_credentials(self._source, self._token)

    def directory(self, intake: int) -> Path | None:
        return None

    def take_absent(self) -> Absent:
        return {}

    def begin_launches(self, intakes: Iterable[int]) -> None:
        return

    def pending(self) -> Mapping[int, PendingLaunch]:
        return {}

    def close(self) -> None:
        self._renewal.stop()
        self.clients.close()


def _spools_in_sight(spool: Path) -> list[int]:
    """The numbers of intakes; what is out of sight here is an error where it is needed."""
    try:
        return spools_below(spool)
    except OSError:
        return []


def _check_protocols(description: FormatDescription, spool: Path, intakes: Sequence[int]) -> None:
    """As their intakes would when they start; what cannot be read here is left to them."""
    for number in intakes:
        directory = spool / f"intake-{number}"
        with suppress(SpoolFailed):
            description.check_protocol(protocol_of(directory).name, directory)


def _check_all_are_read(spool: Path, spools: Sequence[int], intakes: int) -> None:
    """Intakes that listen share nothing by which the query would miss the rows of another one."""
    left_out = [number for number in spools if number >= intakes]
    if left_out:
        directory = spool / f"intake-{left_out[-1]}"
        raise InvalidOption(
            "CONFLICT",
            f"option numIntakes is {intakes}, and the rows of {directory} would not be read",
            f"Set numIntakes to {left_out[-1] + 1}, or, where nobody needs them any more, remove "
            "that directory",
        )


def stored_sizes(
    directory: Path, spool: str, log: int, start: int, end: int, step: int
) -> list[tuple[int, int]] | None:
    """As `IntakeClient.sizes`, from the directory of a spool whose intake does not run.

    None where it cannot be seen from here, or is another spool.
    """
    from aqueduct_core.spool.reader import SpoolReader

    try:
        with SpoolReader(directory) as reader:
            return reader.sizes(log, start, end, step) if reader.id == spool else None
    except AqueductError:
        return None
