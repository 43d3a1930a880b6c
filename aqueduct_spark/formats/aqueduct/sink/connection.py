"""A connection to an endpoint with the channels that are open on it."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import replace
from typing import NamedTuple

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.halves import Sender
from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aqueduct.config import ALPN, DEFAULT_CONFIG
from aqueduct_core.aqueduct.conventions.dedupe.questions import question_header
from aqueduct_core.aqueduct.conventions.headers import BY_SEQUENCE, BY_SOURCE, DEDUPLICATES
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_spark.options.access import DialTls
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.batches import Destination
from aqueduct_spark.write.worker import sessions_in

SILENT_SECONDS = 3.0
"""A receiver that says nothing for so long is dead, or its host or network is. One that is there
answers pings, a third of that apart, whatever becomes of its acks; and where it was only slow,
nothing is lost but a handshake."""

MAX_HEADERS_BYTES = 17 << 20
"""More than any intake takes (``limits.headerBytes``): what a receiver takes is for it to say."""


class ConnectionKey(NamedTuple):
    """What two uses of a connection must have in common."""

    address: HostPort
    writer: str
    tls: DialTls
    token: bytes
    transport: str
    max_message_bytes: int
    max_datagram_bytes: int

    @classmethod
    def of(
        cls, address: HostPort, options: WriteOptions, *, token: str | None, writer: str
    ) -> ConnectionKey:
        """Holds a digest of the token: another one means another connection."""
        return cls(
            address,
            writer,
            options.tls,
            hashlib.sha256((token or "").encode()).digest(),
            options.transport,
            options.max_message_bytes,
            options.max_datagram_bytes,
        )


class ChannelSlot(NamedTuple):
    """Whose channel it is: connections serve one partition of a writer after another."""

    partition: int
    destination: Destination


class AqueductConnection:
    """A connection, and the channels on it that no attempt has ended: the longest unused first.

    Belongs to one task attempt at a time, or to the pool.
    """

    def __init__(self, address: HostPort, connection: ClientConnection) -> None:
        self.address = address
        self.connection = connection
        self.channels: OrderedDict[ChannelSlot, Sender] = OrderedDict()
        self.reused = False

    @property
    def alive(self) -> bool:
        return self.connection.closed is None

    def lost(self) -> ConnectionLost:
        """How the connection ended."""
        closed = self.connection.closed
        where = f"the sink to aqueduct://{self.address}"
        if closed is None:
            return ConnectionLost(where)
        return ConnectionLost(where, *closed)

    def needs_keys(self, idempotence: str) -> bool:
        """Whether each message has to say who it is: the receiver did not say that it knows."""
        if idempotence in ("headers", "none"):
            return idempotence == "headers"
        known = BY_SOURCE if idempotence == "source" else BY_SEQUENCE
        return (DEDUPLICATES, known) not in self.connection.headers

    @property
    def answers(self) -> bool:
        """The receiver answers what it has stored of what was sent (`dedupe.questions`)."""
        return question_header() in self.connection.headers

    async def close(self, seconds: float) -> None:
        """End the connection in good order; at once when that takes longer."""
        self.channels.clear()
        await self.connection.close(drain_timeout=seconds)


async def dial(
    address: HostPort, options: WriteOptions, *, token: str | None, writer: str
) -> AqueductConnection:
    """Connect, and return when the receiver has accepted: what it says decides how rows are sent,
    so no row is early data.

    Raises:
        ConnectFailed, TlsFailed, AuthFailed, VersionMismatch, ProtocolViolation: the endpoint
            cannot be used; nothing was sent.
    """
    tls = options.tls.client()
    settings = LinkSettings(
        idle_timeout=SILENT_SECONDS, max_datagram_size=options.max_datagram_bytes
    )
    connection = await connect(
        f"aqueduct://{address}",
        tls=tls,
        token=token,
        producer=writer,
        config=replace(
            DEFAULT_CONFIG,
            max_payload_bytes=options.max_message_bytes,
            max_headers_bytes=MAX_HEADERS_BYTES,
            max_header_pairs=DEFAULT_CONFIG.max_header_pairs + 2,  # batch and row
        ),
        settings=settings,
        transport=options.transport,
        tickets=sessions_in(options.session_directory, ALPN),
        early_data=options.early_data,
    )
    try:
        await connection.accepted()
    except BaseException:
        connection.abort()
        raise
    return AqueductConnection(address, connection)
