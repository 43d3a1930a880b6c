"""Declared holes: logical numbers of which a producer says that they will never come.

The convention: a producer finishes its channel and attaches one of the same name anew, whose
``sequence-start`` is above what it had sent. What lies between the numbers that are stored and the
new start is a hole. It is told once, by an event: that it was told is marked in the spool under a
name that no channel can have, and becomes true with the event.

Of a channel of which nothing is known nothing is missing either: it begins where it begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from aqueduct_core.intake.events import Event
from aqueduct_core.primitives.ranges import Range, RangeSet
from aqueduct_core.spool import Mark

SUFFIX = "\0gaps"
"""Names of channels hold no NUL (`conventions.read_channel`)."""


def told(channel: str) -> str:
    """The name under which the told holes of a channel are marked."""
    return channel + SUFFIX


def is_channel(name: str) -> bool:
    """Whether marks of this name are of stored messages."""
    return not name.endswith(SUFFIX)


def holes(start: int, *known: Iterable[Range]) -> list[Range]:
    """What is missing below ``start``. The first of ``known`` are stored numbers, the others count
    as well; what lies below all of them was before our time."""
    numbers = RangeSet(pair for ranges in known for pair in ranges)
    return numbers.missing(numbers.first, start) if numbers else []


def gap(opened: Event, hole: Range) -> Event:
    """The event of a hole that ``opened`` made known."""
    return replace(opened, kind="gap", first=hole[0], last=hole[1] - 1)


def marks(events: Iterable[Event]) -> list[Mark]:
    """What becomes true with these events."""
    return [
        Mark(event.producer or "", told(event.channel or ""), event.first or 0, event.last + 1)
        for event in events
        if event.kind == "gap" and event.last is not None
    ]
