"""Rows of an intake on this host, mapped from its segment files instead of sent over Flight.

The intake says where the rows lie; the files are read here only when they are the very same ones.
Checksums are verified as the intake would. Whatever does not fit, Flight takes over behind the
last row that was read, so a caller gets the same rows in any case.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.joining import joined
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.schema import SPOOL_SCHEMA
from aqueduct_core.spool.pieces import are_here, read_pieces

log = logging.getLogger(__name__)

HOSTS_KEPT = 1024


def rows_of(client: IntakeClient, ticket: Ticket) -> Iterator[pa.RecordBatch]:
    """As ``client.read(ticket)``: exactly its rows, in order, in batches near 1 MB.

    What was read stays valid after the intake has trimmed it. Raises what ``client.read`` raises.
    """
    position = ticket.start
    if position < ticket.end and is_this_host(client.address):
        try:
            for batch in _mapped(client, ticket):
                yield batch
                position += batch.num_rows
        except (SpoolFailed, DataLoss, OSError) as error:
            # The intake is asked for the rest: it knows better whether that is gone or damaged.
            log.info("%s is read over Flight from offset %d: %s", ticket, position, error)
    if position < ticket.end:
        yield from client.read(replace(ticket, start=position))


def _mapped(client: IntakeClient, ticket: Ticket) -> Iterator[pa.RecordBatch]:
    """The rows of the ticket, or none at all where its files are not here."""
    pieces = client.pieces(ticket)
    if are_here(pieces):
        yield from joined(read_pieces(pieces, SPOOL_SCHEMA))


@lru_cache(HOSTS_KEPT)
def is_this_host(address: str) -> bool:
    """Whether ``host:port`` is an address of this host: only such a one can be bound here.

    Asked because device and inode alone may be alike on two hosts made from one image.
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
