"""What an intake says of itself, as a frozen value with one JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aqueduct_core.flight.subscription_status import SubscriptionStatus


@dataclass(frozen=True, slots=True)
class Rates:
    """What became durable, a second, over the last minute or since the start."""

    rows: float = 0.0
    bytes: float = 0.0

    def to_json(self) -> dict[str, float]:
        return {"rows": self.rows, "bytes": self.bytes}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(data.get("rows", 0.0), data.get("bytes", 0.0))


@dataclass(frozen=True, slots=True)
class CursorOwner:
    """The query to which a cursor belongs: its id, as its checkpoint has it; where it ran last, for
    people; and since when, in seconds since 1970."""

    query: str
    where: str
    since: float

    def to_json(self) -> dict[str, Any]:
        return {"query": self.query, "where": self.where, "since": self.since}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(str(data["query"]), str(data["where"]), float(data["since"]))


@dataclass(frozen=True, slots=True)
class IntakeStatus:
    """What an intake says of itself.

    ``ends`` are the durable offsets of its message partitions, exclusive; ``starts`` the earliest
    that are still stored; ``events`` both of the events log as ``(start, end)``. ``committed`` is
    the position of each cursor that reads messages, ``events_committed`` of each that reads events.
    ``listen`` (empty where it only dials) and ``flight`` are ``host:port``. ``bytes`` is the size
    of the spool on disk, ``held_bytes`` what was taken in and is not durable yet. ``lease`` is the
    time in seconds after which the intake ends itself unless somebody asks (None: it stays).
    ``oldest`` is, for each message partition, the age in seconds of the oldest row that some cursor
    has not passed (0.0: there is none; without a cursor all rows count); None where it was not
    asked for. ``subscriptions`` is what an intake that dials has asked for; ``complete``: all of it
    has come to its end and is durable, and nothing will come any more. ``owners`` are the queries
    to which cursors belong, ``held`` the cursors that a planner holds at this moment. ``settings``
    are those that decide who can bring messages, ``in_force`` the others that the intake was told
    at its start, both by option; no secret is in either. ``opened`` are the ends of all logs, that
    of events last, when it opened the spool, before anybody brought anything to it. ``warnings``
    are what those who run it should know of its settings.
    """

    id: str
    epoch: int
    ends: tuple[int, ...]
    starts: tuple[int, ...]
    committed: Mapping[str, tuple[int, ...]]
    listen: str
    flight: str
    pid: int
    bytes: int = 0
    full: bool = False
    connections: int = 0
    channels: int = 0
    draining: bool = False
    lease: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    events: tuple[int, int] = (0, 0)
    events_committed: Mapping[str, int] = field(default_factory=dict)
    held_bytes: int = 0
    rates: Rates = Rates()
    oldest: tuple[float, ...] | None = None
    subscriptions: SubscriptionStatus | None = None
    complete: bool = False
    owners: Mapping[str, CursorOwner] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    in_force: Mapping[str, str] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    opened: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "epoch": self.epoch,
            "ends": list(self.ends),
            "starts": list(self.starts),
            "committed": {cursor: list(ends) for cursor, ends in self.committed.items()},
            "listen": self.listen,
            "flight": self.flight,
            "pid": self.pid,
            "bytes": self.bytes,
            "full": self.full,
            "connections": self.connections,
            "channels": self.channels,
            "draining": self.draining,
            "lease": self.lease,
            "counters": dict(self.counters),
            "events": list(self.events),
            "eventsCommitted": dict(self.events_committed),
            "heldBytes": self.held_bytes,
            "rates": self.rates.to_json(),
            "oldest": None if self.oldest is None else list(self.oldest),
            "subscriptions": None if self.subscriptions is None else self.subscriptions.to_json(),
            "complete": self.complete,
            "owners": {cursor: owner.to_json() for cursor, owner in self.owners.items()},
            "settings": dict(self.settings),
            "inForce": dict(self.in_force),
            "held": list(self.held),
            "opened": list(self.opened),
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Unknown keys are left aside, so that an older client reads a newer intake."""
        start, end = data.get("events", (0, 0))
        oldest, subscriptions = data.get("oldest"), data.get("subscriptions")
        return cls(
            id=data["id"],
            epoch=data["epoch"],
            ends=tuple(data["ends"]),
            starts=tuple(data["starts"]),
            committed={cursor: tuple(ends) for cursor, ends in data["committed"].items()},
            listen=data["listen"],
            flight=data["flight"],
            pid=data["pid"],
            bytes=data.get("bytes", 0),
            full=data.get("full", False),
            connections=data.get("connections", 0),
            channels=data.get("channels", 0),
            draining=data.get("draining", False),
            lease=data.get("lease"),
            counters=data.get("counters", {}),
            events=(start, end),
            events_committed=data.get("eventsCommitted", {}),
            held_bytes=data.get("heldBytes", 0),
            rates=Rates.from_json(data.get("rates", {})),
            oldest=None if oldest is None else tuple(oldest),
            subscriptions=None
            if subscriptions is None
            else SubscriptionStatus.from_json(subscriptions),
            complete=data.get("complete", False),
            owners={
                cursor: CursorOwner.from_json(owner)
                for cursor, owner in data.get("owners", {}).items()
            },
            settings=data.get("settings", {}),
            in_force=data.get("inForce", {}),
            held=tuple(data.get("held", ())),
            opened=tuple(data.get("opened", ())),
            warnings=tuple(data.get("warnings", ())),
        )
