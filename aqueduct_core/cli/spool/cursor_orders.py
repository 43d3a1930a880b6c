"""What an operator does to cursors: dropping, giving away and resetting them, through the intakes
that run or as the owner of their spools."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from aqueduct_core.cli.spool.offset_specs import FORMS, Offset, OffsetSpec, offset_spec, offsets_of
from aqueduct_core.cli.spool.places import Place
from aqueduct_core.errors import InvalidOption
from aqueduct_core.escape import escaped
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.status import CursorReset
from aqueduct_core.flight.tickets import CANCELS
from aqueduct_core.intake.control.cursor_owners import CursorOwners
from aqueduct_core.intake.control.cursor_resets import CursorResets
from aqueduct_core.spool import InlineSync, Spool


class NamedCursor(NamedTuple):
    """A cursor of one spool. ``at`` has its position in each partition that it reads."""

    place: Place
    name: str
    at: dict[int, int]


def drop(found: list[Place], name: str) -> int:
    """Forget a cursor: it holds nothing back any more."""
    return _each(found, name, "dropped", IntakeClient.drop_cursor, _drop_alone)


def give(found: list[Place], name: str) -> int:
    """Let a cursor go to the next query that comes for it."""
    return _each(found, name, "given away", IntakeClient.give_cursor, _give_alone)


def reset(found: list[Place], name: str, to: OffsetSpec) -> int:
    """Have the query of a cursor go on at a position. All is looked at before anything is done."""
    cursors = _named(found, name)
    if isinstance(to, Offset) and (len(cursors) > 1 or len(cursors[0].at) > 1):
        raise InvalidOption(
            "BAD_VALUE",
            f"{to.at} is an offset of one partition, and cursor {name!r} reads several",
            f"Write {FORMS.replace(' an offset,', '')}",
        )
    for cursor, offsets in [(each, _offsets(each, to)) for each in cursors]:
        done = cursor.place.act(
            partial(_reset_through, cursor.name, offsets), partial(_reset_alone, cursor, offsets)
        )
        print(f"{cursor.place.directory}: {_told(cursor, done)}")
    return 0


def reset_order(text: str) -> tuple[str, OffsetSpec]:
    """``NAME=POSITION``. For argparse, which makes a usage error of ArgumentTypeError."""
    name, equals, where = text.rpartition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=POSITION, such as query=earliest")
    return name, offset_spec(where)


def _named(found: list[Place], name: str) -> list[NamedCursor]:
    """The cursor in each spool that has it, and the one that its query has beside it.

    Raises:
        InvalidOption: BAD_VALUE where no spool has it.
    """
    named, known = list[NamedCursor](), set[str]()
    for place in found:
        with place.reader() as reader:
            cursors = reader.cursors
        known |= set(cursors)
        for each in (name, name + CANCELS):
            if each in cursors:
                at = {log: end for log, end in enumerate(cursors[each]) if end is not None}
                named.append(NamedCursor(place, each, at))
    if name not in known:
        raise InvalidOption(
            "BAD_VALUE",
            f"there is no cursor {name!r}",
            f"The cursors are {', '.join(sorted(known))}" if known else "There are no cursors",
        )
    return named


def _each(
    found: list[Place],
    name: str,
    done: str,
    through: Callable[[IntakeClient, str], None],
    alone: Callable[[Place, str], None],
) -> int:
    for place, each, _ in _named(found, name):
        place.act(partial(_swapped, through, each), partial(alone, place, each))
        print(f"{place.directory}: {done} {escaped(each)}")
    return 0


def _swapped(through: Callable[[IntakeClient, str], None], name: str, intake: IntakeClient) -> None:
    through(intake, name)


def _drop_alone(place: Place, name: str) -> None:
    with _owned(place) as spool:
        spool.drop(name)
        CursorOwners(place.directory).forget(name)
        CursorResets(spool).forget(name)


def _give_alone(place: Place, name: str) -> None:
    with _owned(place):
        CursorOwners(place.directory).forget(name)


def _offsets(cursor: NamedCursor, to: OffsetSpec) -> tuple[int, ...]:
    place = cursor.place
    with place.reader() as reader:
        return offsets_of(
            to, reader, list(cursor.at), lambda rows: place.row_format().newest_timestamp(rows)
        )


def _reset_through(name: str, to: tuple[int, ...], intake: IntakeClient) -> CursorReset:
    intake.status()  # which spool it serves: another one refuses the order
    return intake.reset_cursor(name, to)


def _reset_alone(cursor: NamedCursor, to: tuple[int, ...]) -> CursorReset:
    with _owned(cursor.place) as spool:
        return CursorResets(spool).order(spool, cursor.name, to, time.time())


def _told(cursor: NamedCursor, reset: CursorReset) -> str:
    """For people: where the query goes on, and what that means."""
    moves = list(zip(cursor.at.items(), reset.to, strict=True))
    where = ", ".join(f"{log}: {at} (was {before})" for (log, before), at in moves)
    again = sum(max(0, before - at) for (_, before), at in moves)
    passed = sum(max(0, at - before) for (_, before), at in moves)
    name = escaped(cursor.name)
    return f"{name} goes on at {where}; {again} rows come again, {passed} are passed over"


def _owned(place: Place) -> Spool:
    """Own the spool for a moment; nobody else does."""
    with place.reader() as reader:
        schema, partitions = reader.schema, reader.partitions
    return Spool.open(place.directory, schema=schema, partitions=partitions, sync=InlineSync)
