"""The spool directories that a command line names, and who owns each."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from aqueduct_core.errors import IntakeFailed, InvalidOption, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import KEYS_FILE, Credentials
from aqueduct_core.intake.adapter import adapter_named
from aqueduct_core.intake.control import status_file
from aqueduct_core.intake.storage.layout import LAYOUT, layout_of, number_of, protocol_of
from aqueduct_core.intake.storage.rows import RowFormat
from aqueduct_core.primitives.json_file import unusable
from aqueduct_core.spool import SpoolReader, holder
from aqueduct_core.spool.identity import IDENTITY

GONE_SECONDS = 10.0
"""For the last write of an intake that was killed to come to its end."""

PAUSE = 0.1

SHOWN = 8
"""Spools that an error names."""

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Place:
    """The directory of one intake. ``number`` is that of the intake, None when it was named
    itself."""

    directory: Path
    number: int | None

    def reader(self) -> SpoolReader:
        """
        Raises:
            SpoolFailed: IO, VERSION, CORRUPT.
        """
        return SpoolReader(self.directory)

    def owner(self) -> int | None:
        """The process that owns it now."""
        return holder(self.directory)

    def kind(self, partition: int) -> str:
        """``messages`` or ``events``; a spool from before there were events has none."""
        partitions = layout_of(self.directory)
        return "events" if partitions is not None and partition >= partitions else "messages"

    def events(self, partitions: int) -> int | None:
        """Which of so many partitions holds events; None where none does."""
        return partitions - 1 if self.kind(partitions - 1) == "events" else None

    def row_format(self) -> RowFormat:
        """What knows the rows of its protocol. A module that the spool names is imported for it, if
        it is installed here: who may write into the directory chooses which.

        Raises:
            SpoolFailed: VERSION where the protocol is not known here; CORRUPT, IO.
        """
        name, where = protocol_of(self.directory)
        try:
            adapter = adapter_named(where)
        except InvalidOption as error:
            why = error.what
        else:
            if adapter.name == name:
                return adapter.rows
            why = f"{where} is that of {adapter.name}"
        raise SpoolFailed(
            "VERSION",
            f"{self.directory} holds messages of protocol {name}, which is not known here: {why}",
            f"Install the package of protocol {name} beside this one",
        )

    def act(self, through: Callable[[IntakeClient], Done], alone: Callable[[], Done]) -> Done:
        """Do something: through the intake where one runs, otherwise as the owner. It may have been
        done when the connection broke and is done again then: a second time changes nothing.

        A spool is still owned for a moment when its intake was killed, by the process that syncs
        for it: an intake that does not answer is waited for, for up to `GONE_SECONDS`.

        Raises:
            SpoolFailed: LOCKED. IntakeFailed: UNREACHABLE; and what the two raise.
        """
        until = time.monotonic() + GONE_SECONDS
        while self.owner() is not None:
            try:
                with self.intake() as intake:
                    return through(intake)
            except IntakeFailed as error:
                if error.subclass != "UNREACHABLE" or time.monotonic() > until:
                    raise
            time.sleep(PAUSE)
        return alone()

    @contextmanager
    def intake(self) -> Iterator[IntakeClient]:
        """The running intake of the directory.

        Raises:
            SpoolFailed: LOCKED when it cannot be asked, as its address or keys are not here.
        """
        status = status_file.read(self.directory) or {}
        keys = [
            place
            for place in (self.directory, self.directory.parent)
            # looked at before: reading credentials where there are none would make some
            if (place / KEYS_FILE).is_file()
        ]
        used = f"{self.directory} is in use by process {self.owner()}"
        if not status.get("flight"):
            raise SpoolFailed(
                "LOCKED", f"{used}, which tells no address", "Stop that process and try again"
            )
        if not keys:
            raise SpoolFailed(
                "LOCKED",
                f"{used}, whose keys are not here: there is no {KEYS_FILE} in {self.directory} or "
                f"{self.directory.parent}",
                "Stop that process and try again; 'keys' of its configuration may name the "
                "directory above its spool",
            )
        with IntakeClient(
            str(status["flight"]), Credentials.for_spool(keys[0]).for_clients()
        ) as client:
            yield client


def add_look(
    looks: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    help: str,
    description: str,
    examples: Sequence[tuple[str, str]],
) -> argparse.ArgumentParser:
    """The parser of one verb, with DIR."""
    parser = looks.add_parser(name, help=help, description=description, examples=examples)
    parser.add_argument(
        "directory",
        type=Path,
        metavar="DIR",
        help="of one intake, or the spool option of a query",
    )
    return parser


def places(directory: Path) -> list[Place]:
    """The spool in a directory, or those of the intakes below it, in order.

    Raises:
        SpoolFailed: IO when there is none.
    """
    try:
        if (directory / IDENTITY).exists() or (directory / LAYOUT).exists():
            return [Place(directory, None)]
        below = [number_of(each) for each in directory.iterdir() if each.is_dir()]
    except OSError as error:
        raise unusable(directory, error, "Name a directory of a spool") from None
    numbers = sorted(number for number in below if number is not None)
    if not numbers:
        own = sorted(str(each.parent) for each in directory.glob(f"*/{IDENTITY}"))
        raise SpoolFailed(
            "IO",
            f"{directory} holds no spool, and none of intakes below it",
            f"Name what is below it: {', '.join(own[:SHOWN])}"
            if own
            else "Name the directory of an intake, or the spool option of a query",
        )
    return [Place(directory / f"intake-{number}", number) for number in numbers]


def only_place(directory: Path, reason: str) -> Place:
    """The one spool of a directory.

    Raises:
        InvalidOption: MISSING when there are several; the reason says what it is needed for.
        SpoolFailed: IO when there is none.
    """
    found = places(directory)
    if len(found) > 1:
        raise InvalidOption(
            "MISSING",
            f"{directory} has {len(found)} intakes, and {reason} is about one",
            f"Name the directory of one, such as {found[0].directory}",
        )
    return found[0]
