"""``aqueduct spool skip DIR``: give up rows that cannot be read; queries go on behind them."""

from __future__ import annotations

import argparse

from aqueduct_core.cli.spool.places import Place, add_look, only_place
from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.storage.skipped_rows import give_up
from aqueduct_core.spool import InlineSync, Spool
from aqueduct_core.spool.identity import find_identity, stored_schema
from aqueduct_core.spool.losses import offset_ahead

EXAMPLES = [
    (
        "rows that verify says are damaged are given up",
        "aqueduct spool skip first-stream/spool/intake-0 --partition 0 --from 120 --to 140",
    ),
]


def add(looks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_look(
        looks,
        "skip",
        "give up damaged rows",
        "Gives up rows that are damaged or lost, so that queries go on behind them. Rows that can"
        " be read are refused. An event row 'skipped' tells of it. Works beside a running intake.",
        EXAMPLES,
    )
    parser.add_argument("--partition", type=int, metavar="N", help="of the rows")
    parser.add_argument("--from", dest="start", type=int, metavar="OFFSET", help="first offset")
    parser.add_argument("--to", dest="end", type=int, metavar="OFFSET", help="end, exclusive")
    parser.add_argument(
        "--ahead",
        action="store_true",
        help="the rows may lie behind the end of what is stored, as a checkpoint knows of them;"
        " their offsets are not given out again",
    )
    parser.add_argument(
        "--segment",
        type=int,
        metavar="N",
        help="instead of a range: the segment of that number, for which no owner can open the"
        " spool, as it is missing or is not the one that was stored",
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
    place = only_place(options.directory, "what is to be skipped")
    rows = options.partition, options.start, options.end
    if options.segment is not None and rows == (None, None, None):
        return _skip_segment(place, options.segment, options.reason)
    if options.segment is not None or None in rows:
        raise InvalidOption(
            "MISSING",
            "it is not told which rows are to be skipped",
            "Name them with --partition, --from and --to, or a segment with --segment alone",
        )
    with place.reader() as reader:
        spool, schema, partitions = reader.id, reader.schema, reader.partitions
        left = reader.check_unreadable(*rows)
        if left and not options.ahead and options.end > reader.ends()[options.partition]:
            stop = reader.ends()[options.partition]
            raise offset_ahead(place.directory, options.partition, options.end, stop)

    def alone() -> None:
        form = place.row_format().as_stored(schema)
        with Spool.open(
            place.directory, schema=schema, partitions=partitions, sync=InlineSync
        ) as own:
            give_up(own, form, place.events(partitions), *rows, options.reason)

    if left:
        place.act(lambda intake: intake.skip(Ticket(spool, *rows), options.reason), alone)
    _print(place, "skipped" if left else "skipped already", *rows)
    return 0


def _skip_segment(place: Place, number: int, reason: str) -> int:
    """No reader can open the spool; the owner that gives the segment up can."""
    identity = find_identity(place.directory, stored_schema(place.directory))
    if identity is None:
        raise SpoolFailed(
            "IO",
            f"nothing in {place.directory} tells which spool it is",
            "Name the directory of an intake, or bring its files back",
        )
    form = place.row_format().as_stored(identity.schema)
    with Spool.open(
        place.directory,
        schema=identity.schema,
        partitions=identity.partitions,
        sync=InlineSync,
        lost=number,
    ) as own:
        for rows in own.lost:
            give_up(own, form, place.events(own.partitions), *rows, reason)
            _print(place, "skipped", *rows)
    return 0


def _print(place: Place, done: str, partition: int, start: int, end: int) -> None:
    print(f"{place.directory}: {done}, partition {partition}, offsets {start} to {end} (exclusive)")
