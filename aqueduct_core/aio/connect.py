"""Dial an Aqueduct server."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from types import TracebackType
from typing import Any

from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.headers import HeadersLike, as_headers
from aqueduct_core.aio.network import NetworkConnection
from aqueduct_core.aqueduct.config import DEFAULT_CONFIG, SCHEME, Config
from aqueduct_core.aqueduct.conventions.headers import (
    CODE_FENCED,
    CODE_NOT_REPEATABLE,
    CODE_REJECTED,
    connection_headers,
)
from aqueduct_core.aqueduct.engine import AqueductEngine as Engine
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.close_codes import CloseOrigin, how_lost
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import (
    AqueductError,
    AuthFailed,
    ConnectFailed,
    ProtocolViolation,
    SinkFailed,
    VersionMismatch,
)
from aqueduct_core.primitives.host_port import HostPort, parse_url
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.driver import Driver
from aqueduct_core.transport.sessions import SessionStore
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls


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
) -> Connecting:
    """Dial ``aqueduct://host:port``.

    ``async with connect(…) as connection`` closes at the end in good order (and aborts when the
    block raised); ``connection = await connect(…)`` leaves the closing to the caller.
    Returns when the server has accepted the connection headers; with ``early_data``, where an
    earlier connection left a session that allows it, at once: what is sent then travels as
    0-RTT data, and ``connection.accepted()`` tells whether the server took the connection.

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

    Raises:
        ConnectFailed, TlsFailed, AuthFailed, VersionMismatch, ProtocolViolation, InvalidOption.
    """
    pairs = connection_headers(
        token=token,
        producer=producer,
        sequence_start=sequence_start,
        extra=as_headers(headers),
    )
    return Connecting(
        parse_url(url, SCHEME),
        tls or ClientTls(),
        pairs,
        config or DEFAULT_CONFIG,
        settings or LinkSettings(),
        transport,
        tickets,
        early_data,
    )


class Connecting:
    """A connection to be: await it, or enter it with ``async with``."""

    def __init__(
        self,
        where: HostPort,
        tls: ClientTls,
        headers: Headers,
        config: Config,
        settings: LinkSettings,
        transport: str,
        tickets: SessionStore | None,
        early_data: bool,
    ) -> None:
        self._where = where
        self._tls = tls
        self._headers = headers
        self._config = config
        self._settings = settings
        self._transport = transport
        self._tickets = tickets
        self._early_data = early_data
        self._wire: NetworkConnection | None = None
        self._connection: ClientConnection | None = None

    def __await__(self) -> Generator[Any, None, ClientConnection]:
        return self._connect().__await__()

    async def __aenter__(self) -> ClientConnection:
        self._connection = await self._connect()
        return self._connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._connection is not None
        if error is not None:
            self._connection.abort()
        await self._connection.close()

    async def _connect(self) -> ClientConnection:
        answer: asyncio.Future[Headers] = asyncio.get_running_loop().create_future()

        def opened(headers: Headers) -> None:
            if not answer.done():
                answer.set_result(headers)

        def closed(events: Closed) -> None:
            if answer.done():
                return
            driver = self._wire.driver if self._wire is not None else None
            if driver is not None and not driver.link.ready:
                answer.set_exception(driver.why_not_ready())
            else:
                answer.set_exception(refusal(self._where, events))

        def make_engine(now: float) -> Engine:
            engine = Engine(Side.CLIENT, self._headers, self._config, now)
            self._wire = NetworkConnection(engine, opened, closed)
            return engine

        def on_events(driver: Any, events: list[Any]) -> None:
            assert self._wire is not None
            self._wire.events(driver, events)

        driver = await dial(
            self._where.host,
            self._where.port,
            settings=self._settings,
            tls=self._tls,
            make_engine=make_engine,
            on_events=on_events,
            transport=self._transport,
            tickets=self._tickets,
            early_data=self._early_data,
        )
        wire = self._wire
        assert wire is not None
        wire.driver = driver
        if driver.link.early:
            self._expect(answer, driver)
            return ClientConnection(wire, driver, (), answer)
        try:
            async with asyncio.timeout(self._settings.handshake_timeout):
                headers = await answer
        except BaseException as error:
            driver.abandon()
            if answer.done() and not answer.cancelled():
                answer.exception()
            if isinstance(error, TimeoutError):
                raise self._unanswered() from None
            raise
        return ClientConnection(wire, driver, headers)

    def _expect(self, answer: asyncio.Future[Headers], driver: Driver) -> None:
        """End a connection that was made with early data when its answer is late: behind the time
        for the handshake, by which the link ends it."""

        def late() -> None:
            if not answer.done():
                answer.set_exception(self._unanswered())
                driver.abandon()

        loop = asyncio.get_running_loop()
        timer = loop.call_later(2 * self._settings.handshake_timeout, late)

        def answered(done: asyncio.Future[Headers]) -> None:
            timer.cancel()
            if not done.cancelled():
                done.exception()  # whoever does not ask for the answer is not told of its failure

        answer.add_done_callback(answered)

    def _unanswered(self) -> ConnectFailed:
        return ConnectFailed(
            "TIMEOUT",
            f"{self._where} did not answer the connection headers in "
            f"{self._settings.handshake_timeout:g} s",
            "Try again, or look into the log of the server",
        )


def broken(closed: Closed) -> bool:
    """Whether we ended a connection because its peer broke the protocol."""
    ours = not closed.by_peer and closed.origin is CloseOrigin.APPLICATION
    return ours and closed.code in set(Code) - {Code.NO_ERROR}


def refusal(where: HostPort, closed: Closed) -> AqueductError:
    """Why a server closed a connection in place of accepting it; or that it was lost before."""
    if closed.origin is not CloseOrigin.APPLICATION:
        return ConnectFailed(
            "NO_REPLY",
            f"the connection to {where} was lost before it was accepted: {how_lost(closed)[:400]}",
            "Try again, or look into the log of the server",
        )
    reason = closed.reason or "no reason given"
    if closed.by_peer and closed.code == CODE_REJECTED:
        return AuthFailed(
            "REJECTED",
            f"{where} refused the connection: {reason}",
            "Check the token and that it has not expired",
        )
    if closed.code == Code.VERSION:
        return VersionMismatch(
            "",
            f"{where} speaks another revision of the protocol: {reason}",
            "Use matching versions on both ends",
        )
    if broken(closed):
        return ProtocolViolation(
            "",
            f"{where} broke the protocol (code {closed.code}): {reason}",
            "Check what listens there",
        )
    return ConnectFailed(
        "NO_REPLY",
        f"{where} closed the connection before it was accepted (code {closed.code}): {reason}",
        "Try again, or look into the log of the server",
    )


def refusal_for_good(where: HostPort, producer: str, closed: Closed) -> SinkFailed | None:
    """What a server has against a producer that it had accepted, and no new connection changes."""
    if not closed.by_peer or closed.origin is not CloseOrigin.APPLICATION:
        return None
    if closed.code == CODE_NOT_REPEATABLE:
        return SinkFailed(
            "NOT_REPEATABLE",
            f"{where} refused what producer {producer!r} sends: {closed.reason[:200]}",
            "Send other content under another identity or channel, or behind the numbers that are "
            "stored",
        )
    if closed.code == CODE_FENCED:
        return SinkFailed(
            "FENCED",
            f"producer {producer!r} was put out of its place at {where}: {closed.reason[:200]}",
            "Give each producer that runs at the same time an identity of its own, or a channel",
        )
    return None
