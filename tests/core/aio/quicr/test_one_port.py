"""Aqueduct and QUICR on one UDP port, each with its own streams and datagrams. That sessions and
early data never cross: tests/core/transport/aioquic/test_negotiation.py, for any two."""

from __future__ import annotations

import random

from aqueduct import connect
from aqueduct_core.aio.quicr.server import SERVER_LINK, MediaServer
from aqueduct_core.aio.serve import Server
from aqueduct_core.aqueduct.config import ALPN as AQUEDUCT
from aqueduct_core.aqueduct.config import DEFAULT_CONFIG
from aqueduct_core.quicr.engine import ALPN as QUICR
from aqueduct_core.quicr.relay.relay import Relay
from aqueduct_core.transport.listener import ListenedProtocol, listen
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.core.aio.quicr.scene import WHOLE, client_of, publish, read_all
from tests.core.quicr.ends import media
from tests.support.event_loop import client_tls, in_loop, server_tls
from tests.support.rules import rule


async def both() -> tuple[Server, MediaServer]:
    """A server of each protocol, on one port."""
    aqueduct = Server((), None, DEFAULT_CONFIG)
    relay = Relay(upstream=False, chance=random.Random(1).random)
    quicr = MediaServer(relay, WHOLE, None, ClientTls(), "aioquic")
    listener = await listen(
        "127.0.0.1",
        0,
        {
            AQUEDUCT: ListenedProtocol(aqueduct.welcome, LinkSettings()),
            QUICR: ListenedProtocol(quicr.welcome, SERVER_LINK),
        },
        tls=server_tls(),
        limits=ListenLimits(early_data=True),
    )
    aqueduct.listen_on(listener)
    quicr.listen_on(listener)
    return aqueduct, quicr


@in_loop
@rule("AQ-SEQ-8", "Q-1")
async def test_each_has_its_own_streams_and_datagrams() -> None:
    aqueduct, quicr = await both()
    async with (
        connect(aqueduct.url, tls=client_tls()) as channels,
        client_of(quicr.url) as client,
    ):
        accepted = await aqueduct.accept()
        await channels.entrypoint.send(b"a message")
        await publish(client, "m", media(3, 2), datagram=True)
        assert await read_all(client.request("m", datagram=True)) == media(3, 2)
        assert (await anext(accepted.entrypoint)).payload == b"a message"
        assert channels._driver.link.alpn == AQUEDUCT
        assert client.driver.link.alpn == QUICR
        # a stream of two directions: one is granted where they are used, none where not
        assert bidirectional(channels._driver.link) == 0
        assert bidirectional(client.driver.link) == SERVER_LINK.max_streams_bidi
    await aqueduct.close()
    await quicr.close()


def bidirectional(link: object) -> int:
    """How many such streams the peer of a link lets it open."""
    return int(link._quic._remote_max_streams_bidi)  # type: ignore[attr-defined]
