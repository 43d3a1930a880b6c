"""The asyncio API: dial or serve, and pass channels inside messages.

    async with connect("aqueduct://host:4433") as connection:
        sender, receiver = channel(mode="ordered")
        await connection.entrypoint.send(b"take this", attach=receiver)
        await sender.send(b"hello")
        await sender.finish()

How a channel ended is in ``aqueduct_core.aio.outcomes``; other errors in ``aqueduct_core.errors``.
"""

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import Connection
from aqueduct_core.aio.halves import Receiver, Sender, channel, oneshot
from aqueduct_core.aio.message import Batch, Message
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aio.serve import Server, bearer, serve

__all__ = [
    "Batch",
    "Connection",
    "Message",
    "Producer",
    "Receiver",
    "Sender",
    "Server",
    "bearer",
    "channel",
    "connect",
    "oneshot",
    "serve",
]
