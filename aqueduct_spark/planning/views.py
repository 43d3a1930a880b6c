"""What an intake says of itself, as far as one view and one cursor are concerned."""

from __future__ import annotations

from dataclasses import dataclass

from aqueduct_core.flight.status import CursorReset, IntakeStatus
from aqueduct_core.flight.tickets import View


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads: the logs of ``view``, with the position kept under the name ``cursor``."""

    cursor: str
    view: View = "messages"


@dataclass(frozen=True, slots=True)
class Seen:
    """One intake that answers.

    ``starts``, ``ends`` and ``committed`` have an entry for each log of the view; log ``first_log``
    of the spool is the first of them. ``bytes`` is the size of the whole spool on disk. ``dials``
    are the endpoints that stay with the intake. ``opened`` are the ends when the intake was
    started for this run of the query; empty: it was not. ``full``: nothing more is taken in until
    something of the spool is committed. ``reset``: where the query is to go on by order of an
    operator, if it has not yet.
    """

    id: str
    epoch: int
    at: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    committed: tuple[int, ...]
    first_log: int
    bytes: int
    dials: tuple[str, ...] = ()
    opened: tuple[int, ...] = ()
    full: bool = False
    reset: CursorReset | None = None


def see(status: IntakeStatus, reader: Reader) -> Seen:
    """The part of a status that ``reader`` needs. A cursor that is not there has read nothing."""
    starts, ends, first_log = status.starts, status.ends, 0
    committed = status.committed.get(reader.cursor, (0,) * len(ends))
    if reader.view == "events":
        starts, ends, first_log = status.events[:1], status.events[1:], len(status.ends)
        committed = (status.events_committed.get(reader.cursor, 0),)
    dials = () if status.subscriptions is None else status.subscriptions.claims
    return Seen(
        status.id,
        status.epoch,
        status.flight,
        starts,
        ends,
        committed,
        first_log,
        status.bytes,
        dials,
        status.opened[first_log : first_log + len(ends)],
        status.full,
        status.resets.get(reader.cursor),
    )
