"""What the channels of one producer share over all its connections: what its server says of them,
the room of its resend buffers, and whether it has given up."""

from __future__ import annotations

import asyncio
import copy
import logging
import secrets

from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.halves import Receiver, channel, oneshot
from aqueduct_core.aio.outcomes import Cancelled, ConnectionLost, LostInTransit, Misuse, Overflowed
from aqueduct_core.aqueduct.conventions.headers import (
    POSITIONS,
    TELLS,
    connection_headers,
    position_of,
)
from aqueduct_core.aqueduct.conventions.positions import BadPosition, ChannelPosition
from aqueduct_core.aqueduct.conventions.positions import from_payload as position_in
from aqueduct_core.aqueduct.conventions.receipts import BadReceipt, receipts_header
from aqueduct_core.aqueduct.conventions.receipts import from_payload as receipt_entries
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import AqueductError, ProtocolViolation, SinkFailed
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.transport.awaiting import Signal

_logger = logging.getLogger(__name__)

MAX_RANGES = 1_000_000
"""Ranges kept over all channels: a bound on what a server can make us hold."""

QUESTIONS = 64
"""Questions without an answer; an intake answers many more."""


class ProducerState:
    """A producer as its channels see it. ``changed`` fires whenever something of it, or of a
    channel, has changed.

    Holds: ``buffered`` is the bytes in the resend buffers of all channels; they look for room
    before they add to it.
    """

    def __init__(self, producer: str, buffer_limit: int) -> None:
        self.changed = Signal()
        self.loop: asyncio.AbstractEventLoop | None = None
        """Of the producer, once it was opened."""
        self.connected = False
        self.failure: Exception | None = None
        self.receipts = ProducerReceipts(self.changed)
        self.positions = ProducerPositions(producer)
        self.buffered = 0
        self._buffer_limit = buffer_limit

    def room(self, size: int) -> bool:
        """Whether ``size`` more bytes may be buffered."""
        return self.buffered == 0 or self.buffered + size <= self._buffer_limit

    @property
    def failed(self) -> bool:
        return self.failure is not None

    def check(self) -> None:
        """Raises: the error for which the producer gave up; Misuse when it was closed."""
        if self.failure is not None:
            raise copy.copy(self.failure)

    def check_loop(self) -> None:
        """Raises: Misuse in another event loop than that in which the producer was opened."""
        if self.loop is not None and asyncio.get_running_loop() is not self.loop:
            raise Misuse("this producer belongs to another event loop: use it there")

    def fail(self, error: Exception) -> None:
        """The producer gives up; a second reason changes nothing."""
        self.failure = self.failure or error
        self.changed.fire()


class ProducerReceipts:
    """The committed messages of each channel of a producer, over all its connections.

    Asks for receipts once somebody wants them, and again on each new connection, where the
    server begins anew with all that it knows. ``refused`` says why the present connection gives
    none.
    """

    def __init__(self, changed: Signal) -> None:
        self.wanted = False
        self.refused: str | None = None
        self._changed = changed
        self._heard = False
        self._size = 0
        self._committed: dict[str, RangeSet] = {}

    def want(self) -> None:
        if not self.wanted:
            self.wanted = True
            self._changed.fire()

    def committed(self, name: str) -> RangeSet:
        """Logical numbers of this channel. Live: read it, do not change it."""
        return self._committed.get(name) or RangeSet()

    def check(self) -> None:
        """Raises: SinkFailed.NO_RECEIPTS when there are none to wait for."""
        if self.refused is not None:
            raise SinkFailed(
                "NO_RECEIPTS",
                f"the server gives no receipts of what is committed: {self.refused}",
                "Wait for stored messages instead, or send to an intake",
            )

    def remedy(self) -> str:
        """What to do when receipts do not come in time."""
        if self._heard:
            return "Check that the queries of the intake run, and that each cursor has one"
        return "The server has not answered the request for receipts: it may be no intake"

    async def hear(self, connection: ClientConnection) -> None:
        """Take in receipts until the connection ends or the server gives no more."""
        self.refused, self._heard = None, False
        try:
            sender, receiver = channel(headers=(receipts_header(),))
            async with receiver:
                await connection.entrypoint.send(b"", attach=sender)
                await self._take(receiver)
                self.refused = "it finished the receipts channel"
        except ConnectionLost:
            self.refused = None
        except (Cancelled, LostInTransit, Overflowed) as error:
            self.refused = error.what
        except BadReceipt as error:
            self.refused = str(error)
        self._changed.fire()

    async def _take(self, receiver: Receiver) -> None:
        async for message in receiver:
            self._heard = True
            for entry in receipt_entries(message.payload):
                if not entry.reliable or entry.id is not None:
                    continue  # not numbers of ours
                known = self._committed.setdefault(entry.channel, RangeSet())
                before = len(known)
                for first, stop in entry.ranges:
                    known.add(first, stop)
                self._size += len(known) - before
            if self._size + len(self._committed) > MAX_RANGES:
                raise BadReceipt("they are in too many pieces")
            self._changed.fire()


class ProducerPositions:
    """Where the channels of a producer stand at its server; whoever asks takes them.

    Holds the answers, by the names of the channels, for the whole run.

    An intake lets one run at a time write to a channel: the last that asked. So what it answered
    stays true until this run itself sends, over all its connections.
    """

    def __init__(self, producer: str) -> None:
        self.headers: Headers = connection_headers(run=secrets.token_hex(8))
        """For each connection of this run."""
        self._producer = producer
        self._known: dict[str, ChannelPosition | None] = {}
        self._warned = False
        self._turns = asyncio.Semaphore(QUESTIONS)

    async def ask(self, connection: ClientConnection, name: str) -> ChannelPosition | None:
        """Where the channel of this name stands; None: the server does not tell.

        Raises:
            ConnectionLost: there was no answer yet; ask on the next connection.
            ProtocolViolation: the server says that it tells, and did not, or not in due form.
        """
        if name not in self._known:
            async with self._turns:
                self._known[name] = await self._ask(connection, name)
        return self._known[name]

    async def _ask(self, connection: ClientConnection, name: str) -> ChannelPosition | None:
        try:
            headers = await connection.accepted()
        except AqueductError as error:
            raise ConnectionLost(f"the question for channel {name!r}", reason=error.what) from None
        if (TELLS, POSITIONS) not in headers:
            if not self._warned:
                self._warned = True
                _logger.warning(
                    "the server does not tell where the channels of producer %r stand: numbers "
                    "begin at 0, and what it takes for repeats it may drop",
                    self._producer,
                )
            return None
        sender, receiver = oneshot(headers=(position_of(name),))
        async with receiver:
            await connection.entrypoint.send(b"", attach=sender)
            try:
                async for message in receiver:
                    return position_in(message.payload)
                raise BadPosition("it finished without an answer")
            except (BadPosition, Cancelled, LostInTransit, Overflowed) as error:
                raise ProtocolViolation(
                    "",
                    f"the server does not say where channel {name!r} stands: {error}",
                    "Give the number to begin with, and report it to those who run the server",
                ) from None
