"""A channel of a reconnecting producer, as an application holds it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from aqueduct_core.aio.deliveries import DeliveryReport, SenderStatistics
from aqueduct_core.aio.halves import Payload, as_payload, delivery_of_latest
from aqueduct_core.aio.message import HeadersLike, as_headers
from aqueduct_core.aio.outcomes import ConnectionLost, LostInTransit, Misuse
from aqueduct_core.aio.producer_carrier import ChannelCarrier
from aqueduct_core.aio.producer_state import ProducerState
from aqueduct_core.aio.resend_buffer import ResendBuffer, size_of
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.conventions.headers import MAX_SEQUENCE
from aqueduct_core.errors import SinkFailed
from aqueduct_core.escape import escaped


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
    acked_ranges: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    committed: int = 0
    repeated: int = 0

    @property
    def pending(self) -> int:
        return self.sent - self.acked - self.nacked - self.unknown


class ProducerChannel:
    """A named channel under the producer's identity; it outlives the connections that carry it.

    Reliable modes: a message is buffered until it is acked, and sent again after a reconnect under
    the same number, so an intake that knows the producer stores it once. Unreliable mode: a
    message is sent at most once, without a number; without a connection it counts as nacked.
    Ends with ``finish``, or when the producer gives up. As a context manager it finishes at the
    end, if the block has not raised.
    """

    def __init__(self, carrier: ChannelCarrier, producer: ProducerState, limit: int) -> None:
        self.name = carrier.spec.name
        self._carrier = carrier
        self._producer = producer
        self._limit = limit
        self._dropped = 0

    @property
    def mode(self) -> Mode:
        return self._carrier.spec.mode

    @property
    def reliable(self) -> bool:
        """Whether its messages have logical numbers, and are sent until they are acked."""
        return self._carrier.reliable

    @property
    def finished(self) -> bool:
        """Whether the receiver has closed after ``finish``, and all is acked."""
        return self._carrier.finished

    @property
    def stored_below(self) -> int:
        """All reliable messages with lower numbers are acked (or were never to come)."""
        return self._buffer.low

    @property
    def statistics(self) -> ProducerStatistics:
        """Totals over all connections so far."""
        carrier, counts = self._carrier, self._carrier.statistics()
        if not self.reliable:
            return ProducerStatistics(
                counts.sent + self._dropped,
                counts.acked,
                counts.nacked + self._dropped,
                counts.reliable_sent,
                counts.reliable_acked,
                carrier.unknown,
            )
        acked = self._buffer.acked
        return ProducerStatistics(
            counts.sent,
            counts.acked,
            0,
            counts.reliable_sent,
            counts.reliable_acked,
            0,
            carrier.resent,
            tuple(acked),
            self._committed_count(),
            sum(
                high - low
                for first, stop in carrier.stored_before
                for low, high in acked.within(first, stop)
            ),
        )

    async def send(self, payload: Payload, *, headers: HeadersLike = ()) -> int:
        """Send one message; its logical number (reliable modes), else its number on this
        connection, or -1 when there is none. Waits while the resend buffer is full, and for the
        server to say where a channel stands that was made without ``start``. A call that is
        cancelled has sent nothing.

        Raises: Misuse after ``finish`` and for a payload over the limit; the error for which the
        producer gave up.
        """
        data, pairs = as_payload(payload), as_headers(headers)
        producer = self._producer
        self._refuse(len(data))
        if not self.reliable:
            sent = await self._carrier.send_unreliable(data, pairs)
            if sent is None:
                self._dropped += 1
            return -1 if sent is None else sent[1]
        size = size_of(data, pairs)
        await producer.changed.until(
            lambda: (self._carrier.numbered and producer.room(size)) or producer.failed
        )
        self._refuse(len(data))
        entry = self._buffer.add(data, pairs)
        producer.buffered += entry.size
        producer.changed.fire()
        return entry.number

    async def send_and_wait(self, payload: Payload, *, headers: HeadersLike = ()) -> DeliveryReport:
        """Send one message, and return when it is acked, across reconnects: at an intake it is
        stored then. Of an unreliable channel it may be nacked; where its connection ends before
        that is known, what became of it stays unknown.

        A call that is cancelled behind the sending has sent the message, which goes on its way; a
        note on the ``CancelledError`` says so.

        Raises: as ``send``; the error for which the producer gave up before the ack came;
        ConnectionLost: what became of an unreliable message is unknown.
        """
        if not self.reliable:
            self._refuse(len(payload))
            sent = await self._carrier.send_unreliable(as_payload(payload), as_headers(headers))
            if sent is None:
                self._dropped += 1
                return DeliveryReport(-1, False, "there is no connection to send it on")
            return await delivery_of_latest(*sent)
        number = await self.send(payload, headers=headers)
        producer, acked = self._producer, self._buffer.acked
        try:
            await producer.changed.until(
                lambda: acked.covers(number, number + 1) or producer.failed
            )
        except asyncio.CancelledError as error:
            error.add_note(f"message {number} of channel {self.name!r} will go on its way")
            raise
        if not acked.covers(number, number + 1):
            producer.check()
        return DeliveryReport(number, True)

    async def send_many(self, payloads: Iterable[bytes]) -> int:
        """Send many messages without headers; how many. Waits and raises as ``send``; when it
        raises or is cancelled, a first part has been sent: ``statistics`` tell, and a note on the
        ``CancelledError``."""
        sent, producer, carrier = 0, self._producer, self._carrier
        for payload in payloads:
            self._refuse(len(payload))
            if carrier.numbered and producer.room(size_of(payload, ())):
                producer.buffered += carrier.buffer.add(payload, ()).size
            else:
                producer.changed.fire()  # what was added goes out, and makes room
                try:
                    await self.send(payload)
                except asyncio.CancelledError as error:
                    error.add_note(f"{sent} messages were sent")
                    raise
            sent += 1
        producer.changed.fire()
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
        if not self._carrier.numbered:
            raise Misuse(f"it is not known yet where channel {self.name!r} stands: give its start")
        if not self._buffer.next <= number < MAX_SEQUENCE:
            raise Misuse(
                f"channel {self.name!r} cannot go on at {number}: "
                f"the next message has number {self._buffer.next}"
            )
        if number > self._buffer.next:
            self._buffer.skip(number)
            self._producer.changed.fire()

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
        mark, producer = self._mark(number), self._producer
        try:
            async with asyncio.timeout(timeout):
                if self.reliable:
                    await producer.changed.until(
                        lambda: self._buffer.low >= mark or producer.failed
                    )
                elif self._carrier.sender is not None:
                    try:
                        await self._carrier.sender.flush()
                    except (ConnectionLost, LostInTransit):
                        pass  # what has no outcome is unknown, and is counted so
        except TimeoutError:
            left = self.statistics.pending
            raise self._late(f"{left} messages have no ack", timeout, "Check the server") from None
        if not (self.reliable and self._buffer.low >= mark):
            producer.check()

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
        mark, producer, receipts = self._mark(number), self._producer, self._producer.receipts
        receipts.want()
        try:
            async with asyncio.timeout(timeout):
                await producer.changed.until(
                    lambda: (
                        self._is_committed(mark) or receipts.refused is not None or producer.failed
                    )
                )
        except TimeoutError:
            left = self._buffer.sent - self._committed_count()
            raise self._late(
                f"{left} messages are not committed", timeout, receipts.remedy()
            ) from None
        if not self._is_committed(mark):
            producer.check()
            receipts.check()

    async def finish(self) -> None:
        """No more messages; returns when the receiver has closed and all are acked, across
        reconnects. Raises: the error for which the producer gave up."""
        producer = self._producer
        producer.check_loop()
        self._carrier.finishing = True
        producer.changed.fire()
        await producer.changed.until(lambda: self.finished or producer.failed)
        if not self.finished:
            producer.check()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish; nothing where the block raised: what was sent goes on its way, and the channel
        can be gone on with."""
        if error is None:
            await self.finish()

    def __repr__(self) -> str:
        counts = self.statistics
        state = ", finished" if self.finished else ""
        return (
            f"<ProducerChannel '{escaped(self.name)}', {self.mode.value}, {counts.sent} sent, "
            f"{counts.acked} acked{state}>"
        )

    @property
    def _buffer(self) -> ResendBuffer:
        return self._carrier.buffer

    def _mark(self, number: int | None) -> int:
        """One above ``number``; None: above all that was sent."""
        self._producer.check_loop()
        if number is None:
            return self._buffer.next
        if not self.reliable:
            raise Misuse(f"channel {self.name!r} is unreliable: it keeps no logical numbers")
        if not self._buffer.start <= number < self._buffer.next:
            raise Misuse(f"channel {self.name!r} has sent no message {number}")
        return number + 1

    def _is_committed(self, mark: int) -> bool:
        committed = self._producer.receipts.committed(self.name)
        sent = self._buffer.skipped.missing(self._buffer.start, mark)
        return all(committed.covers(first, stop) for first, stop in sent)

    def _committed_count(self) -> int:
        committed = self._producer.receipts.committed(self.name)
        ours = committed.within(self._buffer.start, self._buffer.next)
        return sum(stop - first for first, stop in ours)

    def _late(self, what: str, timeout: float | None, remedy: str) -> SinkFailed:
        return SinkFailed(
            "ACK_TIMEOUT", f"{what} on channel {self.name!r} after {timeout or 0:g} s", remedy
        )

    def _refuse(self, size: int) -> None:
        self._producer.check_loop()
        self._producer.check()
        if size > self._limit:
            raise Misuse(f"a payload of {size} bytes is over the limit of {self._limit} bytes")
        if self._carrier.finishing:
            raise Misuse(f"channel {self.name!r} was finished: nothing more can be sent")
