"""Aqueduct, QUICR and Telehash on one UDP port: streams of one kind, of the other, and none."""

from __future__ import annotations

import random

from aqueduct import connect
from aqueduct_core.aio.quicr.server import SERVER_LINK, MediaServer
from aqueduct_core.aio.serve import Server
from aqueduct_core.aio.telehash.client import connect as connect_line
from aqueduct_core.aio.telehash.endpoints import LINK, Hashnames
from aqueduct_core.aio.telehash.line import IncomingChannels
from aqueduct_core.aio.telehash.listener import TelehashListener
from aqueduct_core.aqueduct.config import ALPN as AQUEDUCT
from aqueduct_core.aqueduct.config import DEFAULT_CONFIG
from aqueduct_core.engine.actions import WriteStream
from aqueduct_core.quicr.engine import ALPN as QUICR
from aqueduct_core.quicr.relay.relay import Relay
from aqueduct_core.telehash.config import ALPN as TELEHASH
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.transport.listener import ListenedProtocol, listen
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.core.aio.quicr.scene import WHOLE, client_of, publish, read_all
from tests.core.aio.telehash.scene import accepted, bodies
from tests.core.quicr.ends import media
from tests.support.event_loop import client_tls, in_loop, server_tls
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen


@in_loop
@rule("AQ-SEQ-8", "Q-1", "P-1")
async def test_each_has_its_own_streams_and_datagrams() -> None:
    aqueduct = Server((), None, DEFAULT_CONFIG)
    relay = Relay(upstream=False, chance=random.Random(1).random)
    quicr = MediaServer(relay, WHOLE, None, ClientTls(), "aioquic")
    telehash = TelehashListener(IncomingChannels(None), TelehashConfig(), Hashnames(), None)
    listener = await listen(
        "127.0.0.1",
        0,
        {
            AQUEDUCT: ListenedProtocol(aqueduct.welcome, LinkSettings()),
            QUICR: ListenedProtocol(quicr.welcome, SERVER_LINK),
            TELEHASH: ListenedProtocol(telehash.welcome, LINK),
        },
        tls=server_tls(),
        limits=ListenLimits(early_data=True),
    )
    for server in (aqueduct, quicr, telehash):
        server.listen_on(listener)
    async with (
        connect(aqueduct.url, tls=client_tls()) as channels,
        client_of(quicr.url) as client,
        connect_line(telehash.url, tls=client_tls()) as line,
    ):
        accepting = await aqueduct.accept()
        await channels.entrypoint.send(b"a message")
        await publish(client, "m", media(3, 2), datagram=True)
        channel = line.open("_t", b"a packet")
        assert await read_all(client.request("m", datagram=True)) == media(3, 2)
        assert (await anext(accepting.entrypoint)).payload == b"a message"
        theirs = await accepted(telehash)
        await channel.send(b"and another", end=True)
        assert await bodies(theirs) == [b"a packet", b"and another"]
        await channel.delivered()
        links = [each._driver.link for each in (channels,)] + [client.driver.link, line.driver.link]
        assert [link.alpn for link in links] == [AQUEDUCT, QUICR, TELEHASH]
        assert [granted(link, "bidi") for link in links] == [0, SERVER_LINK.max_streams_bidi, 0]
        assert [granted(link, "uni") > 0 for link in links] == [True, False, False]
        assert [granted(accepting._driver.link, "uni") > 0, granted_back(telehash)] == [True, [0]]
        # who writes a stream all the same has it wait for ever: there is no credit for one
        line.driver.link.apply([WriteStream(2, b"x", False)], line.now())
        line.kick()
        await let_happen(3)
        assert line.driver.lost is None
        assert [each.engine.closed for each in telehash.lines] == [None]
    for server in (aqueduct, quicr, telehash):
        await server.close()


def granted(link: object, kind: str) -> int:
    """How many streams of a kind the peer of a link lets it open."""
    return int(getattr(link._quic, f"_remote_max_streams_{kind}"))  # type: ignore[attr-defined]


def granted_back(listener: TelehashListener) -> list[int]:
    """The same, of both kinds, of each link that was accepted."""
    links = [line.driver.link for line in listener.lines]
    return [granted(link, "uni") + granted(link, "bidi") for link in links]
