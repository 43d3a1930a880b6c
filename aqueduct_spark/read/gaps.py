"""The rows of a range of which some may not be there any more.

What was given up by hand (`aqueduct spool skip`) is passed over by every read. What is gone is
passed over by a lenient one (``failOnDataLoss=false``), and only where the spool itself says so: an
intake that cannot be reached, or cannot see its directory, proves nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence

import pyarrow as pa
from msgspec import structs

from aqueduct_core.errors import DataLoss
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.spool.skips import Stretch
from aqueduct_spark.read.local import rows_of

log = logging.getLogger(__name__)

OffsetBatches = Iterator[tuple[int, pa.RecordBatch]]
"""Batches, each with the offset of its first row."""


def stored_rows(
    client: IntakeClient,
    ticket: Ticket,
    schema: pa.Schema,
    *,
    lenient: bool = False,
    leave_out: Collection[str] = (),
) -> OffsetBatches:
    """The rows of ``ticket`` in order, from an intake; ``schema`` is that of its spool. Columns of
    ``leave_out`` may be missing.

    Raises:
        DataLoss: SPOOL_REPLACED; RANGE_GONE and OFFSET_AHEAD unless it is ``lenient``.
        IntakeFailed, SpoolFailed, TlsFailed: as `IntakeClient.read`.
    """

    def ends() -> int:
        status = client.status()
        events = ticket.partition == len(status.ends)
        return status.events[1] if events else status.ends[ticket.partition]

    def part(start: int, end: int) -> Ticket:
        return structs.replace(ticket, start=start, end=end)

    return passing(
        str(ticket),
        ticket.start,
        ticket.end,
        read=lambda start, end: rows_of(client, part(start, end), schema, leave_out),
        stretches=lambda start, end: client.stretches(part(start, end)),
        durable=ends,
        lenient=lenient,
    )


def passing(
    name: str,
    start: int,
    end: int,
    *,
    read: Callable[[int, int], Iterator[pa.RecordBatch]],
    stretches: Callable[[int, int], Sequence[Stretch]],
    durable: Callable[[], int],
    lenient: bool,
) -> OffsetBatches:
    """The rows ``[start, end)`` that ``read`` gives. Where it comes upon rows that are not there,
    ``stretches`` says which these are, and ``durable`` how far there are any.

    Raises:
        DataLoss: what may not be passed over.
    """
    at, stop = start, end
    while at < end:
        begun = at
        try:
            for batch in read(at, stop):
                yield at, batch
                at += batch.num_rows
            stop = end
        except DataLoss as loss:
            if loss.subclass == "OFFSET_AHEAD" and lenient:
                stop = end = max(at, min(end, durable()))
                log.warning("failOnDataLoss=false: %s ends at %d: %s", name, end, loss)
                continue
            if loss.subclass not in ("RANGE_GONE", "SKIPPED"):
                raise
            first = stretches(at, end)[0]
            if first.state == "stored":
                if at == begun and stop == first.end:
                    raise  # it says so, and yet it cannot be read
                stop = first.end
                continue
            if first.state == "gone" and not lenient:
                raise
            why = "failOnDataLoss=false" if first.state == "gone" else "given up by hand"
            log.warning("%s: offsets %d to %d of %s are left out", why, at, first.end, name)
            at, stop = first.end, end
