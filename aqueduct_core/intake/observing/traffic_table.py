"""The channels and connections of an intake, and what each of them brought: bounded, whatever peers
do."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from aqueduct_core.flight.activity import (
    PEER_ORDERS,
    ChannelQuery,
    ChannelStatus,
    PeerStatus,
)
from aqueduct_core.intake.observing.measures import DecayingRate
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.storage.event_log import DISCONNECTED
from aqueduct_core.intake.storage.group_commit import GroupCommit

MAX_CHANNELS = 16_384
"""Open channels that are followed, about 800 bytes each; more are counted only."""

MAX_CONNECTIONS = 8_192

ENDED_KEPT = 256
"""Channels that ended last, which a person still wants to see."""

OPEN = "open"

TrafficKey: TypeAlias = tuple[str, int]
"""Connection and number."""


@dataclass(slots=True)
class Traffic:
    """What a channel or connection brought, since ``since`` (monotonic seconds)."""

    since: float
    last: float
    rate: DecayingRate
    byte_rate: DecayingRate
    messages: int = 0
    bytes: int = 0
    repeated: int = 0

    @classmethod
    def from_now(cls, now: float) -> Traffic:
        return cls(now, now, DecayingRate(now), DecayingRate(now))

    def add(self, rows: int, size: int, repeats: int, now: float) -> None:
        self.messages += rows
        self.bytes += size
        self.repeated += repeats
        self.last = now
        self.rate.add(rows + repeats, now)
        self.byte_rate.add(size, now)


@dataclass(slots=True)
class ChannelTraffic:
    """One channel in one life of it."""

    name: str
    producer: str
    connection: str
    id: int
    parent: int | None
    traffic: Traffic
    state: str = OPEN
    reason: str = ""
    nacked: int = 0


@dataclass(slots=True)
class ConnectionTraffic:
    """One connection, and the numbers of its channels that are followed."""

    traffic: Traffic
    producer: str = ""
    channels: set[int] = field(default_factory=set)


class ConnectionState(NamedTuple):
    """What an intake knows of a connection beside what it brought, as `PeerStatus` has it."""

    connection: str
    address: str
    channels: int
    memory: int
    waiting: int


def states_of(sessions: Iterable[Session[Any]], groups: GroupCommit) -> list[ConnectionState]:
    """Of the sessions that are there; to be called in the thread of the event loop."""
    return [
        ConnectionState(each.id, each.peer, each.channels, each.memory, groups.memory_of(each))
        for each in sessions
    ]


class TrafficTable:
    """By connection and number; changed in one thread, looked at from any.

    Holds at most `MAX_CHANNELS` that are open and `ENDED_KEPT` that are not. ``unfollowed`` counts
    those that found no room.
    """

    def __init__(self) -> None:
        self.unfollowed = 0
        self._open: dict[TrafficKey, ChannelTraffic] = {}
        self._ended: deque[ChannelTraffic] = deque(maxlen=ENDED_KEPT)
        self._connections: dict[str, ConnectionTraffic] = {}

    def opened(
        self, key: TrafficKey, name: str, producer: str, parent: int | None, now: float
    ) -> None:
        """A channel is there. Without effect where it is known."""
        if key in self._open:
            return
        if len(self._open) >= MAX_CHANNELS:
            self.unfollowed += 1
            return
        connection, number = key
        self._open[key] = ChannelTraffic(
            name, producer, connection, number, parent, Traffic.from_now(now)
        )
        joined = self._connections.get(connection)
        if joined is not None:
            joined.channels.add(number)

    def connected(self, connection: str, producer: str, now: float) -> None:
        if len(self._connections) < MAX_CONNECTIONS:
            self._connections[connection] = ConnectionTraffic(Traffic.from_now(now), producer)

    def brought(self, key: TrafficKey, rows: int, size: int, repeats: int, now: float) -> None:
        """So much of it came and is stored, or was stored before."""
        channel = self._open.get(key)
        if channel is not None:
            channel.traffic.add(rows, size, repeats, now)
        connection = self._connections.get(key[0])
        if connection is not None:
            connection.traffic.add(rows, size, repeats, now)

    def nacked(self, key: TrafficKey, count: int) -> None:
        channel = self._open.get(key)
        if channel is not None:
            channel.nacked += count

    def ended(self, key: TrafficKey, how: str, reason: str) -> None:
        channel = self._open.pop(key, None)
        if channel is None:
            return
        channel.state, channel.reason = how, reason
        self._ended.append(channel)
        connection = self._connections.get(key[0])
        if connection is not None:
            connection.channels.discard(key[1])

    def disconnected(self, connection: str, reason: str) -> int:
        """What has not ended by itself is over too: so many channels."""
        gone = self._connections.pop(connection, None)
        numbers = sorted(gone.channels) if gone is not None else []
        for number in numbers:
            channel = self._open.pop((connection, number))
            channel.state, channel.reason = DISCONNECTED, reason
            self._ended.append(channel)
        return len(numbers)

    def channels(
        self, query: ChannelQuery, connections: Sequence[ConnectionState], now: float
    ) -> tuple[tuple[ChannelStatus, ...], int]:
        """Those that the query asks for, and how many match it."""
        sought = query.search.casefold()
        addresses = {each.connection: each.address for each in connections} if sought else {}
        found = [
            each
            for each in (*_copy(self._open.values()), *_copy(self._ended))
            if not sought
            or sought in each.name.casefold()
            or sought in each.producer.casefold()
            or sought in each.connection.casefold()
            or sought in addresses.get(each.connection, "")
        ]
        if query.order == "tree":
            shown = [
                _channel(each, now, depth)
                for (each, depth), _ in zip(_as_tree(found), range(query.most), strict=False)
            ]
            return tuple(shown), len(found)
        ordered = sorted(found, key=lambda each: _rank(each, query, now))
        return tuple(_channel(each, now) for each in ordered[: query.most]), len(found)

    def peers(
        self, query: ChannelQuery, connections: Sequence[ConnectionState], now: float
    ) -> tuple[tuple[PeerStatus, ...], int]:
        """The connections, in the order of the query as far as it has a meaning for them."""
        sought = query.search.casefold()
        nothing = ConnectionTraffic(Traffic.from_now(now))
        pairs = [(each, self._connections.get(each.connection, nothing)) for each in connections]
        found = [
            (each, known)
            for each, known in pairs
            if sought in each.address
            or sought in known.producer.casefold()
            or sought in each.connection.casefold()
        ]
        peers = [_peer(*pair, now) for pair in found]
        order = query.order if query.order in PEER_ORDERS else "rate"
        peers.sort(key=lambda each: (-getattr(each, order), each.connection))
        return tuple(peers[: query.peers]), len(found)

    @property
    def open_channels(self) -> int:
        return len(self._open)


def _copy(values: Iterable[ChannelTraffic]) -> list[ChannelTraffic]:
    """Whatever the other thread does meanwhile: making a list of what is there holds the
    interpreter's lock, but that is no promise of a deque's."""
    while True:
        try:
            return list(values)
        except RuntimeError:
            continue


def _rank(each: ChannelTraffic, query: ChannelQuery, now: float) -> tuple[float | str, ...]:
    traffic = each.traffic
    last = (each.name, each.connection, each.id)
    if query.order == "name":
        return last
    value = {
        "rate": _rate(each, now),
        "messages": traffic.messages,
        "bytes": traffic.bytes,
        "quiet": now - traffic.last if each.state == OPEN else -1.0,
        "repeated": traffic.repeated,
        "nacked": each.nacked,
    }[query.order]
    return (-value, each.state != OPEN, *last)


def _rate(each: ChannelTraffic, now: float) -> float:
    """What has ended brings nothing any more, however much it just brought."""
    return each.traffic.rate.at(now) if each.state == OPEN else 0.0


def _as_tree(found: Sequence[ChannelTraffic]) -> Iterator[tuple[ChannelTraffic, int]]:
    """Each behind the one that brought it; those whose parent is not there begin a tree. What is
    open comes first in ``found``, and connections keep that order."""
    known = {(each.connection, each.id): each for each in found}
    connections = {
        each: at for at, each in enumerate(dict.fromkeys(one.connection for one in found))
    }
    below: dict[TrafficKey, list[ChannelTraffic]] = {}
    roots: list[ChannelTraffic] = []
    for each in sorted(known.values(), key=lambda one: (connections[one.connection], one.id)):
        parent = (each.connection, -1 if each.parent is None else each.parent)
        if parent in known and each.parent != each.id:
            below.setdefault(parent, []).append(each)
        else:
            roots.append(each)
    waiting = [(each, 0) for each in reversed(roots)]
    while waiting:
        each, depth = waiting.pop()
        yield each, depth
        children = below.pop((each.connection, each.id), [])
        waiting += [(child, depth + 1) for child in reversed(children)]
    for circle in below.values():  # no peer can make one; if one did, it hides nothing
        yield from ((each, 0) for each in circle)


def _channel(each: ChannelTraffic, now: float, depth: int = 0) -> ChannelStatus:
    traffic = each.traffic
    return ChannelStatus(
        name=each.name,
        producer=each.producer,
        connection=each.connection,
        id=each.id,
        parent=each.parent,
        state=each.state,
        age=now - traffic.since,
        quiet=now - traffic.last,
        messages=traffic.messages,
        bytes=traffic.bytes,
        repeated=traffic.repeated,
        nacked=each.nacked,
        rate=_rate(each, now),
        byte_rate=traffic.byte_rate.at(now) if each.state == OPEN else 0.0,
        depth=depth,
        reason=each.reason,
    )


def _peer(connection: ConnectionState, known: ConnectionTraffic, now: float) -> PeerStatus:
    traffic = known.traffic
    return PeerStatus(
        connection=connection.connection,
        address=connection.address,
        producer=known.producer,
        channels=connection.channels,
        age=now - traffic.since,
        quiet=now - traffic.last,
        messages=traffic.messages,
        bytes=traffic.bytes,
        repeated=traffic.repeated,
        rate=traffic.rate.at(now),
        byte_rate=traffic.byte_rate.at(now),
        waiting=connection.waiting,
        memory=connection.memory,
    )
