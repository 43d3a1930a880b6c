"""The way of rows over one connection: a channel for each destination, all acked at the end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.halves import Sender, channel
from aqueduct_core.aio.outcomes import ConnectionLost, LostInTransit
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.errors import ConnectFailed, SinkFailed
from aqueduct_core.transport.tls import ClientTls
from aqueduct_spark.model.write_options import WriteOptions
from aqueduct_spark.write.counts import SentCounts
from aqueduct_spark.write.rows import Destination, Portion

GOODBYE_SECONDS = 2.0
"""For the cancellation of a failed attempt to reach the receiver."""

T = TypeVar("T")


class Delivery:
    """Sends portions; made by `open`, ended by `complete` or by `give_up`.

    Holds at most ``maxInFlightBytes`` of payload that is sent and not acked. Every wait is
    bounded by ``ackTimeout``.
    """

    def __init__(self, connection: ClientConnection, options: WriteOptions) -> None:
        self._connection = connection
        self._options = options
        self._senders: dict[Destination, Sender] = {}
        self._in_flight: deque[tuple[asyncio.Task[None], int]] = deque()
        self._in_flight_bytes = 0
        self._bytes = 0

    @classmethod
    async def open(cls, options: WriteOptions, *, token: str | None, producer: str) -> Delivery:
        """Dial the first address of the endpoint that answers.

        Raises:
            ConnectFailed, TlsFailed, AuthFailed, VersionMismatch.
        """
        tls = ClientTls(
            ca_file=Path(options.tls.ca_file) if options.tls.ca_file else None,
            server_name=options.tls.server_name,
            insecure=options.tls.insecure,
        )
        failure: ConnectFailed | None = None
        for address in options.endpoint.addresses:
            try:
                connection = await connect(
                    f"aqueduct://{address}",
                    tls=tls,
                    token=token,
                    producer=producer,
                    config=Config(max_payload_bytes=options.max_message_bytes),
                    transport=options.transport,
                )
            except ConnectFailed as error:
                failure = error
            else:
                return cls(connection, options)
        assert failure is not None
        raise failure

    async def send(self, portion: Portion) -> None:
        """Send rows in their order. Returns when they are on their way.

        Raises:
            SinkFailed: ACK_TIMEOUT, RECEIVER_CLOSED or LOST_IN_TRANSIT.
        """
        size = portion.size
        while self._in_flight and self._in_flight_bytes + size > self._options.max_in_flight_bytes:
            await self._settle_oldest()
        sender = await self._sender(portion.destination)
        if portion.headers is None:
            await self._bounded(sender.send_many(portion.payloads))
        else:
            for payload, headers in zip(portion.payloads, portion.headers, strict=True):
                await self._bounded(sender.send(payload, headers=headers))
        self._bytes += size
        self._in_flight_bytes += size
        self._in_flight.append((asyncio.create_task(sender.flush()), size))

    async def complete(self, partition: int) -> SentCounts:
        """Wait until every message has its outcome, finish the channels, and close.

        Raises:
            SinkFailed: as `send`, and LOSS_ABOVE_LIMIT.
        """
        while self._in_flight:
            await self._settle_oldest()
        self._check_loss()
        if self._options.finish:
            for sender in self._senders.values():
                await self._bounded(sender.finish())
        statistics = [sender.statistics for sender in self._senders.values()]
        counts = SentCounts(
            partition=partition,
            channels=len(self._senders),
            sent=sum(s.sent for s in statistics),
            acked=sum(s.acked for s in statistics),
            nacked=sum(s.nacked for s in statistics),
            bytes=self._bytes,
        )
        await self._connection.close(self._options.ack_timeout)
        return counts

    async def give_up(self) -> None:
        """Cancel all channels, so that the receiver can drop what this attempt sent."""
        for task, _ in self._in_flight:
            task.cancel()
        for sender in self._senders.values():
            try:
                await sender.cancel()
            except Exception:
                continue  # it has ended already, or was finished: nothing to cancel
        await self._connection.close(GOODBYE_SECONDS)

    async def _sender(self, destination: Destination) -> Sender:
        sender = self._senders.get(destination)
        if sender is None:
            sender, receiver = channel(destination.reliability, name=destination.channel)
            await self._bounded(self._connection.entrypoint.send(b"", attach=receiver))
            self._senders[destination] = sender
        return sender

    async def _settle_oldest(self) -> None:
        task, size = self._in_flight[0]
        await self._bounded(asyncio.shield(task))
        self._in_flight.popleft()
        self._in_flight_bytes -= size

    async def _bounded(self, wait: Awaitable[T]) -> T:
        try:
            return await asyncio.wait_for(wait, self._options.ack_timeout)
        except TimeoutError:
            pending = sum(sender.statistics.pending for sender in self._senders.values())
            raise SinkFailed(
                "ACK_TIMEOUT",
                f"{pending} messages to {self._options.endpoint} were not acked within "
                f"{self._options.ack_timeout:g} s",
                "Check the receiver, or raise 'ackTimeout'",
            ) from None
        except (LostInTransit, ConnectionLost) as lost:
            raise SinkFailed("LOST_IN_TRANSIT", lost.what, lost.remedy) from None

    def _check_loss(self) -> None:
        sent = nacked = 0
        for destination, sender in self._senders.items():
            if destination.reliability == "unreliable":
                counts = sender.statistics
                sent, nacked = sent + counts.sent, nacked + counts.nacked
        if sent and nacked / sent > self._options.max_loss_ratio:
            raise SinkFailed(
                "LOSS_ABOVE_LIMIT",
                f"{nacked} of {sent} unreliable messages were lost; 'maxLossRatio' is "
                f"{self._options.max_loss_ratio:g}",
                "Send them as unordered, or raise 'maxLossRatio'",
            )
