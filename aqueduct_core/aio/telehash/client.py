"""Dial a line, open a channel over a line of its own, or exchange packets in one call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from aqueduct_core.aio.telehash.channel import ReceivedPacket, TelehashChannel
from aqueduct_core.aio.telehash.endpoints import LINK, Hashnames, LineEndpoint
from aqueduct_core.aio.telehash.line import IncomingChannels, TelehashLine
from aqueduct_core.errors import ChannelEnded
from aqueduct_core.telehash.config import ALPN, TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.transport.awaiting import Opening
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.plain_udp import endpoints as plain_udp
from aqueduct_core.transport.plain_udp.link import PlainSettings
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls

MAX_ANSWERS = 64 << 20
"""Bytes of answers that `exchange` collects; more is for a program that reads them one by one."""


class PacketContent(NamedTuple):
    """What `exchange` sends where there is more than a body."""

    body: bytes = b""
    js: Mapping[str, Any] | None = None


PacketLike: TypeAlias = bytes | PacketContent


def connect(
    endpoint: str,
    *,
    types: Collection[str] = (),
    tls: ClientTls | None = None,
    config: TelehashConfig | None = None,
    settings: LinkSettings | None = None,
    udp: PlainSettings | None = None,
    hashname: str | None = None,
    peer_hashname: str | None = None,
    transport: str = "aioquic",
) -> Opening[TelehashLine]:
    """Dial ``telehash://host:port`` or ``udp://host:port``; with ``async with``, or ``await``.

    Over plain UDP there is no handshake: whether anybody is there, the first channel finds out.

    Args:
        types: of channels that the peer may open; those of others are answered by ``err``.
        tls: how the server is verified; None: by the authorities of the system.
        config: bounds and times of the protocol.
        settings: of a link over QUIC; None: `LINK`.
        udp: of plain UDP, for instance that a network is trusted.
        hashname, peer_hashname: who both sides are, where the other side is told the same; without
            them the side that dialled opens the odd channels (P3).

    Raises:
        ConnectFailed, TlsFailed, InvalidOption.
    """
    where = LineEndpoint.parse(endpoint)
    names = Hashnames.parse(hashname, peer_hashname)

    async def start() -> TelehashLine:
        bounds = config or TelehashConfig()
        incoming = IncomingChannels(types)
        line = TelehashLine(where.where, bounds, incoming, lambda line: incoming.close())
        server: str | None = None

        def known(fingerprint: str | None) -> None:
            nonlocal server
            server = fingerprint

        def make_engine(now: float) -> TelehashEngine:
            odd = names.odd(None, server, dialled=True)
            line.engine = TelehashEngine(odd=odd, config=bounds)
            return line.engine

        if where.carrier == "udp":
            # A stranger is answered with no more than it has sent, so it sends as much as it can.
            bounds = replace(bounds, pad_opening=bounds.max_packet)
            line.driver = await plain_udp.dial(
                *where.where, make_engine=make_engine, on_events=line.on_events, settings=udp
            )
        else:
            line.driver = await dial(
                *where.where,
                alpn=ALPN,
                settings=settings or LINK,
                tls=tls or ClientTls(),
                make_engine=make_engine,
                on_events=line.on_events,
                transport=transport,
                on_server=known,
            )
        return line

    return Opening(start)


@asynccontextmanager
async def open(
    endpoint: str,
    type: str,
    body: bytes = b"",
    *,
    js: Mapping[str, Any] | None = None,
    end: bool = False,
    reliable: bool = True,
    timeout: float | None = None,
    **options: Any,
) -> AsyncGenerator[TelehashChannel]:
    """A channel over a line of its own, as `TelehashLine.open`; ``options`` are those of `connect`.

    Raises: what both raise, and what the channel raises when it ends.
    """
    async with connect(endpoint, **options) as line:
        channel = line.open(type, body, js=js, end=end, reliable=reliable, timeout=timeout)
        async with channel:
            yield channel


async def exchange(
    endpoint: str,
    type: str,
    packets: Iterable[PacketLike] | AsyncIterable[PacketLike] = (b"",),
    *,
    timeout: float | None = None,
    max_answers: int = MAX_ANSWERS,
    **options: Any,
) -> list[ReceivedPacket]:
    """Open a channel, send all packets, and return what the peer sends, to its end.

    The channel is open for answers until the peer ends it: this side cannot, since the end of
    either one is that of both (P5).

    Args:
        packets: bodies, or `PacketContent`; the first one opens the channel.
        timeout: seconds without an answer after which it fails; None: never.
        max_answers: bytes of answers, at most.
        options: those of `connect`.

    Raises: what `connect` and the channel raise, and ChannelEnded: NO_REPLY: nothing came for
        ``timeout``; OVERFLOW: more than ``max_answers``.
    """
    rest = _each(packets)
    body, js = await anext(rest, PacketContent())
    async with open(endpoint, type, body, js=js, timeout=timeout, **options) as channel:
        sending = asyncio.create_task(_send(channel, rest), name="exchange")
        try:
            return await _answers(channel, max_answers)
        except ChannelEnded:
            if sending.done() and not sending.cancelled() and (error := sending.exception()):
                raise error from None  # which has ended it
            raise
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await sending


async def _each(
    packets: Iterable[PacketLike] | AsyncIterable[PacketLike],
) -> AsyncGenerator[PacketContent]:
    if isinstance(packets, AsyncIterable):
        async for each in packets:
            yield PacketContent(each) if isinstance(each, bytes) else each
    else:
        for each in packets:
            yield PacketContent(each) if isinstance(each, bytes) else each


async def _send(channel: TelehashChannel, packets: AsyncIterable[PacketContent]) -> None:
    try:
        async for body, js in packets:
            await channel.send(body, js=js)
    except (ChannelEnded, asyncio.CancelledError):
        raise
    except BaseException:
        channel.fail()  # so that nobody waits for the end of what cannot be sent
        raise


async def _answers(channel: TelehashChannel, most: int) -> list[ReceivedPacket]:
    answers: list[ReceivedPacket] = []
    size = 0
    async for packet in channel:
        size += len(packet.body) + len(packet.js_text or b"")
        if size > most:
            raise ChannelEnded(
                "OVERFLOW",
                f"The answers to {channel!r} have more than {most} bytes",
                "Read them one by one from a channel, or raise max_answers",
            )
        answers.append(packet)
    return answers
