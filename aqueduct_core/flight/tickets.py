"""What a client may ask of an intake, as frozen values with one JSON form each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import msgspec

from aqueduct_core.errors import DataLoss
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.primitives.json_file import JsonForm

__all__ = [
    "CANCELS",
    "MAX_HOLD",
    "VIEWS",
    "Commit",
    "GiveUp",
    "Hold",
    "IntakeStatus",
    "Reset",
    "Ticket",
    "View",
    "require_spool",
    "view_of",
]

View: TypeAlias = Literal["messages", "events"]
VIEWS: tuple[View, ...] = ("messages", "events")
"""What a cursor may read: the logs of messages, or the one of events."""

CANCELS = ".cancels"
"""Behind the name of a query's cursor: the name of the one for its look at cancels."""

MAX_HOLD = 60.0
"""Seconds. A hold is renewed; one whose owner died must not lock the others out for long."""

MAX_NAME = 256
"""Characters of the name of a cursor, or of an owner: they are kept in memory and on disk."""


class Ticket(msgspec.Struct, frozen=True, array_like=True, tag="rows", forbid_unknown_fields=True):
    """The rows ``[start, end)`` of one partition of the spool with this id.

    The partitions of messages are 0 to P - 1; partition P is the log of events.
    """

    spool: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if not (self.partition >= 0 and 0 <= self.start <= self.end):
            raise ValueError(f"not a range of offsets: {self}")

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises ValueError for anything that `to_bytes` does not make."""
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, RecursionError):
            raise ValueError("not a ticket") from None


class Hold(JsonForm, frozen=True):
    """``owner`` claims ``cursor``, which reads ``view``, for ``seconds`` from now.

    ``spool`` None: whichever is served. ``query`` is the id in the checkpoint of the query, which
    owns the cursor from then on; "" while no checkpoint has it. ``where`` tells people who asks.
    ``given_out``: for each log of the view, the offset below which the query knows rows.
    """

    cursor: str
    owner: str
    seconds: float = 5.0
    view: View = "messages"
    spool: str | None = None
    query: str = ""
    where: str = ""
    given_out: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _named("cursor", self.cursor)
        _named("owner", self.owner)
        _at_most("query", self.query)
        _at_most("where", self.where)
        if not 0.0 < self.seconds <= MAX_HOLD:
            raise ValueError(f"a hold of {self.seconds} s")


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The rows of ``ticket``, none of which can be read, are to be skipped for a reason."""

    ticket: Ticket
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"ticket": self.ticket.to_bytes().decode(), "reason": self.reason}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(Ticket.from_bytes(str(data["ticket"]).encode()), str(data["reason"]))


class Commit(JsonForm, frozen=True):
    """``cursor`` is done with everything below ``ends``; meant for one spool and epoch.

    ``ends`` has an entry for each log of ``view``: P for messages, one for events. ``owner`` is
    who holds the cursor, None where nobody does; ``query`` the query that owns it, as in `Hold`.
    ``reset`` is the last `CursorReset` that the query has obeyed, "" where there was none.
    """

    cursor: str
    ends: tuple[int, ...]
    spool: str | None = None
    epoch: int | None = None
    owner: str | None = None
    view: View = "messages"
    query: str = ""
    reset: str = ""

    def __post_init__(self) -> None:
        _named("cursor", self.cursor)


class Reset(JsonForm, frozen=True):
    """The query of ``cursor`` is to go on at ``to``, which has an offset for each log of its view;
    what is not stored counts as the next offset that is."""

    cursor: str
    to: tuple[int, ...]
    spool: str | None = None

    def __post_init__(self) -> None:
        _named("cursor", self.cursor)


def view_of(value: object) -> View:
    """A view by its name, ``messages`` where none is given; ValueError for any other."""
    for view in VIEWS:
        if value == view:
            return view
    if value is None:
        return "messages"
    raise ValueError("no such view")


def _named(what: str, value: str) -> None:
    if not value:
        raise ValueError(f"a {what} without a name")
    _at_most(what, value)


def _at_most(what: str, value: str) -> None:
    if len(value) > MAX_NAME:
        raise ValueError(f"a {what} of {len(value)} characters")


def require_spool(served: str, asked: str | None) -> None:
    """Raises DataLoss.SPOOL_REPLACED when ``asked`` names another spool than the one served."""
    if asked is not None and asked != served:
        raise DataLoss(
            "SPOOL_REPLACED",
            f"offsets of spool {asked} were asked for, but the intake serves spool {served}",
            "Point option spool at the directory that the checkpoint was made with, "
            "or start with a new checkpoint",
        )
