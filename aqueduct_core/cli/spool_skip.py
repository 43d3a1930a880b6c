"""``aqueduct spool skip DIR``: give up rows that cannot be read; queries go on behind them."""

from __future__ import annotations

import argparse
import time

from aqueduct_core.cli.spool_places import Place, only_place
from aqueduct_core.errors import AqueductError
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.events import to_event_batch
from aqueduct_core.intake.giving_up import given_up
from aqueduct_core.intake.schema import newest_timestamp
from aqueduct_core.spool import InlineSync, Spool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--partition", type=int, required=True, metavar="N", help="of the rows")
    parser.add_argument(
        "--from", dest="start", type=int, required=True, metavar="OFFSET", help="first offset"
    )
    parser.add_argument(
        "--to", dest="end", type=int, required=True, metavar="OFFSET", help="end, exclusive"
    )
    parser.add_argument(
        "--reason",
        default="given up by hand",
        metavar="TEXT",
        help="for the event row; default: %(default)s",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Through the intake where one runs, else as the owner for a moment."""
    place = only_place(options.directory, "a range of offsets")
    with place.reader() as reader:
        spool, schema, partitions = reader.id, reader.schema, reader.partitions
        rows = options.partition, options.start, options.end
        left = reader.check_unreadable(*rows)
    if left and place.owner() is not None:
        with place.intake() as intake:
            intake.skip(Ticket(spool, *rows), options.reason)
    elif left:
        with Spool.open(
            place.directory, schema=schema, partitions=partitions, sync=InlineSync
        ) as own:
            _give_up(place, own, *rows, options.reason)
    done = "skipped" if left else "skipped already"
    partition, start, end = rows
    print(f"{place.directory}: {done}, partition {partition}, offsets {start} to {end} (exclusive)")
    return 0


def _give_up(place: Place, spool: Spool, partition: int, start: int, end: int, reason: str) -> None:
    """Told first: what is passed over without an event would be passed over in silence."""
    log = spool.partitions - 1
    if place.kind(log) == "events":
        now = max(time.time_ns() // 1000, _newest(spool, log))
        spool.append(log, to_event_batch([given_up(partition, start, end, reason, now)], log))
        spool.settle()
    spool.skip(partition, start, end, reason)


def _newest(spool: Spool, log: int) -> int:
    """The time of the last event: times never go back inside a log."""
    last = spool.ends()[log]
    try:
        return max(newest_timestamp(batch) for batch in spool.read(log, last - 1, last))
    except (AqueductError, ValueError):
        return 0
