"""A link whose datagrams are the engine's own packets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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

AMPLIFICATION = 3
"""Times the bytes that came from an address that may be sent to it before it is proven, as for QUIC
(RFC 9000 §8.1): who writes another's address into its packets gains little by it."""
ROOM = 64 << 10
"""Bytes of packets that may wait in a link; all but those to a stranger leave at once."""
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
        admission_timeout: the same, at a listener, for the engine to say ``Admit``.
        max_datagram_size: of a packet that we send; 1,200 pass on any path.
    """

    idle_timeout: float = 30.0
    admission_timeout: float = 10.0
    max_datagram_size: int = 1_200

    def __post_init__(self) -> None:
        for name, low, high in (
            ("idle_timeout", 0.05, 3_600.0),
            ("admission_timeout", 0.05, 600.0),
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
        self.admitted = not stranger
        self._settings = settings
        self._address = address
        self._queue: deque[SendDatagram] = deque()
        self._unsent = 0
        self._held_back = False
        self._idle_at = now + settings.idle_timeout
        self._admit_until = now + settings.admission_timeout if stranger else None
        self._inputs: list[Input] = [
            LinkReady(settings.max_datagram_size),
            LinkRoom(ROOM),
        ]

    @property
    def proved(self) -> bool:
        return self.admitted

    @property
    def timer(self) -> float | None:
        if self.lost is not None:
            return None
        until = self._admit_until
        return self._idle_at if until is None else min(until, self._idle_at)

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
                    self.admitted = True
                    self._admit_until = None
                case _:
                    raise ValueError(f"a link without streams is given {action!r}")

    def transmit(self, now: float) -> list[tuple[bytes, Address]]:
        counts, queue = self.counts, self._queue
        out: list[tuple[bytes, Address]] = []
        left: int | None = None
        while queue:
            data, token = queue[0]
            sent = counts.bytes_sent + len(data)
            if not self.admitted and sent > AMPLIFICATION * counts.bytes_received:
                break
            queue.popleft()
            counts.bytes_sent = sent
            self._unsent -= len(data)
            out.append((data, self._address))
            left = token
        if left is not None:
            counts.datagrams_sent += len(out)
            self._inputs.append(DatagramOutcome(left, DatagramFate.LEFT))
        return out

    def fire(self, now: float) -> None:
        if self.lost is not None:
            return
        if self._admit_until is not None and now >= self._admit_until:
            self._end(CloseOrigin.HANDSHAKE_TIMEOUT)
        elif now >= self._idle_at:
            self._end(CloseOrigin.IDLE_TIMEOUT)

    def too_large(self, size: int, now: float) -> None:
        """Its size is the application's choice; its loss is like any other."""

    def probe(self) -> bool:
        return False

    def close(self, code: int, reason: str, origin: CloseOrigin = CloseOrigin.APPLICATION) -> None:
        self._lose(LinkLost(code, reason, by_peer=False, origin=origin))

    def abandon(self, reason: str) -> None:
        self._lose(LinkLost(0, reason, by_peer=False, origin=CloseOrigin.ABANDONED))

    def hold_back(self, on: bool) -> None:
        self._held_back = on

    def free(self) -> None:
        self._queue.clear()
        self._unsent = 0

    def routes(self) -> tuple[list[bytes], list[bytes]]:
        return [], []

    def _end(self, origin: CloseOrigin) -> None:
        self._lose(LinkLost(0, origin.value, by_peer=False, origin=origin))

    def _lose(self, lost: LinkLost) -> None:
        if self.lost is None:
            self.lost = lost
            self.free()
            self._inputs.append(lost)
