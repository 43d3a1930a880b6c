"""Run an origin or a relay of QUICR: a socket and a clock for `Relay`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from types import TracebackType
from typing import Self

from aqueduct_core.aio.quicr.client import CLIENT_LINK, SCHEME
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.errors import AqueductError
from aqueduct_core.escape import escaped
from aqueduct_core.logs.refusals import RefusalLog
from aqueduct_core.primitives.host_port import HostPort, is_loopback, parse_url
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import ALPN, QuicrEngine
from aqueduct_core.quicr.events import QuicrEvent
from aqueduct_core.quicr.faults import INTERNAL_ERROR, NO_ERROR
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_core.quicr.relay.media import UrlCounts
from aqueduct_core.quicr.relay.relay import Relay
from aqueduct_core.quicr.urls import url_text
from aqueduct_core.transport.awaiting import Opening
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.driver import Driver, OnEvents
from aqueduct_core.transport.listener import ListenedProtocol, Listener, PeerInfo, listen
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls.credentials import ClientTls, ServerTls

_logger = logging.getLogger(__name__)

SERVER_LINK = LinkSettings(
    max_streams_uni=0,
    max_streams_bidi=QuicrConfig().max_transactions,
    datagram_outcomes=True,
    stream_progress=True,
)
"""Each request, post and subscription of a client is one stream (Q1)."""


class MediaServer:
    """An origin, or a relay with its connection to the upstream. Ends by `close`, or at the end of
    its block. Belongs to the event loop in which it was made.

    Everybody who reaches it may post and read: the protocol knows no tokens.
    """

    def __init__(
        self,
        relay: Relay,
        config: QuicrConfig,
        upstream: HostPort | None,
        upstream_tls: ClientTls,
        transport: str,
    ) -> None:
        self.relay = relay
        self._config = config
        self._upstream = upstream
        self._upstream_tls = upstream_tls
        self._transport = transport
        self._listener: Listener
        self._drivers: dict[QuicrEngine, Driver] = {}
        self._dialling: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._refusals = RefusalLog(_logger, self._loop.call_later)
        self._closed = False

    def __repr__(self) -> str:
        kind = "origin" if self._upstream is None else f"relay of {self._upstream}"
        return f"<MediaServer {kind}, {len(self._drivers)} connections>"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port as bound."""
        return self._listener.address

    @property
    def url(self) -> str:
        return f"{SCHEME}://{HostPort(*self.address)}"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate that is shown to clients."""
        return self._listener.fingerprint

    @property
    def connections(self) -> int:
        """How many there are, the one to the upstream among them."""
        return len(self._drivers)

    def counts(self) -> list[UrlCounts]:
        """What there is to say of each URL."""
        return self.relay.counts()

    async def open(
        self, host: str, port: int, tls: ServerTls, settings: LinkSettings, limits: ListenLimits
    ) -> None:
        """Listen there. Raises: ConnectFailed, TlsFailed, InvalidOption."""
        protocol = ListenedProtocol(self.welcome, settings, INTERNAL_ERROR)
        self.listen_on(
            await listen(
                host, port, {ALPN: protocol}, tls=tls, limits=limits, transport=self._transport
            )
        )
        if not is_loopback(self.address[0]):
            _logger.warning(
                "everybody who reaches %s may post and read: QUICR has no tokens", self.url
            )

    def listen_on(self, listener: Listener) -> None:
        """Take the connections of ``listener``, which calls `welcome` for each, and may have other
        protocols beside."""
        self._listener = listener

    async def close(self) -> None:
        """Close all connections; what is cached is gone. May be called again."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._dialling is not None:
            self._dialling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._dialling
        await self._listener.close(NO_ERROR, "the server closes")
        for engine, driver in list(self._drivers.items()):  # the upstream's, if it is there
            engine.shutdown(NO_ERROR, "the server closes", driver.now())
            driver.kick(urgent=True)
            await driver.wait_closed()
        self._refusals.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def welcome(self, peer: PeerInfo, now: float) -> tuple[QuicrEngine, OnEvents]:
        """A handshake is complete: an engine, and who takes its events."""
        return QuicrEngine(client=False, config=self._config), self._on_events

    def _on_events(self, driver: Driver, events: list[QuicrEvent]) -> None:
        engine: QuicrEngine = driver.engine
        self._drivers[engine] = driver
        self.relay.handle(engine, events, driver.now())
        last = events[-1]
        if isinstance(last, LinkLost):
            del self._drivers[engine]
            if _is_fault(last):
                self._refusals.add(
                    "violations of the protocol",
                    "%s broke the protocol: %s",
                    HostPort(*driver.peer[:2]),
                    escaped(last.reason),
                )
        self._advance()

    def _advance(self) -> None:
        """Have carried out what the relay has told its engines."""
        if self._closed:
            return
        relay = self.relay
        for engine in relay.take_kicks():
            driver = self._drivers.get(engine)
            if driver is not None:
                driver.kick(urgent=True)  # others wait for what a relay passes on
        for (purpose, name), again in relay.take_failed():
            url = escaped(url_text(name))
            if again:
                self._refusals.add(
                    "transactions ended by the upstream",
                    "%s has ended our %s of '%s'; it is tried again",
                    *(self._upstream, purpose.value, url),
                )
            else:
                self._refusals.add(
                    "media that the upstream did not get",
                    "'%s' was posted here, and is forgotten before %s had all of it",
                    *(url, self._upstream),
                )
        for name, position, most, posted in relay.take_too_large():
            bound = "max_object allows" if most is None else f"the whole memory of {most} has"
            self._refusals.add(
                "objects that are too large",
                "object %s of '%s' has more bytes than %s: %s",
                position,
                escaped(url_text(name)),
                bound,
                "its post is cancelled" if posted else "its readers do not get it",
            )
        if relay.take_dial():
            self._dialling = self._loop.create_task(self._dial(), name="upstream")
        at = relay.wake_at
        if self._timer is not None:
            if self._timer.when() == at:
                return
            self._timer.cancel()
            self._timer = None
        if at is not None:
            self._timer = self._loop.call_at(at, self._rung)

    def _rung(self) -> None:
        self._timer = None
        self.relay.tick(self._loop.time())
        self._advance()

    async def _dial(self) -> None:
        upstream = self._upstream
        assert upstream is not None
        engine = QuicrEngine(client=True, config=self._config)
        self.relay.dialled(engine)
        try:
            await dial(
                *upstream,
                alpn=ALPN,
                settings=CLIENT_LINK,
                tls=self._upstream_tls,
                make_engine=lambda now: engine,
                on_events=self._on_events,
                transport=self._transport,
                internal_error=INTERNAL_ERROR,
            )
        except AqueductError as error:
            self._refusals.add("failed dials of the upstream", "%s", error)
            self.relay.dial_failed(self._loop.time())
            self._advance()


def _is_fault(lost: LinkLost) -> bool:
    """We have closed the connection for what its peer sent (Q5)."""
    return not lost.by_peer and lost.origin is CloseOrigin.TRANSPORT and lost.code == INTERNAL_ERROR


def serve_origin(
    host: str,
    port: int,
    *,
    tls: ServerTls,
    config: QuicrConfig | None = None,
    keeping: RelayConfig | None = None,
    settings: LinkSettings | None = None,
    limits: ListenLimits | None = None,
    transport: str = "aioquic",
) -> Opening[MediaServer]:
    """Listen on ``host`` and ``port`` (0: any free one) as an origin: what is posted is kept for a
    while, and given to all who ask for it.

    Args:
        config: bounds of each connection, and what is given up where its path has no room.
        keeping: what is kept, and for how long.
        settings: those of each link; None: `SERVER_LINK`.

    Raises: ConnectFailed, TlsFailed, InvalidOption.
    """
    return _serve(host, port, tls, config, keeping, settings, limits, transport)


def serve_relay(
    host: str,
    port: int,
    upstream: str,
    *,
    tls: ServerTls,
    upstream_tls: ClientTls | None = None,
    config: QuicrConfig | None = None,
    keeping: RelayConfig | None = None,
    settings: LinkSettings | None = None,
    limits: ListenLimits | None = None,
    transport: str = "aioquic",
) -> Opening[MediaServer]:
    """The same as a relay of the origin, or relay, at ``quicr://host:port``: what clients ask for
    comes from there, once for all of them, and what they post goes there. It is dialled when it is
    needed, and again when it was lost.

    Args:
        upstream_tls: how the upstream is verified; None: by the authorities of the system.
    """
    where = parse_url(upstream, SCHEME)
    trust = upstream_tls or ClientTls()
    return _serve(host, port, tls, config, keeping, settings, limits, transport, where, trust)


def _serve(
    host: str,
    port: int,
    tls: ServerTls,
    config: QuicrConfig | None,
    keeping: RelayConfig | None,
    settings: LinkSettings | None,
    limits: ListenLimits | None,
    transport: str,
    upstream: HostPort | None = None,
    upstream_tls: ClientTls | None = None,
) -> Opening[MediaServer]:
    async def start() -> MediaServer:
        relay = Relay(keeping, upstream=upstream is not None, chance=random.random)
        server = MediaServer(
            relay, config or QuicrConfig(), upstream, upstream_tls or ClientTls(), transport
        )
        await server.open(host, port, tls, settings or SERVER_LINK, limits or ListenLimits())
        return server

    return Opening(start)
