"""Message channels over QUIC: dial or serve, and pass channels inside messages.

    async with connect("aqueduct://host:4433") as connection:
        sender, receiver = channel(mode="ordered", name="greetings")
        await connection.entrypoint.send(b"take this", attach=receiver)
        async with sender:
            await sender.send(b"hello")

All that a program needs is here; what else is in ``aqueduct_core`` may change without notice. The
import brings neither PySpark nor PyArrow with it.
"""

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import (
    ClientConnection,
    Connection,
    ConnectionStatistics,
    ServerConnection,
)
from aqueduct_core.aio.deliveries import DeliveryReport, SenderStatistics
from aqueduct_core.aio.halves import Receiver, Sender, channel, oneshot
from aqueduct_core.aio.message import Batch, Message
from aqueduct_core.aio.outcomes import (
    Cancelled,
    ConnectionLost,
    Finished,
    LostInTransit,
    Misuse,
    Outcome,
    Overflowed,
    OverLimit,
    ReceiverClosed,
)
from aqueduct_core.aio.producer import Producer, ProducerTotals
from aqueduct_core.aio.producer_channel import ProducerChannel, ProducerStatistics
from aqueduct_core.aio.receive_state import ReceiverStatistics
from aqueduct_core.aio.serve import Server, bearer, serve
from aqueduct_core.aqueduct.config import Config, Mode
from aqueduct_core.aqueduct.conventions.dedupe import Deduplicator
from aqueduct_core.aqueduct.conventions.positions import ChannelPosition
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.errors import (
    AqueductError,
    AuthFailed,
    ChannelEnded,
    ConnectFailed,
    InvalidOption,
    ProtocolViolation,
    SinkFailed,
    TlsFailed,
    VersionMismatch,
)
from aqueduct_core.transport.session_file import SessionFile
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls.credentials import ClientTls, ServerTls

__all__ = [
    "AqueductError",
    "AuthFailed",
    "Batch",
    "Cancelled",
    "ChannelEnded",
    "ChannelPosition",
    "ClientConnection",
    "ClientTls",
    "CloseOrigin",
    "Closed",
    "Config",
    "ConnectFailed",
    "Connection",
    "ConnectionLost",
    "ConnectionStatistics",
    "Deduplicator",
    "DeliveryReport",
    "Finished",
    "HeaderColumn",
    "InvalidOption",
    "LinkSettings",
    "ListenLimits",
    "LostInTransit",
    "Message",
    "Misuse",
    "Mode",
    "Outcome",
    "OverLimit",
    "Overflowed",
    "Producer",
    "ProducerChannel",
    "ProducerStatistics",
    "ProducerTotals",
    "ProtocolViolation",
    "Receiver",
    "ReceiverClosed",
    "ReceiverStatistics",
    "Sender",
    "SenderStatistics",
    "Server",
    "ServerConnection",
    "ServerTls",
    "SessionFile",
    "SinkFailed",
    "TlsFailed",
    "VersionMismatch",
    "bearer",
    "channel",
    "connect",
    "oneshot",
    "serve",
]
