"""What an intake says of itself, as a frozen value with one JSON form."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from aqueduct_core.flight.activity import ActivityStatus, CursorLag, SpoolUse
from aqueduct_core.flight.stalls import Stall
from aqueduct_core.flight.subscription_status import SubscriptionStatus
from aqueduct_core.primitives.json_file import JsonForm


class Rates(JsonForm, frozen=True):
    """What became durable, a second, over the last minute or since the start."""

    rows: float = 0.0
    bytes: float = 0.0


class CursorOwner(JsonForm, frozen=True):
    """The query to which a cursor belongs: its id, as its checkpoint has it; where it ran last, for
    people; and since when, in seconds since 1970."""

    query: str
    where: str
    since: float


class CursorReset(JsonForm, frozen=True):
    """Where the query of a cursor is to go on, as an operator ordered: ``to`` has an offset for
    each log of its view. ``id`` is another one with each reset; ``at`` in seconds since 1970."""

    id: str
    to: tuple[int, ...]
    at: float


class IntakeStatus(JsonForm, frozen=True):
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
    to which cursors belong, ``held`` the cursors that a planner holds at this moment, ``resets``
    those that are to go on elsewhere, until a batch of their query has begun there. ``settings``
    are those that decide who can bring messages, ``in_force`` the others that the intake was told
    at its start, both by option; no secret is in either. ``opened`` are the ends of all logs, that
    of events last, when it opened the spool, before anybody brought anything to it. ``warnings``
    are what those who run it should know of its settings. ``protocol`` is that of its messages;
    earlier releases knew one and did not say it. ``stalls`` are what keeps messages from coming,
    or the spool from taking them, with how long they do. ``name`` is its own, ``http`` where its
    page and metrics are served ("": nowhere), ``release`` the version of this software,
    ``memory_limit`` what all connections may take. Only where it was asked for
    (`IntakeClient.observe`) there are ``activity``, ``lag`` of each cursor and ``use`` of the
    spool.
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
    counters: Mapping[str, int] = msgspec.field(default_factory=dict)
    events: tuple[int, int] = (0, 0)
    events_committed: Mapping[str, int] = msgspec.field(default_factory=dict)
    held_bytes: int = 0
    rates: Rates = Rates()
    oldest: tuple[float, ...] | None = None
    subscriptions: SubscriptionStatus | None = None
    complete: bool = False
    owners: Mapping[str, CursorOwner] = msgspec.field(default_factory=dict)
    settings: Mapping[str, str] = msgspec.field(default_factory=dict)
    in_force: Mapping[str, str] = msgspec.field(default_factory=dict)
    held: tuple[str, ...] = ()
    opened: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    protocol: str = "aqueduct"
    stalls: tuple[Stall, ...] = ()
    name: str = ""
    http: str = ""
    release: str = ""
    memory_limit: int = 0
    activity: ActivityStatus | None = None
    lag: tuple[CursorLag, ...] | None = None
    use: SpoolUse | None = None
    resets: Mapping[str, CursorReset] = msgspec.field(default_factory=dict)
