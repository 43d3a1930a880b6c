"""The spools that a bounded read is made of: directories here, or intakes over Flight.

Both have the same methods, so that one planner plans for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.intake.storage.layout import layout_of, protocol_of
from aqueduct_core.primitives.json_file import unusable
from aqueduct_core.spool.catalog import CATALOG
from aqueduct_core.spool.identity import IDENTITY
from aqueduct_core.spool.reader import SpoolReader
from aqueduct_spark.read.batch.bounds import Extent

if TYPE_CHECKING:
    import pyarrow as pa

    from aqueduct_core.flight.client import IntakeClient
    from aqueduct_core.flight.status import IntakeStatus
    from aqueduct_core.flight.tickets import View
    from aqueduct_spark.formats.description import FormatDescription

TRIES = 5
"""Times that a spool is opened anew because its owner truncated a segment in that moment."""

_INTAKE = re.compile(r"intake-(\d+)")


class ReadableSpool(Protocol):
    """One spool while its part of a read is planned; ``intake`` is its number."""

    intake: int

    def extent(self, view: View) -> Extent: ...

    def locate(self, microseconds: int, view: View) -> tuple[int, ...]:
        """For each log of the view the first offset received then or later; its end if none."""

    def sizes(self, log: int, start: int, end: int, step: int) -> list[tuple[int, int]]:
        """Ascending (offset, stored bytes from ``start``), the last one (``end``, total)."""


class StoredSpool:
    """A spool directory, as it was when this was made. Takes no lock, changes nothing.

    Raises:
        InvalidOption: CONFLICT where it is of another protocol than the format.
    """

    def __init__(self, intake: int, reader: SpoolReader, description: FormatDescription) -> None:
        description.check_protocol(protocol_of(reader.directory).name, reader.directory)
        self.intake = intake
        self.reader = reader
        self._mapping = description.rows()
        self._partitions = message_partitions(reader)

    def extent(self, view: View) -> Extent:
        logs = self._logs(view)
        starts, ends = self.reader.starts(), self.reader.ends()
        return Extent(
            self.intake,
            self.reader.id,
            str(self.reader.directory),
            logs,
            tuple(starts[log] for log in logs),
            tuple(ends[log] for log in logs),
        )

    def locate(self, microseconds: int, view: View) -> tuple[int, ...]:
        def is_before(batch: pa.RecordBatch) -> bool:
            return self._mapping.received_at(batch, batch.num_rows - 1) < microseconds

        return tuple(self.reader.bisect(log, is_before) for log in self._logs(view))

    def sizes(self, log: int, start: int, end: int, step: int) -> list[tuple[int, int]]:
        return self.reader.sizes(log, start, end, step)

    def _logs(self, view: View) -> tuple[int, ...]:
        """A spool from before there were events has no log of them."""
        return tuple(log for log in logs_of(view, self._partitions) if log < self.reader.partitions)


class ServedSpool:
    """The spool of an intake, over Flight."""

    def __init__(self, intake: int, client: IntakeClient, description: FormatDescription) -> None:
        self.intake = intake
        self._client = client
        self._description = description

    def extent(self, view: View) -> Extent:
        status = served(self._client, self._description)
        logs = logs_of(view, len(status.ends))
        starts, ends = status.starts, status.ends
        if view == "events":
            starts, ends = ((bound,) for bound in status.events)
        return Extent(self.intake, status.id, self._client.address, logs, starts, ends)

    def locate(self, microseconds: int, view: View) -> tuple[int, ...]:
        return self._client.locate(microseconds, view=view)

    def sizes(self, log: int, start: int, end: int, step: int) -> list[tuple[int, int]]:
        return self._client.sizes(log, start, end, step)


def served(client: IntakeClient, description: FormatDescription) -> IntakeStatus:
    """The status of an intake whose rows the format reads.

    Raises:
        InvalidOption: CONFLICT where they are of another protocol.
        IntakeFailed, AuthFailed, TlsFailed: it does not answer.
    """
    status = client.status()
    description.check_protocol(status.protocol, f"The intake at {client.address}")
    return status


def message_partitions(reader: SpoolReader) -> int:
    """How many of the logs of a spool hold messages; all of them before there were events."""
    known = layout_of(reader.directory)
    return reader.partitions if known is None else known


def logs_of(view: View, partitions: int) -> tuple[int, ...]:
    """The logs of a view in a spool with that many message partitions; events come after them."""
    return (partitions,) if view == "events" else tuple(range(partitions))


def spool_directories(spool: Path) -> list[tuple[int, Path]]:
    """The spools below a directory with the numbers of their intakes; or itself, as number 0.

    Raises:
        SpoolFailed: IO when there is none, or that of an intake is out of sight: the place of a
            volume that is not mounted is empty, and intakes are numbered without gaps.
    """
    found: list[tuple[int, Path]] = []
    try:
        if is_spool(spool):
            return [(0, spool)]
        for path in spool.iterdir():
            match = _INTAKE.fullmatch(path.name)
            if match and is_spool(path):
                found.append((int(match[1]), path))
            elif match and not any(path.iterdir()):
                raise _none_here(path, "it is empty")
    except OSError as error:
        if isinstance(error, PermissionError):
            raise unusable(spool, error, "") from None
        raise _none_here(spool, error.strerror or str(error)) from None
    if not found:
        raise _none_here(spool, "it holds no spool")
    found.sort()
    for number, (intake, _) in enumerate(found):
        if intake != number:
            raise _none_here(spool / f"intake-{number}", "it is not there")
    return found


def is_spool(directory: Path) -> bool:
    return any((directory / name).exists() for name in (IDENTITY, CATALOG))


@contextmanager
def opened(directory: Path, expected: str | None = None) -> Iterator[SpoolReader]:
    """Look into a spool directory; ``expected`` is the id it must have.

    Raises:
        SpoolFailed: IO, VERSION, CORRUPT.
        DataLoss: SPOOL_REPLACED when it is another spool by now.
    """
    with open_spool(directory) as reader:
        if expected is not None and reader.id != expected:
            raise DataLoss(
                "SPOOL_REPLACED",
                f"{directory} holds spool {reader.id}, and the read was planned for {expected}",
                "Load the frame anew to read what is there now",
            )
        yield reader


def open_spool(directory: Path) -> SpoolReader:
    """As `opened`, whatever spool it is; to be closed by the caller."""
    for left in reversed(range(TRIES)):
        try:
            return SpoolReader(directory)
        except SpoolFailed as error:
            if left and isinstance(error.__cause__, FileNotFoundError) and directory.exists():
                continue
            raise
    raise AssertionError("unreachable: the last try returns or raises")


def _none_here(spool: Path, why: str) -> SpoolFailed:
    return SpoolFailed(
        "IO",
        f"Option 'spool': {spool} cannot be read: {why}",
        "Name the 'spool' directory of a query, or the spool directory of one intake, and mount "
        "its volume",
    )
