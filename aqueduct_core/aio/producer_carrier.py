"""How a channel of a producer goes from one connection to the next with what is not acked."""

from __future__ import annotations

from dataclasses import dataclass

from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.deliveries import SenderStatistics
from aqueduct_core.aio.halves import Sender, channel
from aqueduct_core.aio.outcomes import ConnectionLost, LostInTransit, Misuse, ReceiverClosed
from aqueduct_core.aio.producer_state import ProducerState
from aqueduct_core.aio.resend_buffer import ResendBuffer
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.conventions.headers import channel_headers
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.ranges import RangeSet

BULK_BYTES = 256 * 1024
"""Bytes that go to the connection at once."""

_NOTHING = SenderStatistics(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """What a channel of a producer is to be; see ``Producer.channel``.

    Raises: Misuse for an unreliable channel with a start, and for a run that begins above it;
    BadHeader for a name that is empty or too long.
    """

    name: str
    mode: Mode
    headers: Headers
    start: int | None
    run_start: int | None
    repeats: bool

    def __post_init__(self) -> None:
        if not self.reliable and (self.start is not None or self.run_start is not None):
            raise Misuse(f"channel {self.name!r} is unreliable: it keeps no logical numbers")
        if self.run_start is not None and (self.start is None or self.run_start > self.start):
            raise Misuse(f"the run of channel {self.name!r} begins above its start")
        channel_headers(name=self.name, sequence_start=self.start or 0, extra=self.headers)

    @property
    def reliable(self) -> bool:
        return self.mode is not Mode.UNRELIABLE


class ChannelCarrier:
    """One channel of a producer on its connections.

    Reliable modes: on each connection it begins at the first message of ``buffer``. Unreliable
    mode: nothing is buffered, and what has no outcome when a connection ends counts as ``unknown``.
    Ends when it was finished (``finishing``) and all is acked: it is ``finished`` then.
    """

    def __init__(self, spec: ChannelSpec, producer: ProducerState) -> None:
        self.spec = spec
        self.reliable = spec.reliable
        self.buffer = ResendBuffer(spec.start or 0)
        self.sender: Sender | None = None
        self.finishing = False
        self.finished = False
        self.resent = 0
        self.unknown = 0
        self.stored_before = RangeSet()
        """Logical numbers that earlier runs have stored."""
        self._producer = producer
        self._start = spec.start
        self._run_start = spec.run_start
        self._placed = False  # the server was asked where the channel stands
        self._stood_at: int | None = None  # what it said
        self._past = _NOTHING  # unreliable mode: earlier connections

    @property
    def numbered(self) -> bool:
        """Whether messages can have their logical numbers."""
        return self.reliable and (self._placed or self._start is not None)

    def statistics(self) -> SenderStatistics:
        """Totals of what went to a connection, over all of them."""
        if self.reliable:
            sent, acked = self.buffer.sent, self.buffer.acked.count
            return SenderStatistics(sent, acked, 0, sent, acked)
        return _sum(self._past, self.sender.statistics if self.sender else _NOTHING)

    async def carry(self, connection: ClientConnection) -> None:
        """Send on this connection until the channel is finished.

        Raises: ConnectionLost; ReceiverClosed and LostInTransit, after which the channel can be
        carried anew.
        """
        if self.reliable and not self._placed:
            await self._place(connection)
        while not self.finished:
            start, sender = await self._attach(connection)
            try:
                await self._feed(sender, start)
            finally:
                self._detach(sender)
                self._producer.changed.fire()

    async def send_unreliable(self, payload: bytes, headers: Headers) -> tuple[Sender, int] | None:
        """Send on the present connection: who sent it, and the number there; None where there is
        no connection."""
        producer = self._producer
        # A connection that is up gets the channel in a moment.
        await producer.changed.until(
            lambda: self.sender is not None or not producer.connected or producer.failed
        )
        sender = self.sender
        if sender is not None:
            try:
                return sender, await sender.send(payload, headers=headers)
            except (ConnectionLost, LostInTransit, ReceiverClosed):
                pass
        return None

    async def _feed(self, sender: Sender, at: int) -> None:
        """Send from number ``at`` on, up to a hole or to the end of the channel."""
        while True:
            if self.reliable and self.buffer.upcoming != at:
                await sender.finish()
                return
            entries = self.buffer.take(BULK_BYTES)
            at += len(entries)
            if entries and entries[0].headers:
                for entry in entries:
                    await sender.send(entry.payload, headers=entry.headers)
            elif entries:
                await sender.send_many([entry.payload for entry in entries])
            elif self.finishing:
                await sender.finish()
                self.finished = True
                return
            elif (outcome := sender.outcome) is not None:
                raise outcome
            else:
                await self._producer.changed.wait()

    async def _place(self, connection: ClientConnection) -> None:
        """Ask where the channel stands; without a start of its own it goes on from there.

        Raises: InvalidOption for a start below that, unless what was sent then is to be repeated.
        """
        spec = self.spec
        position = await self._producer.positions.ask(connection, spec.name)
        if position is not None:
            self.stored_before = RangeSet(position.stored)
            self._stood_at = position.next
            if self._start is None:
                self._start = self._run_start = position.next
                self.buffer = ResendBuffer(position.next)
            elif self._start < position.next and not spec.repeats:
                raise InvalidOption(
                    "BAD_VALUE",
                    f"channel {spec.name!r} begins at {self._start}, but stands at "
                    f"{position.next}: numbers from {self._start} on were given out before",
                    "Leave its start out, or give repeats=True if what was sent then is sent again",
                )
        self._placed = True
        self._producer.changed.fire()

    async def _attach(self, connection: ClientConnection) -> tuple[int, Sender]:
        """Attach the channel anew; the logical number of its first message."""
        spec, producer = self.spec, self._producer
        self.resent += self.buffer.rewind()
        start = self.buffer.upcoming
        headers = channel_headers(
            sequence_start=start if self.reliable else None,
            run_start=self._run_start,
            stood_at=self._stood_at,
            extra=spec.headers,
        )
        sender, receiver = channel(spec.mode, name=spec.name, headers=headers)

        def settled(reliable: bool, first: int, stop: int, acked: bool) -> None:
            if acked and self.reliable:
                producer.buffered -= self.buffer.ack(start + first, start + stop)
            producer.changed.fire()

        sender.observe(settled, producer.changed.fire)
        await connection.entrypoint.send(b"", attach=receiver)
        self.sender = sender
        producer.changed.fire()
        return start, sender

    def _detach(self, sender: Sender) -> None:
        self.sender = None
        if not self.reliable:
            self.unknown += sender.statistics.pending
            self._past = _sum(self._past, sender.statistics)


def _sum(one: SenderStatistics, other: SenderStatistics) -> SenderStatistics:
    return SenderStatistics(
        one.sent + other.sent,
        one.acked + other.acked,
        one.nacked + other.nacked,
        one.reliable_sent + other.reliable_sent,
        one.reliable_acked + other.reliable_acked,
    )
