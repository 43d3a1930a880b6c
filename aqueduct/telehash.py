"""Reliable channels of Telehash v2: listen, open a channel, exchange packets.

    async def take(channel):
        async for packet in channel:  # each step acknowledges the packet before it
            got.append((packet.body, packet.js))

    async with (
        listen("telehash://127.0.0.1:0", take, types=["_hello"], tls=certificate) as listener,
        open(listener.url, "_hello", b"hi", tls=trust) as channel,
    ):
        await channel.send(b"how are you?", js={"custom": "values"}, end=True)
        await channel.delivered()

Over QUIC datagrams (ALPN ``telehash-v2``) or, where a network is trusted, plain UDP.
"""

from aqueduct_core.aio.telehash.channel import ReceivedPacket, TelehashChannel
from aqueduct_core.aio.telehash.client import PacketContent, connect, exchange, open
from aqueduct_core.aio.telehash.line import TelehashLine
from aqueduct_core.aio.telehash.listener import TelehashListener, listen
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.faults import (
    ChannelOver,
    PacketFault,
    PacketTooLarge,
    SequenceExhausted,
    TelehashError,
    TooManyChannels,
)
from aqueduct_core.transport.plain_udp.link import PlainSettings

__all__ = [
    "ChannelOver",
    "PacketContent",
    "PacketFault",
    "PacketTooLarge",
    "PlainSettings",
    "ReceivedPacket",
    "SequenceExhausted",
    "TelehashChannel",
    "TelehashConfig",
    "TelehashError",
    "TelehashLine",
    "TelehashListener",
    "TooManyChannels",
    "connect",
    "exchange",
    "listen",
    "open",
]
