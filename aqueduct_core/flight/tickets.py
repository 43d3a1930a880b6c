"""What a client may ask of an intake, as frozen values with one JSON form each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

from aqueduct_core.errors import DataLoss
from aqueduct_core.flight.status import IntakeStatus

__all__ = [
    "CANCELS",
    "MAX_HOLD",
    "VIEWS",
    "Commit",
    "GiveUp",
    "Hold",
    "IntakeStatus",
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


@dataclass(frozen=True, slots=True)
class Ticket:
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
        return json.dumps(["rows", self.spool, self.partition, self.start, self.end]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises ValueError for anything that `to_bytes` does not make."""
        try:
            value = json.loads(data)
        except RecursionError:
            raise ValueError("not a ticket") from None
        if not (isinstance(value, list) and len(value) == 5 and value[0] == "rows"):
            raise ValueError("not a ticket")
        _, spool, *offsets = value
        if type(spool) is not str or any(type(offset) is not int for offset in offsets):
            raise ValueError("not a ticket")
        return cls(spool, *offsets)


@dataclass(frozen=True, slots=True)
class Hold:
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

    def to_json(self) -> dict[str, Any]:
        return {
            "cursor": self.cursor,
            "owner": self.owner,
            "seconds": self.seconds,
            "view": self.view,
            "spool": self.spool,
            "query": self.query,
            "where": self.where,
            "givenOut": list(self.given_out),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            str(data["cursor"]),
            str(data["owner"]),
            float(data["seconds"]),
            view_of(data.get("view")),
            _text(data.get("spool")),
            str(data.get("query", "")),
            str(data.get("where", "")),
            tuple(map(int, data.get("givenOut") or ())),
        )


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


@dataclass(frozen=True, slots=True)
class Commit:
    """``cursor`` is done with everything below ``ends``; meant for one spool and epoch.

    ``ends`` has an entry for each log of ``view``: P for messages, one for events. ``owner`` is
    who holds the cursor, None where nobody does; ``query`` the query that owns it, as in `Hold`.
    """

    cursor: str
    ends: tuple[int, ...]
    spool: str | None = None
    epoch: int | None = None
    owner: str | None = None
    view: View = "messages"
    query: str = ""

    def __post_init__(self) -> None:
        _named("cursor", self.cursor)

    def to_json(self) -> dict[str, Any]:
        return {
            "cursor": self.cursor,
            "ends": list(self.ends),
            "spool": self.spool,
            "epoch": self.epoch,
            "owner": self.owner,
            "view": self.view,
            "query": self.query,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        epoch = data.get("epoch")
        return cls(
            str(data["cursor"]),
            tuple(int(end) for end in data["ends"]),
            _text(data.get("spool")),
            None if epoch is None else int(epoch),
            _text(data.get("owner")),
            view_of(data.get("view")),
            str(data.get("query", "")),
        )


def view_of(value: object) -> View:
    """A view by its name, ``messages`` where none is given; ValueError for any other."""
    for view in VIEWS:
        if value == view:
            return view
    if value is None:
        return "messages"
    raise ValueError("no such view")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


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
