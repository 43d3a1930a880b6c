"""A channel of a reconnecting producer: it outlives the connections that carry it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.deliveries import SenderStatistics
from aqueduct_core.aio.halves import Payload, Sender, as_payload, channel
from aqueduct_core.aio.headers import HeadersLike, as_headers
from aqueduct_core.aio.outcomes import ConnectionLost, LostInTransit, Misuse, ReceiverClosed
from aqueduct_core.aio.producer_positions import ProducerPositions
from aqueduct_core.aio.producer_receipts import ProducerReceipts
from aqueduct_core.aio.resend_buffer import ResendBuffer, size_of
from aqueduct_core.aio.signal import Signal
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.conventions.headers import (
    MAX_SEQUENCE,
    channel_headers,
)
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import InvalidOption, SinkFailed
from aqueduct_core.primitives.ranges import RangeSet

PORTION = 256 * 1024
"""Bytes that go to the connection at once."""


@dataclass(frozen=True, slots=True)
class ProducerStatistics(SenderStatistics):
    """Totals over all connections.

    ``unknown``: unreliable messages whose connection ended before their outcome came.
    ``resent``: reliable messages given to a connection once more. ``acked_ranges``: logical
    numbers of the reliable messages that are acked, for a ledger. ``committed``: of the reliable
    ones that this channel sent, as far as receipts were asked for. ``repeated``: of the acked
    ones, those that an earlier run had stored already; they are not stored once more.
    """

    unknown: int = 0
    resent: int = 0
    acked_ranges: tuple[tuple[int, int], ...] = ()
    committed: int = 0
    repeated: int = 0

    @property
    def pending(self) -> int:
        return self.sent - self.acked - self.nacked - self.unknown


class Keeper(Protocol):
    """What a channel asks of its producer."""

    changed: Signal
    connected: bool
    failure: Exception | None
    receipts: ProducerReceipts
    positions: ProducerPositions

    def room(self, size: int) -> bool:
        """Whether ``size`` more bytes may be kept."""

    def keep(self, size: int) -> None:
        """``size`` bytes are kept from now on (negative: are free again)."""

    def check(self) -> None:
        """Raises: the error for which the producer gave up; Misuse when it was closed."""


class ProducerChannel:
    """A named channel under the producer's identity.

    Reliable modes: a message is kept until it is acked, and sent again after a reconnect under
    the same number, so an intake that knows the producer stores it once. Unreliable mode: a
    message is sent at most once, without a number; without a connection it counts as nacked.
    Ends with ``finish``, or when the producer gives up.
    """

    def __init__(
        self,
        name: str,
        mode: Mode,
        headers: Headers,
        start: int | None,
        run_start: int | None,
        repeats: bool,
        limit: int,
        keeper: Keeper,
    ) -> None:
        channel_headers(name=name, sequence_start=start or 0, extra=headers)
        self.name = name
        self.mode = mode
        self._headers = headers
        self._keeper = keeper
        self._changed = keeper.changed
        self._limit = limit
        self._start = start
        self._run_start = run_start
        self._repeats = repeats
        self._placed = False  # the server was asked where the channel stands
        self._stood_at: int | None = None  # what it said
        self._known = RangeSet()  # stored by earlier runs
        self._unacked = ResendBuffer(start or 0)
        self._sender: Sender | None = None
        self._finishing = False
        self._finished = False
        self._resent = 0
        self._past = SenderStatistics(0, 0, 0, 0, 0)  # unreliable mode: earlier connections
        self._unknown = 0
        self._dropped = 0

    @property
    def reliable(self) -> bool:
        return self.mode is not Mode.UNRELIABLE

    @property
    def finished(self) -> bool:
        return self._finished

    @property
    def stored_below(self) -> int:
        """All reliable messages with lower numbers are acked (or were never to come)."""
        return self._unacked.low

    @property
    def statistics(self) -> ProducerStatistics:
        if self.reliable:
            acked = self._unacked.acked
            return ProducerStatistics(
                self._unacked.sent,
                acked.count,
                0,
                self._unacked.sent,
                acked.count,
                0,
                self._resent,
                tuple(acked),
                self._committed_count(),
                sum(
                    high - low
                    for first, stop in self._known
                    for low, high in acked.within(first, stop)
                ),
            )
        past, now = self._past, self._sender.statistics if self._sender else _NOTHING
        return ProducerStatistics(
            past.sent + now.sent + self._dropped,
            past.acked + now.acked,
            past.nacked + now.nacked + self._dropped,
            past.reliable_sent + now.reliable_sent,
            past.reliable_acked + now.reliable_acked,
            self._unknown,
        )

    async def send(self, payload: Payload, *, headers: HeadersLike = ()) -> int:
        """Send one message; its logical number (reliable modes), else its number on this
        connection, or -1 when there is none. Waits while too much is kept un-acked, and for the
        server to tell where a channel stands that was made without ``start``.

        Raises: Misuse after ``finish`` and for a payload over the limit; the error for which the
        producer gave up.
        """
        data = as_payload(payload)
        pairs = as_headers(headers)
        self._refuse(len(data))
        if not self.reliable:
            return await self._send_unreliable(data, pairs)
        size = size_of(data, pairs)
        await self._changed.until(
            lambda: (self._numbered and self._keeper.room(size)) or self._broken()
        )
        self._refuse(len(data))
        kept = self._unacked.add(data, pairs)
        self._keeper.keep(kept.size)
        self._changed.fire()
        return kept.number

    async def send_many(self, payloads: Iterable[bytes]) -> int:
        """Send many messages without headers; how many. Waits and raises as ``send``."""
        sent = 0
        for payload in payloads:
            self._refuse(len(payload))
            if self._numbered and self._keeper.room(size_of(payload, ())):
                self._keeper.keep(self._unacked.add(payload, ()).size)
            else:
                await self.send(payload)
            sent += 1
        self._changed.fire()
        return sent

    def skip_to(self, number: int) -> None:
        """Declare a hole: the next message gets this number, and those in between will never
        come. What was sent before goes on its way unchanged.

        The channel ends and begins anew behind the hole, by which an intake knows of it. Raises:
        Misuse for a number that was given already, on an unreliable channel, after ``finish``, and
        before the first message of a channel that was made without ``start``.
        """
        self._refuse(0)
        if not self.reliable:
            raise Misuse(f"channel {self.name!r} is unreliable: it keeps no logical numbers")
        if not self._numbered:
            raise Misuse(f"it is not known yet where channel {self.name!r} stands: give its start")
        if not self._unacked.next <= number < MAX_SEQUENCE:
            raise Misuse(
                f"channel {self.name!r} cannot go on at {number}: "
                f"the next message has number {self._unacked.next}"
            )
        if number > self._unacked.next:
            self._unacked.skip(number)
            self._changed.fire()

    async def flush(self) -> None:
        """Wait until everything sent so far is acked (unreliable: acked, nacked or unknown),
        across reconnects. Raises: the error for which the producer gave up."""
        await self.stored()

    async def stored(self, number: int | None = None, *, timeout: float | None = None) -> None:
        """Wait until message ``number`` and all before it are acked, which an intake does when
        they are durable; None: as ``flush``.

        Raises:
            SinkFailed: ACK_TIMEOUT after ``timeout`` seconds (None: never).
            Misuse: ``number`` was not sent, or is of an unreliable channel.
            Exception: the error for which the producer gave up.
        """
        mark = self._mark(number)
        try:
            async with asyncio.timeout(timeout):
                if self.reliable:
                    await self._changed.until(lambda: self._unacked.low >= mark or self._broken())
                elif self._sender is not None:
                    try:
                        await self._sender.flush()
                    except (ConnectionLost, LostInTransit):
                        pass  # what has no outcome is unknown, and is counted so
        except TimeoutError:
            left = self.statistics.pending
            raise self._late(f"{left} messages have no ack", timeout, "Check the server") from None
        if not (self.reliable and self._unacked.low >= mark):
            self._keeper.check()

    async def committed(self, number: int | None = None, *, timeout: float | None = None) -> None:
        """Wait until message ``number`` and all before it that this channel sent are committed:
        every query that reads the intake has them in a finished batch. None: everything sent so
        far. The server is asked for receipts by the first call.

        Raises:
            SinkFailed: NO_RECEIPTS when the server gives none; ACK_TIMEOUT after ``timeout``
                seconds (None: never).
            Misuse: ``number`` was not sent; the channel is unreliable.
            Exception: the error for which the producer gave up.
        """
        if not self.reliable:
            raise Misuse(f"channel {self.name!r} is unreliable: what it sent has no receipts")
        mark, receipts = self._mark(number), self._keeper.receipts
        receipts.want()

        def settled() -> bool:
            return self._is_committed(mark) or receipts.refused is not None or self._broken()

        try:
            async with asyncio.timeout(timeout):
                await self._changed.until(settled)
        except TimeoutError:
            left = self._unacked.sent - self._committed_count()
            raise self._late(
                f"{left} messages are not committed", timeout, receipts.remedy()
            ) from None
        if not self._is_committed(mark):
            self._keeper.check()
            receipts.check()

    async def finish(self) -> None:
        """No more messages; returns when the receiver has closed and all are acked, across
        reconnects. Raises: the error for which the producer gave up."""
        self._finishing = True
        self._changed.fire()
        await self._changed.until(lambda: self._finished or self._broken())
        if not self._finished:
            self._keeper.check()

    # for the producer

    async def carry(self, connection: ClientConnection) -> None:
        """Send on this connection until the channel is finished.

        Raises: ConnectionLost; ReceiverClosed and LostInTransit, after which the channel can be
        carried anew.
        """
        if self.reliable and not self._placed:
            await self._place(connection)
        while not self._finished:
            start = await self._attach(connection)
            sender = self._sender
            assert sender is not None
            try:
                await self._feed(sender, start)
            finally:
                self._detach(sender)
                self._changed.fire()

    async def _feed(self, sender: Sender, at: int) -> None:
        """Send from number ``at`` on, up to a hole or to the end of the channel."""
        while True:
            if self.reliable and self._unacked.upcoming != at:
                await sender.finish()
                return
            portion = self._unacked.take(PORTION)
            at += len(portion)
            if portion and portion[0].headers:
                for kept in portion:
                    await sender.send(kept.payload, headers=kept.headers)
            elif portion:
                await sender.send_many([kept.payload for kept in portion])
            elif self._finishing:
                await sender.finish()
                self._finished = True
                return
            elif (outcome := sender.outcome) is not None:
                raise outcome
            else:
                await self._changed.wait()

    async def _place(self, connection: ClientConnection) -> None:
        """Ask where the channel stands; without a start of its own it goes on from there.

        Raises: InvalidOption for a start below that, unless what was sent then is to be repeated.
        """
        position = await self._keeper.positions.ask(connection, self.name)
        if position is not None:
            self._known = RangeSet(position.stored)
            self._stood_at = position.next
            if self._start is None:
                self._start = self._run_start = position.next
                self._unacked = ResendBuffer(position.next)
            elif self._start < position.next and not self._repeats:
                raise InvalidOption(
                    "BAD_VALUE",
                    f"channel {self.name!r} begins at {self._start}, but stands at "
                    f"{position.next}: numbers from {self._start} on were given out before",
                    "Leave its start out, or give repeats=True if what was sent then is sent again",
                )
        self._placed = True
        self._changed.fire()

    async def _attach(self, connection: ClientConnection) -> int:
        """Attach the channel anew; the logical number of its first message."""
        self._resent += self._unacked.rewind()
        start = self._unacked.upcoming
        headers = channel_headers(
            sequence_start=start if self.reliable else None,
            run_start=self._run_start,
            stood_at=self._stood_at,
            extra=self._headers,
        )
        sender, receiver = channel(self.mode, name=self.name, headers=headers)

        def settled(reliable: bool, first: int, stop: int, acked: bool) -> None:
            if acked and self.reliable:
                self._keeper.keep(-self._unacked.ack(start + first, start + stop))
            self._changed.fire()

        sender.observe(settled, self._changed.fire)
        await connection.entrypoint.send(b"", attach=receiver)
        self._sender = sender
        self._changed.fire()
        return start

    def _detach(self, sender: Sender) -> None:
        self._sender = None
        if self.reliable:
            return
        past, now = self._past, sender.statistics
        self._unknown += now.pending
        self._past = SenderStatistics(
            past.sent + now.sent,
            past.acked + now.acked,
            past.nacked + now.nacked,
            past.reliable_sent + now.reliable_sent,
            past.reliable_acked + now.reliable_acked,
        )

    async def _send_unreliable(self, payload: bytes, headers: Headers) -> int:
        # A connection that is up gets the channel in a moment.
        await self._changed.until(
            lambda: self._sender is not None or not self._keeper.connected or self._broken()
        )
        if self._sender is not None:
            try:
                return await self._sender.send(payload, headers=headers)
            except (ConnectionLost, LostInTransit, ReceiverClosed):
                pass
        self._dropped += 1
        return -1

    def _mark(self, number: int | None) -> int:
        """One above ``number``; None: above all that was sent."""
        if number is None:
            return self._unacked.next
        if not self.reliable:
            raise Misuse(f"channel {self.name!r} is unreliable: it keeps no logical numbers")
        if not self._unacked.start <= number < self._unacked.next:
            raise Misuse(f"channel {self.name!r} has sent no message {number}")
        return number + 1

    def _is_committed(self, mark: int) -> bool:
        committed = self._keeper.receipts.committed(self.name)
        sent = self._unacked.skipped.missing(self._unacked.start, mark)
        return all(committed.covers(first, stop) for first, stop in sent)

    def _committed_count(self) -> int:
        committed = self._keeper.receipts.committed(self.name)
        told = committed.within(self._unacked.start, self._unacked.next)
        return sum(stop - first for first, stop in told)

    def _late(self, what: str, timeout: float | None, remedy: str) -> SinkFailed:
        return SinkFailed(
            "ACK_TIMEOUT", f"{what} on channel {self.name!r} after {timeout or 0:g} s", remedy
        )

    @property
    def _numbered(self) -> bool:
        """Whether messages can have their logical numbers."""
        return self.reliable and (self._placed or self._start is not None)

    def _broken(self) -> bool:
        return self._keeper.failure is not None

    def _refuse(self, size: int) -> None:
        self._keeper.check()
        if size > self._limit:
            raise Misuse(f"a payload of {size} bytes is over the limit of {self._limit} bytes")
        if self._finishing:
            raise Misuse(f"channel {self.name!r} was finished: nothing more can be sent")


_NOTHING = SenderStatistics(0, 0, 0, 0, 0)
