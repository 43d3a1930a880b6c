"""The intakes that a command line names, asked again and again."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from aqueduct_core.cli.console.arguments import read_token
from aqueduct_core.cli.spool.places import Place, places
from aqueduct_core.errors import AqueductError, InvalidOption, SpoolFailed
from aqueduct_core.flight.activity import ChannelQuery
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import KEYS_FILE, Credentials
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.intake.control import status_file
from aqueduct_core.monitoring.health import ObservedIntake, observed
from aqueduct_core.primitives.host_port import HostPort

ANSWER_SECONDS = 5.0
AT_ONCE = 16


def add_places(parser: argparse.ArgumentParser) -> None:
    """The intakes, and how those that are named by address are asked."""
    parser.add_argument(
        "places",
        nargs="+",
        metavar="PLACE",
        help="directory of an intake, the spool option of a query, or HOST:PORT of Flight",
    )
    parser.add_argument(
        "--ca", type=Path, metavar="FILE", help="of intakes named HOST:PORT: their intake-ca.pem"
    )
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="the same: their intake-token"
    )


class WatchedIntakes:
    """The intakes in directories and at addresses; a context manager.

    Directories are looked at each time: intakes that are new are there, and one that was started
    again is found at its new address.

    Raises where it is made:
        InvalidOption: MISSING, BAD_VALUE. SpoolFailed: IO where a directory holds no spool.
    """

    def __init__(self, named: Sequence[str], ca: Path | None, token_file: Path | None) -> None:
        for each in named:
            if "://" in each:
                raise InvalidOption(
                    "BAD_VALUE",
                    f"{each} is a URL, and intakes are asked through Flight",
                    "Name the directory of its spool, or the HOST:PORT that it printed as intakes=",
                )
        self._directories = [Path(each) for each in named if not _is_address(each)]
        self._addresses = [each for each in named if _is_address(each)]
        self._credentials = _credentials(self._addresses, ca, token_file)
        self._clients: dict[str, IntakeClient] = {}
        for directory in self._directories:
            places(directory)
        self._pool = ThreadPoolExecutor(AT_ONCE)

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        return cls(options.places, options.ca, options.token_file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for client in self._clients.values():
            client.close()

    def observe(self, query: ChannelQuery) -> list[ObservedIntake]:
        """All of them, at once; those that do not answer within `ANSWER_SECONDS` with why."""
        asked = [
            (name, self._pool.submit(observed, name, look)) for name, look in self._looks(query)
        ]
        return [answer.result() for _, answer in asked]

    def _looks(self, query: ChannelQuery) -> Iterator[tuple[str, _Look]]:
        for directory in self._directories:
            for place in places(directory):
                yield str(place.directory), _Look(self, place, query)
        for address in self._addresses:
            yield address, _Look(self, address, query)

    def look(self, at: Place | str, query: ChannelQuery) -> IntakeStatus:
        """Raises: AqueductError."""
        name = at if isinstance(at, str) else str(at.directory)
        client = self._clients.get(name)
        if client is None or (isinstance(at, Place) and client.address != _flight(at)):
            client = self._clients[name] = self._dialled(at)
        return client.observe(query)

    def _dialled(self, at: Place | str) -> IntakeClient:
        if isinstance(at, str):
            assert self._credentials is not None
            return IntakeClient(at, self._credentials, action_timeout=ANSWER_SECONDS)
        address = _flight(at)
        for directory in (at.directory, at.directory.parent):
            # looked at before: reading credentials where there are none would make some
            if (directory / KEYS_FILE).is_file():
                credentials = Credentials.for_spool(directory).for_clients()
                return IntakeClient(address, credentials, action_timeout=ANSWER_SECONDS)
        raise SpoolFailed(
            "IO",
            f"the keys of {at.directory} are not beside it",
            "Name the intake as HOST:PORT, with --ca and --token-file",
        )


class _Look:
    def __init__(self, watched: WatchedIntakes, at: Place | str, query: ChannelQuery) -> None:
        self._watched, self._at, self._query = watched, at, query

    def __call__(self) -> IntakeStatus:
        return self._watched.look(self._at, self._query)


def _flight(place: Place) -> str:
    status = status_file.read(place.directory) or {}
    address = status.get("flight")
    if not isinstance(address, str) or status.get("state") != "ready":
        why = status.get("error") or status.get("reason") or "none has said that it is ready"
        raise SpoolFailed(
            "IO",
            f"no intake serves {place.directory}: {why}",
            "Start its query or intake; aqueduct spool ls shows what it holds",
        )
    return address


def _is_address(text: str) -> bool:
    try:
        HostPort.parse(text, 1)
    except (ValueError, AqueductError):
        return False
    return not Path(text).exists()


def _credentials(
    addresses: Sequence[str], ca: Path | None, token_file: Path | None
) -> Credentials | None:
    if not addresses:
        return None
    token = read_token(token_file)
    if ca is None or token is None:
        raise InvalidOption(
            "MISSING",
            f"{addresses[0]} is an address, and asking it needs its authority and token",
            "Give --ca intake-ca.pem and --token-file intake-token, as the intake printed them",
        )
    try:
        return Credentials(token, ca.read_bytes())
    except OSError as error:
        raise InvalidOption(
            "BAD_VALUE", f"--ca {ca} cannot be read: {error.strerror}", "Name a PEM file"
        ) from None
