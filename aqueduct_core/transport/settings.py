"""The settings of a link and of a listener: frozen values, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import get_args

from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport.address_validation import RetryMode

SMALLEST_DATAGRAM = 1_200
LARGEST_DATAGRAM = 9_000
"""What passes on any path but loopback. Larger ones are neither sent nor taken, and peers are told
so: what a datagram brings is taken in at once, while everybody else waits."""
LEAST_MEMORY = 1 << 20
"""A handful of connections."""
LEAST_WINDOW = 256 * 1024
"""Enough for 5 MB/s over a path of 50 ms; a message may be larger than the window."""

MOST_MODERATION = 0.02
"""Seconds: acknowledgements are due within 25 ms."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What the keys of a connection's packets are used for at most, in packets.

    The bounds are those of RFC 9001 §6.6 for the cipher that bears least, with room for what
    one turn sends: 2^23 packets sealed with a key (AES-GCM), 2^36 not opened (ChaCha20-Poly1305).

    Attributes:
        change_after: sealed with one key when it is changed for another one, about 5 GB of data.
        sealed: sealed with one key when the connection is closed (AEAD_LIMIT_REACHED), as the peer
            has not followed to it.
        failures: that no key opened when the connection is closed the same way; somebody has forged
            them.
    """

    change_after: int = 1 << 22
    sealed: int = (1 << 23) - (1 << 20)
    failures: int = 1 << 36

    def __post_init__(self) -> None:
        _within(self, "change_after", 1, 1 << 22)
        _within(self, "sealed", self.change_after, (1 << 23) - (1 << 20))
        _within(self, "failures", 1, 1 << 36)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Bounds and times of one QUIC connection; sizes in bytes, times in seconds.

    Attributes:
        idle_timeout: silence after which the link is lost; the smaller one of both ends counts.
            A PING goes out after a third of it, so only a dead peer is silent that long.
        handshake_timeout: for a dial and for each connection of a listener.
        stream_window: unconsumed bytes that the peer may have sent us on one stream.
        connection_window: the same for all streams of the connection together; this is the
            memory that one peer can make us hold.
        max_streams_uni: unidirectional streams that the peer may have open at once.
        max_streams_bidi: the same of bidirectional ones; 0: it may open none.
        initial_datagram_size: UDP payload that we send before anything is known of the path. 1200
            passes everywhere (RFC 9000 §14); raise it only for a path that is known.
        max_datagram_size: what it grows to at most, as the path is found to carry it
            (`PathMtuSearch`); the same as ``initial_datagram_size``: it never changes. At most
            ``LARGEST_DATAGRAM``, which is also the most that we take.
        max_datagram_frame_size: largest DATAGRAM frame that we take (RFC 9221); 0: none.
        congestion: ``reno`` or ``cubic``.
        datagram_outcomes: tell the engine of each datagram whether the peer's transport has it. It
            costs an entry for each one under way, so only for an engine that asks.
        stream_progress: tell the engine how much of what it wrote on streams has left. It costs a
            look at each stream that has something to send, so only for an engine that asks.
        key_limits: when keys of packets are changed.
    """

    idle_timeout: float = 30.0
    handshake_timeout: float = 10.0
    stream_window: int = 4 * 1024 * 1024
    connection_window: int = 16 * 1024 * 1024
    max_streams_uni: int = 65_536
    max_streams_bidi: int = 0
    initial_datagram_size: int = SMALLEST_DATAGRAM
    max_datagram_size: int = LARGEST_DATAGRAM
    max_datagram_frame_size: int = 65_536
    congestion: str = "cubic"
    datagram_outcomes: bool = False
    stream_progress: bool = False
    key_limits: KeyLimits = field(default_factory=KeyLimits)

    def __post_init__(self) -> None:
        _within(self, "idle_timeout", 0.05, 3_600.0)
        _within(self, "handshake_timeout", 0.05, 600.0)
        _within(self, "stream_window", SMALLEST_DATAGRAM, 1 << 40)
        _within(self, "connection_window", SMALLEST_DATAGRAM, 1 << 40)
        _within(self, "max_streams_uni", 0, 1 << 30)
        _within(self, "max_streams_bidi", 0, 1 << 30)
        _within(self, "initial_datagram_size", SMALLEST_DATAGRAM, LARGEST_DATAGRAM)
        _within(self, "max_datagram_size", self.initial_datagram_size, LARGEST_DATAGRAM)
        _within(self, "max_datagram_frame_size", 0, 65_536)
        if self.congestion not in ("reno", "cubic"):
            raise InvalidOption(
                "BAD_VALUE",
                f"congestion is {self.congestion!r}",
                "Use reno or cubic",
            )

    @property
    def for_fragments(self) -> LinkSettings:
        """The same where datagrams may be fragmented on the way, so that larger ones than at first
        would arrive, and prove nothing."""
        return replace(self, max_datagram_size=self.initial_datagram_size)


@dataclass(frozen=True, slots=True)
class ListenLimits:
    """What a listener grants to strangers.

    Attributes:
        connections: links at once, closing ones included.
        connections_per_address: links at once from one IP address.
        handshakes: links at once whose handshake is not complete. For one more, the oldest gives
            way whose client has not proved its address.
        handshakes_per_network: the same for clients of one IPv4 address, or of one /64 of IPv6,
            that have not proved it.
        retry: ``always`` answers a first Initial by a Retry, so that nothing is kept for a client
            before it has shown that it receives at its address; costs a round trip, except with a
            token of an earlier connection, which every client is given. ``auto`` does so only under
            pressure (`AddressValidation`), ``never`` not at all.
        resume: give clients sessions, with which their next handshake needs no certificate.
        early_data: the same, and take what they write before that handshake is complete (0-RTT).
            It is held, within the windows of ``LinkSettings``, and seen by nobody until then,
            so it cannot be replayed (AQ-0RTT-3).
        sessions: sessions remembered, each for one use; the oldest are forgotten first.
        memory: bytes of memory, about, that all connections of the listener may take together;
            who has proven least and holds most gives way first (`MemoryBudget`).
        outgoing: bytes, with those of streams, that may wait for one peer to take or acknowledge
            them; beyond it the connection is closed. None: no bound but ``memory``, for
            applications that send much at once.
        connection_share: of the time of a busy loop, that one connection has while others wait.
        shared_window: bytes that all connections share in fair parts as their connection window, so
            that many of them together cannot make us hold a window each; None: each has the window
            of ``LinkSettings``. See ``share``.
        moderation: seconds that what comes by itself may wait to be read together with more
            (`Moderation`); 0: it is read at once, as suits those whose peers wait for answers.
    """

    connections: int = 4_096
    connections_per_address: int = 1_024
    handshakes: int = 512
    handshakes_per_network: int = 128
    retry: RetryMode = "auto"
    resume: bool = False
    early_data: bool = False
    sessions: int = 4_096
    memory: int = 512 << 20
    outgoing: int | None = None
    connection_share: float = 0.5
    shared_window: int | None = None
    moderation: float = 0.0

    def __post_init__(self) -> None:
        for name in (
            "connections",
            "connections_per_address",
            "handshakes",
            "handshakes_per_network",
            "sessions",
        ):
            _within(self, name, 1, 1 << 30)
        _within(self, "memory", LEAST_MEMORY, 1 << 50)
        _within(self, "connection_share", 0.01, 1.0)
        _within(self, "moderation", 0.0, MOST_MODERATION)
        if self.outgoing is not None:
            _within(self, "outgoing", LEAST_WINDOW, 1 << 50)
        if self.retry not in get_args(RetryMode):
            raise InvalidOption(
                "BAD_VALUE", f"retry is {self.retry!r}", "Use auto, always or never"
            )
        if self.shared_window is not None:
            _within(self, "shared_window", LEAST_WINDOW, 1 << 40)


def share(settings: LinkSettings, connections: int, shared: int | None) -> LinkSettings:
    """The settings for one more connection beside ``connections`` others.

    Its part of ``shared`` bytes, not above the window of ``settings`` and not below
    ``LEAST_WINDOW``. What was granted to a connection stays its own, so *n* that come one after
    another have about ``shared · (1 + ln n)`` in all, or ``LEAST_WINDOW`` each.
    """
    if shared is None:
        return settings
    window = min(settings.connection_window, max(LEAST_WINDOW, shared // (connections + 1)))
    if window == settings.connection_window:
        return settings
    return replace(
        settings, connection_window=window, stream_window=min(window, settings.stream_window)
    )


def check_alpn(alpn: str) -> None:
    """Raise ``InvalidOption.BAD_VALUE`` for what cannot be the name of a protocol."""
    if not 1 <= len(alpn.encode()) <= 255:
        raise InvalidOption("BAD_VALUE", f"alpn is {alpn!r}", "Give a name of 1 to 255 bytes")


def _within(settings: object, name: str, low: float, high: float) -> None:
    value = getattr(settings, name)
    if not low <= value <= high:
        raise InvalidOption(
            "BAD_VALUE",
            f"{name} is {value!r}",
            f"Give a value from {low:g} to {high:g}",
        )
