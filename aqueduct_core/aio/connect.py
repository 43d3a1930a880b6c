"""Dial an Aqueduct server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from aqueduct_core.aio.channel_table import ChannelTable
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.message import HeadersLike, as_headers
from aqueduct_core.aio.network import LinkDriver
from aqueduct_core.aqueduct.config import ALPN, DEFAULT_CONFIG, SCHEME, Config
from aqueduct_core.aqueduct.conventions.headers import CODE_ABORTED, connection_headers
from aqueduct_core.aqueduct.conventions.refusals import refusal
from aqueduct_core.aqueduct.engine import AqueductEngine as Engine
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import ConnectFailed
from aqueduct_core.primitives.host_port import HostPort, parse_url
from aqueduct_core.transport.awaiting import Opening
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.sessions import SessionStore
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls

Dialer: TypeAlias = Callable[..., Awaitable[LinkDriver]]
"""As ``aqueduct_core.transport.dialer.dial``."""


def connect(
    url: str,
    *,
    tls: ClientTls | None = None,
    headers: HeadersLike = (),
    token: str | None = None,
    producer: str | None = None,
    sequence_start: int | None = None,
    config: Config | None = None,
    settings: LinkSettings | None = None,
    transport: str = "aioquic",
    tickets: SessionStore | None = None,
    early_data: bool = False,
    at_once: bool = False,
    dialer: Dialer = dial,
) -> Opening[ClientConnection]:
    """Dial the server at ``aqueduct://host:port``.

    ``async with connect(…) as connection`` closes at the end in good order (and at once when the
    block raised); ``connection = await connect(…)`` leaves the closing to the caller.
    Returns when the server has accepted the connection headers; with ``at_once`` a round trip
    sooner, when the TLS handshake is complete; with ``early_data``, where an earlier connection
    left a session that allows it, at once: what is sent then travels as 0-RTT data. In both cases
    ``connection.accepted()`` tells whether the server took the connection.

    Args:
        tls: how the server is verified; None: by the authorities of the system.
        headers: further connection headers.
        token: sent as bearer token in the header ``authorization``.
        producer: the identity under which messages are stored once, at most 64 bytes.
        sequence_start: the logical number of the entrypoint's first message, for a producer.
        tickets: keeps sessions and address tokens from one connection to the next; None: in
            memory, for the life of the process.
        early_data: see above. An observer may have the server receive such data twice; an
            Aqueduct server processes it only when the handshake proves that it is no replay.
        at_once: the first messages leave with the connection headers (AQ-HDR-6), up to
            ``Config.initial_burst`` bytes (AQ-FLOW-9). A server that refuses them has processed
            none (AQ-HDR-4): senders then end with ``ConnectionLost``, and ``accepted()`` raises
            what ``connect`` would. Without flow control nothing bounds what would wait there, so it
            has no effect.
        dialer: what brings the connection about, in place of the network; see
            ``aqueduct.testing.Network``.

    Raises:
        ConnectFailed, TlsFailed, AuthFailed, VersionMismatch, ProtocolViolation, InvalidOption.
    """
    pairs = connection_headers(
        token=token,
        producer=producer,
        sequence_start=sequence_start,
        extra=as_headers(headers),
    )
    dialled = _Dial(
        parse_url(url, SCHEME),
        tls or ClientTls(),
        pairs,
        config or DEFAULT_CONFIG,
        settings or LinkSettings(),
        transport,
        tickets,
        early_data,
        at_once and (config or DEFAULT_CONFIG).flow_per_channel is not None,
        dialer,
    )
    return Opening(dialled.connect)


@dataclass(frozen=True, slots=True)
class _Dial:
    """A connection to be; see ``connect``."""

    where: HostPort
    tls: ClientTls
    headers: Headers
    config: Config
    settings: LinkSettings
    transport: str
    tickets: SessionStore | None
    early_data: bool
    at_once: bool
    dialer: Dialer

    async def connect(self) -> ClientConnection:
        channels: ChannelTable | None = None
        answer: asyncio.Future[Headers] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_known)

        def opened(headers: Headers) -> None:
            if not answer.done():
                answer.set_result(headers)

        def closed(end: Closed) -> None:
            if answer.done():
                return
            driver = channels.network.driver if channels is not None else None
            if driver is not None and not driver.ready:
                answer.set_exception(driver.why_not_ready())
            else:
                answer.set_exception(refusal(str(self.where), end))

        def make_engine(now: float) -> Engine:
            nonlocal channels
            engine = Engine(Side.CLIENT, self.headers, self.config, now)
            channels = ChannelTable(engine, opened, closed)
            return engine

        def on_events(driver: Any, events: list[Any]) -> None:
            assert channels is not None
            channels.on_events(driver, events)

        driver = await self.dialer(
            self.where.host,
            self.where.port,
            alpn=ALPN,
            settings=self.settings,
            tls=self.tls,
            make_engine=make_engine,
            on_events=on_events,
            transport=self.transport,
            tickets=self.tickets,
            early_data=self.early_data,
        )
        assert channels is not None
        channels.network.driver = driver
        if driver.early or (self.at_once and not answer.done()):
            self._expect(answer, driver)
            return ClientConnection(channels, driver, (), answer)
        try:
            async with asyncio.timeout(self.settings.handshake_timeout):
                headers = await answer
        except BaseException as error:
            driver.close(CODE_ABORTED, "the dial was given up")  # the server need not wait for more
            driver.abandon()
            if isinstance(error, TimeoutError):
                raise self._unanswered() from None
            raise
        return ClientConnection(channels, driver, headers)

    def _expect(self, answer: asyncio.Future[Headers], driver: LinkDriver) -> None:
        """End a connection that is used before its answer when that is late: behind the time for
        the handshake, by which the link ends it."""

        def late() -> None:
            if not answer.done():
                answer.set_exception(self._unanswered())
                driver.abandon()

        loop = asyncio.get_running_loop()
        timer = loop.call_later(2 * self.settings.handshake_timeout, late)

        answer.add_done_callback(lambda _: timer.cancel())

    def _unanswered(self) -> ConnectFailed:
        return ConnectFailed(
            "TIMEOUT",
            f"{self.where} did not answer the connection headers in "
            f"{self.settings.handshake_timeout:g} s",
            "Try again, or look into the log of the server",
        )


def _known(answer: asyncio.Future[Headers]) -> None:
    """Whoever does not ask for the answer is not told of its failure."""
    if not answer.cancelled():
        answer.exception()
