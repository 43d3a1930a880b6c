"""A line to a peer, for one attempt of a task after another."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol

from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.errors import ConnectFailed
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.telehash.config import ALPN, TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import (
    ChannelClosed,
    ChannelOpened,
    PacketBatch,
    PacketsAcked,
    TelehashEvent,
)
from aqueduct_core.telehash.faults import CloseCode
from aqueduct_core.telehash.hashnames import dials_odd
from aqueduct_core.transport import Driver, LinkSettings, dial
from aqueduct_core.transport.addresses import connected, resolve
from aqueduct_core.transport.awaiting import Signal
from aqueduct_core.transport.plain_udp import endpoints as plain_udp
from aqueduct_core.transport.plain_udp.link import PlainSettings
from aqueduct_spark.formats.telehash.options import LineOptions, TelehashWrite
from aqueduct_spark.options.access import DialTls
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.worker import sessions_in

SILENT_SECONDS = 15.0
"""Over QUIC, a receiver that says nothing for so long is dead, or its host or network is. One that
is there answers pings, a third of that apart. Over plain UDP nothing is known of a receiver but its
acks, which ``channelTimeout`` waits for."""

REFUSED_SECONDS = 0.1
"""For the network to say that nobody listens at a port for plain UDP."""


class LineKey(NamedTuple):
    """What two uses of a line must have in common."""

    address: HostPort
    tls: DialTls
    transport: str
    max_datagram_bytes: int | None
    window: int
    channel_timeout: float
    options: LineOptions

    @classmethod
    def of(cls, address: HostPort, options: WriteOptions) -> LineKey:
        own: TelehashWrite = options.own
        return cls(
            address,
            options.tls,
            options.transport,
            options.max_datagram_bytes,
            own.window,
            own.channel_timeout,
            own.line,
        )


class KeptChannel(NamedTuple):
    """A channel that lasts longer than an attempt; its next packet is number ``seq``."""

    channel: int
    seq: int


class LineUser(Protocol):
    """Who has a line learns what becomes of its channels."""

    def acked(self, channel: int, upto: int) -> None:
        """The peer has processed the packets below ``upto``."""

    def closed(self, event: ChannelClosed) -> None:
        """There is no such channel any more."""

    def lost_line(self, how: ConnectionLost) -> None:
        """There is no line any more."""


class SinkLine:
    """A line, and the channels on it that last longer than an attempt.

    Belongs to one attempt of a task at a time, its ``user``, or to the pool. Takes nothing: what
    the peer sends on a channel of ours is acked and dropped, one that it opens is refused.

    Args:
        kept: channels for further attempts, by their type.
        changed: fired when the line has learnt something.
        known_to_last: the carrier would tell, were the peer gone.
    """

    def __init__(
        self, address: HostPort, url: str, engine: TelehashEngine, *, known_to_last: bool
    ) -> None:
        self.address = address
        self.url = url
        self.engine = engine
        self.known_to_last = known_to_last
        self.kept: dict[str, KeptChannel] = {}
        self.changed = Signal()
        self.user: LineUser | None = None
        self.reused = False
        self._driver: Driver | None = None
        self._lost: ConnectionLost | None = None

    @property
    def alive(self) -> bool:
        return self._lost is None

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def begin(self, driver: Driver) -> None:
        """It is up."""
        self._driver = driver

    def kick(self) -> None:
        """What the engine was told is to leave."""
        if self._driver is not None:
            self._driver.kick()

    def lose(self, why: str) -> None:
        """The peer is gone, as far as can be known."""
        if self._driver is not None:
            self._driver.abandon(why)

    async def close(self, seconds: float) -> None:
        """End the line in good order; at once when that takes longer."""
        driver = self._driver
        if driver is None:
            return
        self.engine.shutdown(CloseCode.NO_ERROR, "", self.now)
        driver.kick(urgent=True)
        try:
            async with asyncio.timeout(seconds):
                await driver.wait_closed()
        except TimeoutError:
            driver.abandon()

    def handle(self, driver: Driver, events: list[TelehashEvent]) -> None:
        """What the engine has learnt."""
        for event in events:
            match event:
                case PacketsAcked(channel, upto):
                    if self.user is not None:
                        self.user.acked(channel, upto)
                case ChannelClosed():
                    self._forget(event.channel)
                    if self.user is not None:
                        self.user.closed(event)
                case ChannelOpened(channel):
                    self.engine.fail(channel, "this side sends, and takes nothing", driver.now())
                    driver.kick()
                case PacketBatch():
                    stop = event.first + event.count
                    self.engine.stored(
                        event.channel, event.first, stop, reliable=event.reliable, now=driver.now()
                    )
                    self.engine.consumed(event.channel, event.size, driver.now())
                    driver.kick()
                case LinkLost():
                    self._end(event)
        self.changed.fire()

    def _forget(self, channel: int) -> None:
        for type, kept in list(self.kept.items()):
            if kept.channel == channel:
                del self.kept[type]

    def _end(self, event: LinkLost) -> None:
        self._lost = ConnectionLost(
            f"the line to {self.url}", event.code, event.reason, event.by_peer, event.origin
        )
        if self.user is not None:
            self.user.lost_line(self._lost)


async def dial_line(address: HostPort, options: WriteOptions) -> SinkLine:
    """A line to this address. Over plain UDP it stands as long as nobody says that nobody is there:
    whether somebody is, its first ack shows.

    Raises:
        ConnectFailed, TlsFailed, InvalidOption: the endpoint cannot be used; nothing was sent.
    """
    own: TelehashWrite = options.own
    engine = TelehashEngine(
        odd=dials_odd(own.line.hashname, own.line.peer_hashname, dialled=True),
        config=TelehashConfig(window=own.window, channel_timeout=own.channel_timeout),
    )
    udp = own.line.carrier == "udp"
    url = options.endpoint.url(address)
    line = SinkLine(address, url, engine, known_to_last=not udp)
    if udp:
        await _check_not_refused(address)
        driver = await plain_udp.dial(
            address.host,
            address.port,
            make_engine=lambda now: engine,
            on_events=line.handle,
            settings=PlainSettings(trusted=own.line.trusted),
        )
    else:
        driver = await dial(
            address.host,
            address.port,
            alpn=ALPN,
            settings=LinkSettings(
                idle_timeout=SILENT_SECONDS,
                max_datagram_size=options.max_datagram_bytes,
                max_streams_uni=0,
            ),
            tls=options.tls.client(),
            make_engine=lambda now: engine,
            on_events=line.handle,
            transport=options.transport,
            tickets=sessions_in(options.session_directory, ALPN),
        )
    line.begin(driver)
    return line


async def _check_not_refused(address: HostPort) -> None:
    """Ask the network whether somebody listens there, by a datagram without a byte: no listener
    takes it for a packet.

    Raises:
        ConnectFailed: REFUSED, DNS.
    """
    addresses = await resolve(address.host, address.port)
    if not addresses:
        return  # which the dial says in its words
    sock = connected(*addresses[0])
    try:
        sock.setblocking(False)
        sock.send(b"")
        async with asyncio.timeout(REFUSED_SECONDS):
            await asyncio.get_running_loop().sock_recv(sock, 1)
    except TimeoutError:
        return
    except OSError as error:
        raise ConnectFailed(
            "REFUSED",
            f"nobody listens at udp://{address}: {error.strerror}",
            "Start the receiver, or correct host and port",
        ) from None
    finally:
        sock.close()
