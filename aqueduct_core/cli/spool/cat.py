"""``aqueduct spool cat DIR``: stored rows as JSON lines or by a format, to the present end or as
they come."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext

from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.output import Format
from aqueduct_core.cli.console.terminal import ProgressBar, is_terminal
from aqueduct_core.cli.spool.follow import NewRows, SpoolFollower
from aqueduct_core.cli.spool.offset_specs import (
    FORMS,
    Edge,
    Offset,
    OffsetSpec,
    offset_spec,
    offsets_of,
)
from aqueduct_core.cli.spool.places import Place, add_look, only_place, places
from aqueduct_core.cli.spool.stored_rows import RowPrinter, Wanted
from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.flight.tickets import View
from aqueduct_core.intake.storage.rows import RowFormat
from aqueduct_core.spool import SpoolReader

TURN = 0.2
"""Seconds for which one of several spools is waited for."""

WAIT = 1.0
"""Seconds for which the only one is, before signals are looked at."""


EXAMPLES = [
    (
        "all stored messages, as JSON",
        "aqueduct spool cat first-stream/spool",
    ),
    (
        "one channel, payloads only, as they come",
        "aqueduct spool cat first-stream/spool --channel greetings -f '%s\\n' --follow",
    ),
    (
        "what came in the last ten minutes",
        "aqueduct spool cat first-stream/spool -o 10m",
    ),
    (
        "the last five events of each intake",
        "aqueduct spool cat first-stream/spool --events -o -5",
    ),
]


def add(looks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_look(
        looks,
        "cat",
        "print stored rows",
        "Prints stored messages, or events, as JSON lines in the form of listen -J, with their "
        "partitions and offsets; a payload or header that is no UTF-8 is an object with the key "
        "base64. Nothing that reads the spool is disturbed.",
        EXAMPLES,
    )
    parser.add_argument("--partition", type=int, metavar="N", help="only this one")
    parser.add_argument(
        *("-o", "--from"),
        dest="start",
        type=offset_spec,
        default=Edge("earliest"),
        metavar="POSITION",
        help=f"where to begin: {FORMS} (default: earliest)",
    )
    parser.add_argument(
        "--to",
        dest="end",
        type=offset_spec,
        default=Edge("latest"),
        metavar="POSITION",
        help="where to end, exclusive (default: latest)",
    )
    parser.add_argument(
        "--follow", action="store_true", help="go on with what comes, until interrupted"
    )
    parser.add_argument(
        "--channel",
        dest="channels",
        action="append",
        default=[],
        metavar="NAME",
        help="only rows of this channel; may be repeated",
    )
    parser.add_argument(
        "--producer",
        dest="producers",
        action="append",
        default=[],
        metavar="ID",
        help="only rows of this producer; may be repeated",
    )
    parser.add_argument("--events", action="store_true", help="the log of events")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("-J", dest="json", action="store_true", help="JSON lines (the default)")
    form.add_argument(
        "-f",
        dest="format",
        metavar="FORMAT",
        help="text with the tokens of listen -f, %%P partition and %%o offset, such as '%%s\\n'",
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help="with -f on a terminal: print what peers wrote as it came",
    )
    parser.add_argument(
        "-c", dest="count", type=arguments.count, metavar="N", help="stop after N rows"
    )
    parser.add_argument("-q", dest="quiet", action="store_true", help="no bar of progress")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    found = places(options.directory)
    if isinstance(options.start, Offset) or isinstance(options.end, Offset):
        found = [only_place(options.directory, "a range of offsets")]
    if options.events and options.format is not None:
        raise InvalidOption("CONFLICT", "-f is given with --events", "Events are JSON lines only")
    if options.follow and options.end != Edge("latest"):
        raise InvalidOption("CONFLICT", "--follow is given with --to", "Give one of them")
    format = None
    if options.format is not None:
        terminal = is_terminal(sys.stdout) and not options.raw
        format = Format(options.format, stored=True, terminal=terminal)
    if options.follow:
        return _follow(found, options, format)
    left = options.count
    for place in found:
        with place.reader() as reader:
            printer = _printer(place, reader, options, format)
            ranges = _ranges(place, reader, options)
            with _progress(place, ranges, options) as bar:
                passed = 0
                for new in _stored(reader, ranges):
                    printed = printer.print(new, left)
                    if left is not None:
                        left -= printed
                        if not left:
                            return 0
                    passed += new.stop - new.first
                    if bar is not None:
                        bar.update(passed)
    return 0


def _follow(found: list[Place], options: argparse.Namespace, format: Format | None) -> int:
    left = options.count
    view: View = "events" if options.events else "messages"
    with ExitStack() as open:
        followed: list[tuple[SpoolFollower, RowPrinter]] = []
        for place in found:
            with place.reader() as reader:
                begins = {each: start for each, start, _ in _ranges(place, reader, options)}
                printer = _printer(place, reader, options, format)
            follower = open.enter_context(closing(SpoolFollower(place, view, begins)))
            followed.append((follower, printer))
        turn = WAIT if len(followed) == 1 else TURN
        while True:
            for follower, printer in followed:
                for new in follower.rows(turn):
                    printed = printer.print(new, left)
                    sys.stdout.buffer.flush()
                    if left is not None:
                        left -= printed
                        if not left:
                            return 0


def _progress(
    place: Place, ranges: list[tuple[int, int, int]], options: argparse.Namespace
) -> AbstractContextManager[ProgressBar | None]:
    """Where a person waits and does not see the rows themselves."""
    if options.quiet or is_terminal(sys.stdout):
        return nullcontext()
    return ProgressBar(place.directory.name, "rows", sum(end - start for _, start, end in ranges))


def _printer(
    place: Place,
    reader: SpoolReader,
    options: argparse.Namespace,
    format: Format | None,
) -> RowPrinter:
    wanted = Wanted(frozenset(options.channels), frozenset(options.producers))
    form = _form(place, reader)
    return RowPrinter(place, form, wanted, events=options.events, format=format)


def _form(place: Place, reader: SpoolReader) -> RowFormat:
    """What knows the rows of the spool. Raises SpoolFailed.VERSION."""
    form = place.row_format()
    if not form.reads(reader.schema):
        raise SpoolFailed(
            "VERSION",
            f"{place.directory} holds the columns {reader.schema.names}, which are not messages",
            "Use the release that wrote it",
        )
    return form


def _ranges(
    place: Place, reader: SpoolReader, options: argparse.Namespace
) -> list[tuple[int, int, int]]:
    """(partition, start, end) of all that is asked for.

    Raises:
        InvalidOption: BAD_VALUE, MISSING.
    """
    kind = "events" if options.events else "messages"
    chosen = [each for each in range(reader.partitions) if place.kind(each) == kind]
    if options.partition is not None:
        if options.partition not in chosen:
            raise InvalidOption(
                "BAD_VALUE",
                f"--partition is {options.partition}, and the {kind} of {place.directory} are in"
                f" {chosen}",
                "Name one of these",
            )
        chosen = [options.partition]
    if (isinstance(options.start, Offset) or isinstance(options.end, Offset)) and len(chosen) > 1:
        raise InvalidOption(
            "MISSING", "--from and --to are offsets of one partition", "Name it with --partition"
        )
    starts, ends = (_offsets(place, reader, chosen, each) for each in (options.start, options.end))
    for partition, start, end in zip(chosen, starts, ends, strict=True):
        if not 0 <= start <= end:
            raise InvalidOption(
                "BAD_VALUE",
                f"the range {start} to {end} is none",
                f"Stored are the offsets {reader.starts()[partition]} to "
                f"{reader.ends()[partition]} of partition {partition}",
            )
    return list(zip(chosen, starts, ends, strict=True))


def _offsets(
    place: Place, reader: SpoolReader, partitions: list[int], spec: OffsetSpec
) -> tuple[int, ...]:
    return offsets_of(
        spec, reader, partitions, lambda rows: place.row_format().newest_timestamp(rows)
    )


def _stored(reader: SpoolReader, ranges: list[tuple[int, int, int]]) -> Iterator[NewRows]:
    for partition, start, end in ranges:
        for first, stop, state in reader.stretches(partition, start, end):
            if state == "skipped":
                yield NewRows(partition, first, stop, None)
                continue
            at = first
            for batch in reader.read(partition, first, stop):
                yield NewRows(partition, at, at + batch.num_rows, batch)
                at += batch.num_rows
        sys.stdout.flush()
