"""What goes on in an intake, beside how far it is: frozen values with one JSON form.

Part of its status where somebody asked for it (`IntakeStatus.activity`): the page, the terminal
view and the metrics show this and nothing else. No protocol has more to say than is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from aqueduct_core.primitives.json_file import JsonForm

ChannelOrder = Literal["rate", "messages", "bytes", "quiet", "repeated", "nacked", "name", "tree"]
"""By what channels are ordered, the most first; ``quiet``: those that brought nothing for longest;
``tree``: each below the one that brought it."""

PEER_ORDERS: tuple[ChannelOrder, ...] = ("rate", "messages", "bytes", "quiet", "repeated")
"""Those that have a meaning for connections, which are by rate in any other."""

MOST_CHANNELS = 1_000
"""That one answer names, however many are asked for."""

MOST_SEARCHED = 200
"""Characters of what is searched for."""


class ChannelQuery(JsonForm, frozen=True):
    """Which channels an answer names: at most ``most`` of those whose name, producer or peer holds
    ``search``, without regard to case. ``peers`` as many connections."""

    search: str = ""
    order: ChannelOrder = "rate"
    most: int = 50
    peers: int = 20

    def bounded(self) -> ChannelQuery:
        """As far as somebody from outside may ask."""
        return ChannelQuery(
            self.search[:MOST_SEARCHED],
            self.order,
            max(0, min(self.most, MOST_CHANNELS)),
            max(0, min(self.peers, MOST_CHANNELS)),
        )


class Distribution(JsonForm, frozen=True):
    """How often durations were how long: ``counts[i]`` of them up to ``bounds[i]`` seconds and
    above the bound before, the last of ``counts`` above all bounds. ``total``: their sum."""

    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = (0,)
    total: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile(self, part: float) -> float | None:
        """Seconds that about ``part`` (0 to 1) of them did not exceed, as of the bounds; None where
        there were none, infinity above the last bound."""
        left = part * self.count
        if not left:
            return None
        for bound, count in zip(self.bounds, self.counts, strict=False):
            left -= count
            if left <= 0:
                return bound
        return float("inf")


class ChannelStatus(JsonForm, frozen=True):
    """One channel in one life of it. ``state`` is ``open``, or the kind of event with which it
    ended. ``rate`` and ``byte_rate`` are a second, over about the last ten; ``quiet`` seconds
    since its last message or its opening. ``depth``: how many channels above it are named too."""

    name: str
    producer: str
    connection: str
    id: int
    parent: int | None = None
    state: str = "open"
    age: float = 0.0
    quiet: float = 0.0
    messages: int = 0
    bytes: int = 0
    repeated: int = 0
    nacked: int = 0
    rate: float = 0.0
    byte_rate: float = 0.0
    depth: int = 0
    reason: str = ""


class PeerStatus(JsonForm, frozen=True):
    """One connection. ``waiting``: bytes that were taken in and are held back, as the spool has no
    room; ``memory``: what it takes of the intake beside its link, about."""

    connection: str
    address: str
    producer: str = ""
    channels: int = 0
    age: float = 0.0
    quiet: float = 0.0
    messages: int = 0
    bytes: int = 0
    repeated: int = 0
    rate: float = 0.0
    byte_rate: float = 0.0
    waiting: int = 0
    memory: int = 0


class HistorySample(JsonForm, frozen=True):
    """The intake at a moment: ``at`` seconds since 1970; messages, bytes, repeated and nacked ones
    since its start; what is stored, what was not committed by the slowest cursor, and how many
    connections and channels there were."""

    at: float
    messages: int
    bytes: int
    repeated: int
    nacked: int
    stored: int
    lag: int
    connections: int
    channels: int


class CursorLag(JsonForm, frozen=True):
    """How far a cursor is behind what is durable: messages (or events), stored bytes of them, and
    the age of the oldest, in seconds. ``held``: a planner holds the cursor now."""

    cursor: str
    view: str
    records: int
    bytes: int
    seconds: float
    held: bool = False


class SpoolUse(JsonForm, frozen=True):
    """What a spool takes, and may take (``limit``); ``records`` are messages and events."""

    bytes: int
    limit: int
    segments: int
    records: int

    @property
    def room(self) -> int:
        """Bytes until it is full."""
        return max(0, self.limit - self.bytes)


class ActivityStatus(JsonForm, frozen=True):
    """What goes on in an intake.

    ``started`` in seconds since 1970. ``reliable`` and ``unreliable`` are messages that were taken
    in since then (rows, but for those that were withdrawn), the same with ``_bytes`` their payload.
    ``ends`` counts the channels that ended, by how; ``opened`` those that were opened.
    ``ack_seconds``: from when the first message
    of a group came until all of it was durable and acked; ``sync_seconds``: of writing a group and
    syncing it; ``commit_seconds``: until a planner's commit was noted durably; ``delay_seconds``:
    how much later than asked the event loop woke up. ``channels`` and ``peers`` are those that the
    query asked for, of ``channels_found`` and ``peers_found``; ``unfollowed``: channels that were
    opened and found no room in the table of channels, since the start. ``history`` is in order.
    """

    started: float
    reliable: int = 0
    unreliable: int = 0
    reliable_bytes: int = 0
    unreliable_bytes: int = 0
    opened: int = 0
    ends: Mapping[str, int] = msgspec.field(default_factory=dict)
    ack_seconds: Distribution = Distribution()
    sync_seconds: Distribution = Distribution()
    commit_seconds: Distribution = Distribution()
    delay_seconds: Distribution = Distribution()
    channels: tuple[ChannelStatus, ...] = ()
    channels_found: int = 0
    peers: tuple[PeerStatus, ...] = ()
    peers_found: int = 0
    unfollowed: int = 0
    history: tuple[HistorySample, ...] = ()
