"""Rows of a spool as they become durable: of the intake that runs, or of the files alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from aqueduct_core.cli.spool.places import Place
from aqueduct_core.errors import IntakeFailed, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.tickets import Ticket, View
from aqueduct_core.spool import Stretch

if TYPE_CHECKING:
    import pyarrow as pa

LOOK_SECONDS = 0.5
"""Between two looks at a spool whose intake cannot be asked."""


class NewRows(NamedTuple):
    """Consecutive stored rows, or with ``rows`` None a stretch that was given up."""

    partition: int
    first: int
    stop: int
    rows: pa.RecordBatch | None


class SpoolFollower:
    """Follows some partitions of one spool from given offsets on.

    Intakes may end and come back: their rows come once each, and in the order of their partition.
    Ends with `close`.

    Args:
        offsets: where to begin, by partition.
    """

    def __init__(self, place: Place, view: View, offsets: dict[int, int]) -> None:
        self._place = place
        self._view = view
        self._offsets = dict(offsets)
        self._open = ExitStack()
        self._client: IntakeClient | None = None

    def close(self) -> None:
        self._client = None
        self._open.close()

    def rows(self, timeout: float) -> Iterator[NewRows]:
        """What is durable by now and was not given yet; where there is nothing, what comes within
        ``timeout`` seconds.

        Raises:
            DataLoss: RANGE_GONE where rows were deleted before they were read.
            SpoolFailed: CORRUPT, IO, VERSION.
        """
        client = self._intake()
        if client is None:
            if not (yield from self._stored()):
                time.sleep(min(timeout, LOOK_SECONDS))
            return
        try:
            yield from self._served(client, timeout)
        except IntakeFailed:
            self.close()

    def _intake(self) -> IntakeClient | None:
        """The intake that runs, if it can be asked."""
        if self._client is None and self._place.owner() is not None:
            try:
                self._client = self._open.enter_context(self._place.intake())
            except SpoolFailed as error:
                if error.subclass != "LOCKED":
                    raise
        return self._client

    def _served(self, client: IntakeClient, timeout: float) -> Iterator[NewRows]:
        status = client.wait(self._beyond(client), timeout, view=self._view)
        ends = [*status.ends, status.events[1]]
        for partition, first in [*self._offsets.items()]:
            if first < ends[partition]:
                ticket = Ticket(status.id, partition, first, ends[partition])
                yield from self._all(
                    partition, client.stretches(ticket), partial(_read, client, ticket)
                )

    def _beyond(self, client: IntakeClient) -> Sequence[int]:
        """What is known of each log of the view, so that partitions that are not followed do not
        wake."""
        status = client.status()
        ends = status.ends if self._view == "messages" else status.events[1:]
        first = 0 if self._view == "messages" else len(status.ends)
        return [self._offsets.get(first + log, end) for log, end in enumerate(ends)]

    def _stored(self) -> Generator[NewRows, None, bool]:
        """Of the files; returns whether there were any."""
        found = False
        with self._place.reader() as reader:
            ends = reader.ends()
            for partition, first in [*self._offsets.items()]:
                if first < ends[partition]:
                    found = True
                    stretches = reader.stretches(partition, first, ends[partition])
                    yield from self._all(partition, stretches, partial(reader.read, partition))
        return found

    def _all(
        self,
        partition: int,
        stretches: Iterable[Stretch],
        read: Callable[[int, int], Iterator[pa.RecordBatch]],
    ) -> Iterator[NewRows]:
        for start, end, state in stretches:
            if state == "skipped":
                yield self._passed(partition, start, end, None)
                continue
            at = start
            for batch in read(start, end):
                yield self._passed(partition, at, at + batch.num_rows, batch)
                at += batch.num_rows

    def _passed(
        self, partition: int, first: int, stop: int, rows: pa.RecordBatch | None
    ) -> NewRows:
        self._offsets[partition] = stop
        return NewRows(partition, first, stop, rows)


def _read(client: IntakeClient, within: Ticket, start: int, end: int) -> Iterator[pa.RecordBatch]:
    return client.read(Ticket(within.spool, within.partition, start, end))
