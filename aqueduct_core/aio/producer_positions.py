"""Where a producer's channels stand at its server; whoever asks takes them."""

from __future__ import annotations

import asyncio
import logging
import secrets

from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.halves import oneshot
from aqueduct_core.aio.outcomes import Cancelled, ConnectionLost, LostInTransit, Overflowed
from aqueduct_core.aqueduct.conventions.headers import (
    POSITIONS,
    TELLS,
    connection_headers,
    position_of,
)
from aqueduct_core.aqueduct.conventions.positions import BadPosition, ChannelPosition, from_payload
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import AqueductError, ProtocolViolation

log = logging.getLogger(__name__)

AT_ONCE = 64
"""Questions without an answer; an intake answers many more."""


class ProducerPositions:
    """The answers of the server, by the names of the channels; they hold for the whole run.

    An intake lets one run at a time write to a channel: the last that asked. So what it answered
    stays true until this run itself sends, over all its connections.
    """

    def __init__(self, producer: str) -> None:
        self.headers: Headers = connection_headers(run=secrets.token_hex(8))
        """For each connection of this run."""
        self._producer = producer
        self._known: dict[str, ChannelPosition | None] = {}
        self._warned = False
        self._turns = asyncio.Semaphore(AT_ONCE)

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
            told = await connection.accepted()
        except AqueductError as error:
            raise ConnectionLost(f"the question for channel {name!r}", reason=error.what) from None
        if (TELLS, POSITIONS) not in told:
            if not self._warned:
                self._warned = True
                log.warning(
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
                    return from_payload(message.payload)
                raise BadPosition("it finished without an answer")
            except (BadPosition, Cancelled, LostInTransit, Overflowed) as error:
                raise ProtocolViolation(
                    "",
                    f"the server does not say where channel {name!r} stands: {error}",
                    "Give the number to begin with, and report it to those who run the server",
                ) from None
