"""Hears what a group commit does, and sums it up for those who look."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence

from aqueduct_core.flight.activity import ActivityStatus, ChannelQuery, HistorySample
from aqueduct_core.intake.observing.measures import Durations
from aqueduct_core.intake.observing.traffic_table import ConnectionState, TrafficTable
from aqueduct_core.intake.storage.event_log import (
    CONNECTED,
    DISCONNECTED,
    GAP,
    NACKED,
    OPENED,
    REJECTED,
    REPEATED,
    SKIPPED,
    LoggedEvent,
)
from aqueduct_core.intake.storage.pending import GroupObserver, PendingBatch

SAMPLE_SECONDS = 2.0
SAMPLES = 300
"""Ten minutes: what somebody who comes now wants to know of before."""

_NO_ENDS = frozenset({CONNECTED, DISCONNECTED, OPENED, NACKED, GAP, REPEATED, REJECTED, SKIPPED})
"""Kinds of events after which a channel is there as before; any other of a channel is its end."""


class Activity(GroupObserver):
    """What goes on in one intake, whatever its protocol.

    All that changes it is called in the thread of the event loop and costs some additions for a
    batch; `status` may be called from any thread, and does the work of looking there.

    Args:
        clock: monotonic seconds.
        wall_microseconds: since 1970, as the times of batches are.
    """

    def __init__(self, clock: Callable[[], float], wall_microseconds: Callable[[], int]) -> None:
        self.commits = Durations()
        self.delays = Durations()
        self._clock = clock
        self._wall = wall_microseconds
        self._started = wall_microseconds() / 1e6
        self._table = TrafficTable()
        self._counts: dict[bool, list[int]] = {True: [0, 0], False: [0, 0]}
        self._opened = 0
        self._repeated = 0
        self._nacked = 0
        self._ends: Counter[str] = Counter()
        self._acks = Durations()
        self._syncs = Durations()
        self._since: int | None = None
        self._under_way: dict[int, tuple[int, float]] = {}
        self._history: deque[HistorySample] = deque(maxlen=SAMPLES)
        self._sampled = clock()

    def accepted(self, pending: PendingBatch, rows: int, size: int, repeats: int) -> None:
        source, now = pending.source, self._clock()
        counts = self._counts[pending.batch.reliable]
        counts[0] += rows
        counts[1] += size
        self._repeated += repeats
        if self._since is None or pending.timestamp < self._since:
            self._since = pending.timestamp
        key = source.connection, source.channel_id
        self._table.opened(key, source.channel, source.producer, source.parent[0], now)
        self._table.brought(key, rows, size, repeats, now)

    def recorded(self, event: LoggedEvent) -> None:
        kind, now = event.kind, self._clock()
        if kind == CONNECTED:
            self._table.connected(event.connection, event.producer or "", now)
        elif kind == DISCONNECTED:
            lost = self._table.disconnected(event.connection, event.short_reason or "")
            self._ends[DISCONNECTED] += lost
        elif event.channel_id is None:
            return
        elif kind == OPENED:
            self._opened += 1
            self._table.opened(
                (event.connection, event.channel_id),
                event.channel or "",
                event.producer or "",
                event.parent_channel_id,
                now,
            )
        elif kind == NACKED:
            count = (event.last or 0) - (event.first or 0) + 1
            self._nacked += count
            self._table.nacked((event.connection, event.channel_id), count)
        elif kind not in _NO_ENDS:
            self._ends[kind] += 1
            reason = event.short_reason or ""
            self._table.ended((event.connection, event.channel_id), kind, reason)

    def written(self, group: int) -> None:
        since, self._since = self._since, None
        if group not in self._under_way:
            self._under_way[group] = self._wall() if since is None else since, self._clock()

    def durable(self, group: int) -> None:
        for number in [each for each in self._under_way if each <= group]:
            since, written = self._under_way.pop(number)
            self._acks.add((self._wall() - since) / 1e6)
            self._syncs.add(self._clock() - written)

    def sample(self, *, stored: int, lag: int, connections: int, channels: int) -> None:
        """How the intake is; to be called about once a second."""
        now = self._clock()
        if now - self._sampled < SAMPLE_SECONDS and self._history:
            return
        self._sampled = now
        reliable, unreliable = self._counts[True], self._counts[False]
        self._history.append(
            HistorySample(
                at=self._wall() / 1e6,
                messages=reliable[0] + unreliable[0],
                bytes=reliable[1] + unreliable[1],
                repeated=self._repeated,
                nacked=self._nacked,
                stored=stored,
                lag=lag,
                connections=connections,
                channels=channels,
            )
        )

    def status(self, query: ChannelQuery, connections: Sequence[ConnectionState]) -> ActivityStatus:
        """Thread-safe. ``connections`` of all connections that are there."""
        now = self._clock()
        channels, channels_found = self._table.channels(query, connections, now)
        peers, peers_found = self._table.peers(query, connections, now)
        reliable, unreliable = self._counts[True], self._counts[False]
        return ActivityStatus(
            started=self._started,
            reliable=reliable[0],
            unreliable=unreliable[0],
            reliable_bytes=reliable[1],
            unreliable_bytes=unreliable[1],
            opened=self._opened,
            ends=dict(self._ends),
            ack_seconds=self._acks.status(),
            sync_seconds=self._syncs.status(),
            commit_seconds=self.commits.status(),
            delay_seconds=self.delays.status(),
            channels=channels,
            channels_found=channels_found,
            peers=peers,
            peers_found=peers_found,
            unfollowed=self._table.unfollowed,
            history=tuple(self._history),
        )
