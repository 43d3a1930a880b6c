"""Listen for lines, and take the channels that peers open on them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeAlias

from aqueduct_core.aio.telehash.channel import TelehashChannel
from aqueduct_core.aio.telehash.endpoints import LINK, Hashnames, LineEndpoint
from aqueduct_core.aio.telehash.line import WAITING, IncomingChannels, TelehashLine
from aqueduct_core.errors import ChannelEnded
from aqueduct_core.logs.refusals import RefusalLog
from aqueduct_core.primitives.host_port import HostPort, is_loopback
from aqueduct_core.telehash.config import ALPN, TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.faults import CloseCode
from aqueduct_core.transport.awaiting import Opening
from aqueduct_core.transport.driver import OnEvents
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.listener import ListenedProtocol, Listener, PeerInfo
from aqueduct_core.transport.listener import listen as listen_quic
from aqueduct_core.transport.plain_udp.endpoints import PlainListener
from aqueduct_core.transport.plain_udp.endpoints import listen as listen_udp
from aqueduct_core.transport.plain_udp.link import PlainSettings
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls.credentials import ServerTls

_logger = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[TelehashChannel], Awaitable[object]]


class TelehashListener:
    """Takes lines, and gives the channels that their peers open: to a handler, a task for each, or
    as an async iterator. Ends by `close`, or at the end of its block.

    Everybody who reaches it may open channels: the protocol knows no tokens.
    """

    def __init__(
        self,
        incoming: IncomingChannels,
        config: TelehashConfig,
        names: Hashnames,
        handler: Handler | None,
    ) -> None:
        self.lines: set[TelehashLine] = set()
        self._incoming = incoming
        self._config = config
        self._names = names
        self._handler = handler
        self._listener: Listener | PlainListener
        self._carrier = "telehash"
        self._tasks: set[asyncio.Task[None]] = set()
        self._taking: asyncio.Task[None] | None = None
        self._refusals = RefusalLog(_logger, asyncio.get_running_loop().call_later)

    def __repr__(self) -> str:
        return f"<TelehashListener at {self.url}, {len(self.lines)} lines>"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port as bound."""
        return self._listener.address

    @property
    def url(self) -> str:
        return f"{self._carrier}://{HostPort(*self.address)}"

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the certificate that is shown; None over plain UDP."""
        return self._listener.fingerprint if isinstance(self._listener, Listener) else None

    @property
    def warning(self) -> str | None:
        """What everybody should know who uses it, if there is something."""
        if isinstance(self._listener, PlainListener):
            return self._listener.warning
        if is_loopback(self.address[0]):
            return None
        return f"everybody who reaches {self.url} may open channels: Telehash has no tokens here"

    def listen_on(self, listener: Listener | PlainListener) -> None:
        """Take the connections of ``listener``, which calls `welcome` or `welcome_plain` for each,
        and may have other protocols beside."""
        self._listener = listener
        if isinstance(listener, PlainListener):
            self._carrier = "udp"
        if self._handler is not None:
            self._taking = asyncio.create_task(self._take(self._handler), name="telehash channels")

    def welcome(self, peer: PeerInfo, now: float) -> tuple[TelehashEngine, OnEvents]:
        """A handshake is complete: an engine, and who takes its events."""
        shown = self._listener.fingerprint if isinstance(self._listener, Listener) else None
        odd = self._names.odd(shown, peer.fingerprint, dialled=False)
        return self._line(peer.address, odd, self._config)

    def welcome_plain(self, address: Address, now: float) -> tuple[TelehashEngine, OnEvents]:
        """The same, for the first packet from an address that proves nothing."""
        odd = self._names.odd(None, None, dialled=False)
        return self._line(address, odd, replace(self._config, admit_at_once=False))

    async def close(self, reason: str = "the listener closes") -> None:
        """Close all lines; handlers that run are cancelled. May be called again."""
        self._incoming.close()
        tasks = [*self._tasks, *([self._taking] if self._taking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for line in self.lines:
            line.shutdown(reason)
        await asyncio.sleep(0)  # so that they have a turn before the socket is closed
        await self._listener.close(CloseCode.NO_ERROR, reason)
        self._refusals.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TelehashChannel:
        channel = await self._incoming.next()
        if channel is None:
            raise StopAsyncIteration
        return channel

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _line(
        self, address: Address, odd: bool, config: TelehashConfig
    ) -> tuple[TelehashEngine, OnEvents]:
        line = TelehashLine(HostPort(*address[:2]), config, self._incoming, self.lines.discard)
        line.engine = TelehashEngine(odd=odd, config=config)
        self.lines.add(line)
        return line.engine, line.on_events

    async def _take(self, handler: Handler) -> None:
        async for channel in self:
            task = asyncio.create_task(self._handle(handler, channel), name=repr(channel))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _handle(self, handler: Handler, channel: TelehashChannel) -> None:
        try:
            async with channel:
                await handler(channel)
        except ChannelEnded as error:
            self._refusals.add("channels that ended early", "%s", str(error))
        except Exception:
            _logger.exception("the handler of %r failed", channel)


def listen(
    endpoint: str,
    handler: Handler | None = None,
    *,
    types: Collection[str] | None = None,
    tls: ServerTls | None = None,
    config: TelehashConfig | None = None,
    settings: LinkSettings | None = None,
    udp: PlainSettings | None = None,
    limits: ListenLimits | None = None,
    waiting: int = WAITING,
    hashname: str | None = None,
    peer_hashname: str | None = None,
    transport: str = "aioquic",
) -> Opening[TelehashListener]:
    """Listen at ``telehash://address:port`` or ``udp://address:port`` (port 0: any free one).

    Args:
        handler: called with each channel that a peer opens, in a task of its own, inside
            ``async with channel``; None: the listener is an async iterator of them.
        types: that are taken; to others the answer is ``err`` (T2). None: all.
        tls: the certificate, for QUIC; has to be given there.
        config: bounds and times of the protocol.
        settings: of links over QUIC; None: `LINK`.
        udp: of plain UDP, for instance that a network is trusted.
        limits: what strangers are granted, and how much memory all lines may take.
        waiting: channels that may wait until the program takes them; to others ``err``.
        hashname, peer_hashname: as of `connect`.

    Raises: ConnectFailed, TlsFailed, InvalidOption.
    """
    where = LineEndpoint.parse(endpoint, listens=True)
    names = Hashnames.parse(hashname, peer_hashname)

    async def start() -> TelehashListener:
        incoming = IncomingChannels(types, waiting)
        listener = TelehashListener(incoming, config or TelehashConfig(), names, handler)
        if where.carrier == "udp":
            listener.listen_on(
                await listen_udp(
                    *where.where,
                    make_engine=listener.welcome_plain,
                    settings=udp,
                    limits=limits,
                )
            )
            return listener
        protocol = ListenedProtocol(listener.welcome, settings or LINK)
        listener.listen_on(
            await listen_quic(
                *where.where,
                {ALPN: protocol},
                tls=tls or ServerTls(),
                limits=limits,
                transport=transport,
            )
        )
        if listener.warning:
            _logger.warning("%s", listener.warning)
        return listener

    return Opening(start)
