"""Where the intakes of a query may be found, and which number each has."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import structs

from aqueduct_core.errors import (
    AqueductError,
    AuthFailed,
    IntakeFailed,
    InvalidOption,
    TlsFailed,
)
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_spark.intakes.rendezvous import Registration, Rendezvous
from aqueduct_spark.model.offsets import StreamOffset

StatusAt: TypeAlias = Callable[[str], IntakeStatus | AqueductError]
"""The status of the intake at an address, or why none answers there that goes on."""


class Discovery(Protocol):
    """Finds intakes."""

    def find(self, start: StreamOffset, status_at: StatusAt) -> dict[int, tuple[str, IntakeStatus]]:
        """HostPort and status of each intake that answers, by its number; ``opened`` of those alone
        that were started for this run of the query.

        Raises:
            AqueductError: those that answer are not the ones of the query, or one that must run
                did not answer for too long.
        """

    def addresses(self) -> set[str]:
        """Where intakes are registered that may not have been called yet."""

    def expected(self, start: StreamOffset) -> dict[str, str]:
        """Where each intake that was there is to answer, by what people call it."""


class LaunchedIntakes:
    """Intakes that tasks launch: they are registered at the rendezvous, or were at the address in
    the offset and outlived their driver.
    """

    def __init__(self, rendezvous: Rendezvous, intakes: int) -> None:
        self._rendezvous = rendezvous
        self._intakes = intakes

    def find(self, start: StreamOffset, status_at: StatusAt) -> dict[int, tuple[str, IntakeStatus]]:
        found: dict[int, tuple[str, IntakeStatus]] = {}
        for intake in sorted({*range(self._intakes), *start.spool}):
            held = self._rendezvous.registered().get(intake)
            position = start.spool.get(intake)
            # Nothing else vouches for what listens at an address than the spool it should serve.
            lookups = [(held.at, held.id)] if held is not None else []
            if position is not None and (held is None or held.at != position.at):
                lookups.append((position.at, position.id))
            for address, spool in lookups:
                status = status_at(address)
                if isinstance(status, IntakeStatus) and status.id == spool:
                    # Tasks look for an adopted intake at the rendezvous, as for a launched one.
                    adopted = Registration.of(intake, address, status)
                    ours = held is not None and held.started and adopted.same_process(held)
                    found[intake] = (
                        address,
                        status if ours else structs.replace(status, opened=()),
                    )
                    if held is None or not adopted.same_process(held):
                        self._rendezvous.register(adopted, held)
                    break
        return found

    def addresses(self) -> set[str]:
        return {held.at for held in self._rendezvous.registered().values()}

    def expected(self, start: StreamOffset) -> dict[str, str]:
        places = {intake: position.at for intake, position in start.spool.items()}
        places |= {intake: held.at for intake, held in self._rendezvous.registered().items()}
        return {f"intake {intake}": at for intake, at in sorted(places.items())}


class StandaloneIntakes:
    """Intakes that run on their own, at known addresses. They are waited for ``timeout`` seconds
    until all of them were there once; from then on it is for the query to say how long.

    Credentials that none of them takes are an error at once, as long as they never were taken.
    """

    def __init__(self, addresses: Sequence[str], timeout: float) -> None:
        self._addresses = addresses
        self._timeout = timeout
        self._missing_since: float | None = None
        self._trusted = False
        self._complete = False

    def find(self, start: StreamOffset, status_at: StatusAt) -> dict[int, tuple[str, IntakeStatus]]:
        answers = [status_at(address) for address in self._addresses]
        statuses = [a if isinstance(a, IntakeStatus) else None for a in answers]
        known = {number: position.id for number, position in start.spool.items()}
        places = numbered(known, [None if s is None else s.id for s in statuses])
        found: dict[int, tuple[str, IntakeStatus]] = {}
        for number, place in places.items():
            status = statuses[place]
            if status is not None:
                found[number] = (self._addresses[place], structs.replace(status, opened=()))
        self._trusted = self._trusted or bool(found)
        if len(found) == len(self._addresses):
            self._missing_since, self._complete = None, True
            return found
        self._check_wait(answers, known)
        return found

    def addresses(self) -> set[str]:
        return set()

    def expected(self, start: StreamOffset) -> dict[str, str]:
        return {f"intake at {address}": address for address in self._addresses}

    def _check_wait(
        self, answers: Sequence[IntakeStatus | AqueductError], known: dict[int, str]
    ) -> None:
        for answer in answers:
            if isinstance(answer, AuthFailed | InvalidOption | TlsFailed) and not self._trusted:
                raise answer
        if self._complete:
            return
        now = time.monotonic()
        self._missing_since = now if self._missing_since is None else self._missing_since
        if now - self._missing_since <= self._timeout:
            return
        reasons = [a.what for a in answers if isinstance(a, AqueductError)]
        served = {answer.id for answer in answers if isinstance(answer, IntakeStatus)}
        spools = sorted(spool for spool in known.values() if spool not in served)
        if spools:
            reasons.append(f"none serves the spools {', '.join(spools)}")
        raise IntakeFailed(
            "UNREACHABLE",
            f"Standalone intakes were not there for {self._timeout:g} s: {'; '.join(reasons)}",
            "Check that they run and that option 'intakes' names their Flight addresses, or raise "
            "'launchTimeout'",
        )


def numbered(known: Mapping[int, str], served: Sequence[str | None]) -> dict[int, int]:
    """The place in ``served`` of the standalone intake with each number: a pure function.

    An entry of the offset belongs to a spool, whatever the order of the addresses in option
    ``intakes`` and whichever of them answer.

    ``known`` are the spools of the offset by number; ``served`` the spool that each address
    answers with, None where nobody answers. A spool that the offset knows keeps its number. One
    that it does not know gets the number of its place where that is free, else the lowest free
    one. While some address does not answer, numbers are kept for the known spools that have not
    been seen; when all answer, a spool that is not known takes the number of one that is served
    nowhere: it was replaced.

    Raises:
        InvalidOption: BAD_VALUE when two addresses serve the same spool.
    """
    places: dict[str, int] = {}
    for place, spool in enumerate(served):
        if spool is None:
            continue
        if spool in places:
            raise InvalidOption(
                "BAD_VALUE",
                f"Option 'intakes' names the intake of spool {spool} twice, as number "
                f"{places[spool] + 1} and {place + 1}",
                "Name each intake once",
            )
        places[spool] = place
    found = {number: places.pop(spool) for number, spool in known.items() if spool in places}
    taken = set(found)
    if None in served:
        taken |= set(known)
    free = [number for number in range(len(served)) if number not in taken]
    for place in sorted(places.values()):
        number = place if place in free else next(iter(free), None)
        if number is not None:
            free.remove(number)
            found[number] = place
    return found
