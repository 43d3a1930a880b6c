"""Rows of an intake on this host, mapped from its segment files instead of sent over Flight.

The intake says where the rows lie; the files are read here only when they are the very same ones.
Checksums are verified as the intake would. Whatever does not fit, Flight takes over behind the
last row that was read, so a caller gets the same rows in any case.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
from msgspec import structs

from aqueduct_core.errors import DataLoss, IntakeFailed, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.spool.identity import stored_schema
from aqueduct_core.spool.locations import are_here, coalesced, read_locations

log = logging.getLogger(__name__)

HOSTS_KEPT = 1024

LOCATIONS = 2_000
"""Locations that one answer should hold, about; some 300 KB."""

FIRST_SPAN, LEAST_SPAN, MOST_SPAN = 32_768, 4_096, 1 << 24
"""Rows that one answer is for: as many as records of the size seen so far make `LOCATIONS` of."""


def rows_of(
    client: IntakeClient, ticket: Ticket, schema: pa.Schema, leave_out: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """As ``client.read(ticket)``: exactly its rows, in order, in batches near 1 MB. ``schema`` is
    that of the spool; columns of ``leave_out`` may be missing.

    What was read stays valid after the intake has truncated it. Raises what ``client.read`` raises.
    """
    position = ticket.start
    if position < ticket.end and is_this_host(client.address):
        try:
            for batch in _mapped(client, ticket, schema, leave_out):
                yield batch
                position += batch.num_rows
        except (SpoolFailed, DataLoss, IntakeFailed, OSError) as error:
            # The intake gives the rest: it knows better whether that is gone or damaged, and a read
            # waits longer for an answer than a question about locations does.
            log.info("%s is read over Flight from offset %d: %s", ticket, position, error)
    if position < ticket.end:
        yield from client.read(structs.replace(ticket, start=position))


def _mapped(
    client: IntakeClient, ticket: Ticket, schema: pa.Schema, leave_out: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of the ticket up to the first that is not in a file here.

    Locations are requested in turns, so that a long range of small records takes little memory.
    """
    start, span = ticket.start, FIRST_SPAN
    while start < ticket.end:
        end = min(start + span, ticket.end)
        found = client.locations(structs.replace(ticket, start=start, end=end))
        if not are_here(found):
            return
        known = stored_schema(Path(found[0].path).parent)  # of an earlier release it is another one
        yield from coalesced(read_locations(found, known or schema), leave_out)
        start = end
        span = max(LEAST_SPAN, min(MOST_SPAN, span * LOCATIONS // max(1, len(found))))


@lru_cache(HOSTS_KEPT)
def is_this_host(address: str) -> bool:
    """Whether ``host:port`` is an address of this host: only such a one can be bound here.

    Checked because device and inode alone may be alike on two hosts made from one image.
    """
    host = address.rpartition(":")[0].strip("[]")
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, protocol, _, where in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(where)
        except OSError:
            continue
        return True
    return False
