"""A link whose datagrams are the engine's own packets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from aqueduct_core.engine.actions import Action, Admit, CloseLink, SendDatagram
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramOutcome,
    Input,
    LinkLost,
    LinkReady,
    LinkRoom,
)
from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport.link import Address, CertificateFault, LinkCounts

ROOM = 64 << 10
"""Bytes of packets that may wait in a link; all but those to a stranger leave at once."""
BURST = 128
"""Packets that leave at once: fewer than fit the buffer that Linux gives a socket that asks for
more (416 KB, of which one takes up to 2.3). Nothing on the way says when it was too much."""
RATE = 64_000
"""Packets a second beyond that: more than a program on the other side takes in."""
PAUSE = 0.001
"""Seconds until more of them may leave."""
HEADERS = 48
"""Bytes of the headers of IPv6 and UDP, which each packet beyond one for one costs its receiver."""
LARGEST_UNFRAGMENTED = 1_472
"""Bytes of a UDP datagram that fit an Ethernet frame of 1,500 with the headers of IPv4; over IPv6,
with a longer header, the largest of them are cut in two on the way and arrive whole."""
LARGEST_PACKET = 65_507
"""Bytes that fit a UDP datagram."""
LINK_BYTES = 2 << 10
PACKET_BYTES = 200
"""A packet that waits, beside its bytes."""


@dataclass(frozen=True, slots=True)
class PlainSettings:
    """Bounds and times of one connection without QUIC; sizes in bytes, times in seconds.

    Attributes:
        idle_timeout: silence of the peer after which the link is lost. Nothing is sent to keep it
            up: that is for the engine.
        probation: how long a listener has to hear of a peer before it keeps its place when others
            come: who writes a new address into each packet gains none.
        max_datagram_size: of a packet that we send.
        trusted: other addresses than loopback may be used; see `check_reach`.
    """

    idle_timeout: float = 60.0
    probation: float = 1.0
    max_datagram_size: int = LARGEST_UNFRAGMENTED
    trusted: bool = False

    def __post_init__(self) -> None:
        for name, low, high in (
            ("idle_timeout", 0.05, 3_600.0),
            ("probation", 0.0, 60.0),
            ("max_datagram_size", 1, LARGEST_PACKET),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidOption(
                    "BAD_VALUE", f"{name} is {value!r}", f"Give a value from {low:g} to {high:g}"
                )


class PlainLink:
    """The packets of one peer, as ``link.Link``. It has datagrams and no streams, so it tells
    nothing of what has left of any.

    Ready from the start: there is nothing to agree on. Ends when the engine closes it, of which the
    peer learns nothing, or when the peer is silent for too long.

    A stranger is sent no more bytes than came from it, whether one counts headers or not: whoever
    writes another's address into its packets gains nothing. What it may not be sent yet waits; what
    is small enough overtakes what is not, as any datagram may. It stays a stranger for as long as
    it proves nothing: who only sends has no way to.

    Args:
        stranger: the peer's address is not proven, until the engine says ``Admit``.
    """

    alpn: str | None = None
    early = False
    early_accepted: bool | None = None
    alert: int | None = None
    certificate_fault: CertificateFault | None = None
    peer_fingerprint: str | None = None
    round_trip: float | None = None
    ready = True

    def __init__(
        self, settings: PlainSettings, address: Address, now: float, *, stranger: bool
    ) -> None:
        self.counts = LinkCounts()
        self.lost: LinkLost | None = None
        self.proved = not stranger
        """The peer receives at its address: any amount may be sent there."""
        self.admitted = not stranger
        """It keeps its place: proved, or heard of for longer than its probation."""
        self._settings = settings
        self._address = address
        self._queue: deque[SendDatagram] = deque()
        self._unsent = 0
        self._held_back = False
        self._may_leave = float(BURST)
        self._counted_at = now
        self._idle_at = now + settings.idle_timeout
        self._on_probation_until = now + settings.probation
        self._inputs: list[Input] = [
            LinkReady(settings.max_datagram_size),
            LinkRoom(ROOM),
        ]

    @property
    def timer(self) -> float | None:
        if self.lost is not None:
            return None
        waits = self.proved and self._queue
        return min(self._idle_at, self._counted_at + PAUSE) if waits else self._idle_at

    @property
    def awaits(self) -> float | None:
        return None

    @property
    def unsent(self) -> int:
        return self._unsent

    @property
    def outgoing(self) -> int:
        return self._unsent

    @property
    def footprint(self) -> int:
        return LINK_BYTES + self._unsent + PACKET_BYTES * len(self._queue)

    @property
    def backlogged(self) -> bool:
        return bool(self._queue)

    @property
    def closed(self) -> bool:
        return self.lost is not None

    def receive(self, datagrams: Sequence[tuple[bytes, Address]], now: float) -> None:
        if self.lost is not None:
            return
        counts = self.counts
        counts.datagrams_received += len(datagrams)
        counts.bytes_received += sum(len(data) for data, _ in datagrams)
        self._idle_at = now + self._settings.idle_timeout
        if now >= self._on_probation_until:
            self.admitted = True
        if self._held_back:
            counts.datagrams_held_back += len(datagrams)
        else:
            self._inputs += [Datagram(data) for data, _ in datagrams]

    def inputs(self) -> list[Input]:
        inputs, self._inputs = self._inputs, []
        return inputs

    def apply(self, actions: Iterable[Action], now: float) -> None:
        """Carry out actions; ValueError for what needs streams."""
        for action in actions:
            if self.lost is not None:
                return
            match action:
                case SendDatagram(data, token):
                    if len(data) > self._settings.max_datagram_size:
                        self.counts.datagram_frames_refused += 1
                        self._inputs.append(DatagramOutcome(token, DatagramFate.REFUSED))
                    else:
                        self._queue.append(action)
                        self._unsent += len(data)
                case CloseLink(code, reason, origin):
                    self.close(code, reason, origin)
                case Admit():
                    self.proved = self.admitted = True
                case _:
                    raise ValueError(f"a link without streams is given {action!r}")

    def transmit(self, now: float) -> list[tuple[bytes, Address]]:
        if not self._queue:
            return []
        passed, self._counted_at = now - self._counted_at, now
        self._may_leave = min(BURST, self._may_leave + RATE * passed)
        leaving, kept = self._paced() if self.proved else self._within_what_came()
        if not leaving:
            return []
        self._queue = kept
        self._may_leave -= len(leaving)
        left = kept[0].token - 1 if kept else leaving[-1].token  # all before the first that waits
        size = sum(len(each.data) for each in leaving)
        self._unsent -= size
        self.counts.bytes_sent += size
        self.counts.datagrams_sent += len(leaving)
        if self.lost is None:
            self._inputs.append(DatagramOutcome(left, DatagramFate.LEFT))
        return [(each.data, self._address) for each in leaving]

    def fire(self, now: float) -> None:
        if self.lost is None and now >= self._idle_at:
            self._lose(LinkLost(0, "idle timeout", by_peer=False, origin=CloseOrigin.IDLE_TIMEOUT))

    def too_large(self, size: int, now: float) -> None:
        """Its size is the application's choice; its loss is like any other."""

    def probe(self) -> bool:
        return False

    def close(self, code: int, reason: str, origin: CloseOrigin = CloseOrigin.APPLICATION) -> None:
        """What waits leaves with the next ``transmit``, as far as it may: it may say why."""
        self._lose(LinkLost(code, reason, by_peer=False, origin=origin))

    def abandon(self, reason: str) -> None:
        self._lose(LinkLost(0, reason, by_peer=False, origin=CloseOrigin.ABANDONED))
        self.free()

    def hold_back(self, on: bool) -> None:
        self._held_back = on

    def free(self) -> None:
        self._queue.clear()
        self._unsent = 0

    def routes(self) -> tuple[list[bytes], list[bytes]]:
        return [], []

    def _paced(self) -> tuple[deque[SendDatagram], deque[SendDatagram]]:
        """Of what waits, what may leave now, and the rest."""
        most = int(self._may_leave)
        if len(self._queue) <= most:
            return self._queue, deque()
        return deque(islice(self._queue, most)), deque(islice(self._queue, most, None))

    def _within_what_came(self) -> tuple[deque[SendDatagram], deque[SendDatagram]]:
        """Of what waits, what a stranger may be sent, and the rest."""
        counts = self.counts
        answers = counts.datagrams_received - counts.datagrams_sent
        size = counts.bytes_received - counts.bytes_sent + HEADERS * min(0, answers)
        leaving: deque[SendDatagram] = deque()
        kept: deque[SendDatagram] = deque()
        for each in self._queue:
            costs = len(each.data) + (HEADERS if answers <= 0 else 0)
            if costs <= size:
                size -= costs
                answers -= 1
                leaving.append(each)
            else:
                kept.append(each)
        return leaving, kept

    def _lose(self, lost: LinkLost) -> None:
        if self.lost is None:
            self.lost = lost
            self._inputs.append(lost)
