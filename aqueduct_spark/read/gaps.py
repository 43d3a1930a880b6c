"""What of a range is still there, for reads that may go on behind a hole."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

from aqueduct_core.errors import DataLoss
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.tickets import Ticket


def stretch(client: IntakeClient, ticket: Ticket) -> tuple[int, int]:
    """The first rows of ``ticket`` that are stored without a hole; its end twice: there are none.

    Asks where rows lie, not for rows, about two dozen times. Of two holes close to each other the
    rows between may be passed over.

    Raises:
        IntakeFailed: UNREACHABLE.
        DataLoss: SPOOL_REPLACED.
    """
    first = _first(client, ticket)
    if first == ticket.end:
        return first, first
    # Once a range is too long every longer one is.
    longest = _search(
        first + 1, ticket.end, lambda end: not _stored(client, ticket, first, end + 1)
    )
    return first, longest


def _first(client: IntakeClient, ticket: Ticket) -> int:
    if _stored(client, ticket, ticket.start, ticket.start + 1):
        return ticket.start
    status = client.status()
    events = ticket.partition == len(status.starts)
    head = status.events[0] if events else status.starts[ticket.partition]
    if head > ticket.start:
        return min(head, ticket.end)
    missing, step = ticket.start, 1
    while missing + step < ticket.end:
        if _stored(client, ticket, missing + step, missing + step + 1):
            break
        missing, step = missing + step, 2 * step
    last = min(missing + step, ticket.end)
    return _search(missing + 1, last, lambda row: _stored(client, ticket, row, row + 1))


def _search(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first number from ``low`` that ``holds``, when all after it do; ``high`` if none does."""
    return low + bisect_left(range(low, high), True, key=holds)


def _stored(client: IntakeClient, ticket: Ticket, start: int, end: int) -> bool:
    try:
        client.pieces(replace(ticket, start=start, end=end))
    except DataLoss as error:
        if error.subclass == "SPOOL_REPLACED":
            raise
        return False
    return True
