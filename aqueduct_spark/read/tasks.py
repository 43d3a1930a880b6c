"""What tasks do: launch an intake, or fetch a range of rows. Neither changes what is stored."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from aqueduct_core.errors import DataLoss, IntakeFailed, TlsFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.tickets import Ticket
from aqueduct_spark.formats.description import RowMapping
from aqueduct_spark.intakes.launch import ensure_intake, launch_here
from aqueduct_spark.intakes.rendezvous import Registration
from aqueduct_spark.model.partitions import DataPartition, LaunchOrder, LaunchPartition
from aqueduct_spark.options.read_parts import RowOptions
from aqueduct_spark.planning.progress import give_up
from aqueduct_spark.read.gaps import stored_rows
from aqueduct_spark.read.shaping import RowShaper

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

MAX_CLIENTS = 64
"""Connections that one Python worker keeps open; a worker serves one task at a time."""

RETRY_PAUSE = 0.2
"""Seconds between two tries to reach an intake."""

_clients: dict[tuple[str, str], IntakeClient] = {}
"""By address and spool id. Workers are used for many tasks, and dialling costs more than a read."""


def launch(partition: LaunchPartition) -> Iterator[pa.RecordBatch]:
    """Have the intake running when this returns, unless its spool is on another host; no rows."""
    if partition.order is not None:
        launch_here(partition.order)
    return iter(())


def rows(
    partition: DataPartition, options: RowOptions, mapping: RowMapping
) -> Iterator[pa.RecordBatch]:
    """Exactly the rows of the range that the options want, in order, with the columns of the
    schema; without those that were given up by hand.

    When the intake does not answer, it is looked up or started (or waited for, where it runs on
    its own), and reading goes on behind the last row that came. The wait for it is bounded by
    ``fetch_timeout`` and begins anew with each batch of rows.

    Raises:
        IntakeFailed: it cannot be had in time, or its spool is not in sight.
        DataLoss: rows of the range are gone, as the spool itself says, unless the partition is
            lenient; or another spool is in its place.
        SpoolFailed: CORRUPT, with the offset; or why the intake cannot be started.
    """
    shaper = RowShaper(mapping, options)
    wanted = partition.rows
    address = wanted.at
    following = wanted.first
    give_up = time.monotonic() + partition.fetch_timeout
    while following < wanted.stop:
        try:
            client = _client(partition, address)
            ticket = Ticket(wanted.spool, wanted.partition, following, wanted.stop)
            for first, batch in stored_rows(
                client,
                ticket,
                mapping.stored_schema,
                lenient=partition.lenient,
                leave_out=shaper.leave_out,
            ):
                yield from shaper.rows(batch, wanted.partition, first, wanted.spool)
                following = first + batch.num_rows
                give_up = time.monotonic() + partition.fetch_timeout
            return
        except (IntakeFailed, TlsFailed, DataLoss) as error:
            if isinstance(error, DataLoss) and error.subclass != "SPOOL_REPLACED":
                raise
            # TlsFailed and SPOOL_REPLACED: another one has the address of an intake that is gone.
            _forget(address, wanted.spool)
            if time.monotonic() > give_up:
                raise
            log.warning("partition %d of intake %d: %s", wanted.partition, wanted.intake, error)
            time.sleep(RETRY_PAUSE)
            if partition.order is None:
                continue
            held = _recovered(partition, partition.order, give_up)
            if held.id != wanted.spool:
                raise _replaced(partition, held) from None
            address = held.at


def _recovered(partition: DataPartition, order: LaunchOrder, give_up: float) -> Registration:
    """The intake that runs now, started here when it runs nowhere."""
    wanted = partition.rows
    remaining = max(RETRY_PAUSE, give_up - time.monotonic())
    return ensure_intake(
        replace(
            order,
            spool_id=wanted.spool,
            launch_timeout=min(order.launch_timeout, remaining),
            lock_timeout=min(order.lock_timeout, remaining),
        )
    )


def _replaced(partition: DataPartition, held: Registration) -> DataLoss:
    wanted = partition.rows
    return DataLoss(
        "SPOOL_REPLACED",
        f"Rows {wanted.first} to {wanted.stop} of partition {wanted.partition} are of spool "
        f"{wanted.spool}, and intake {wanted.intake} serves spool {held.id}",
        "Bring the old spool directory back, or start with a new checkpoint; "
        + give_up(wanted.spool),
    )


def _client(partition: DataPartition, address: str) -> IntakeClient:
    key = (address, partition.rows.spool)
    client = _clients.get(key)
    if client is None:
        if len(_clients) >= MAX_CLIENTS:
            _forget(*next(iter(_clients)))
        client = IntakeClient(
            address,
            partition.credentials,
            read_timeout=partition.fetch_timeout,
        )
        _clients[key] = client
    return client


def _forget(address: str, spool: str) -> None:
    client = _clients.pop((address, spool), None)
    if client is not None:
        client.close()
