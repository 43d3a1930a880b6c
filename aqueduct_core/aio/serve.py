"""Listen for Aqueduct connections."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from aqueduct_core.aio.channel_table import ChannelTable
from aqueduct_core.aio.connection import ServerConnection, check_code
from aqueduct_core.aio.message import HeadersLike, as_headers
from aqueduct_core.aio.network import LinkDriver
from aqueduct_core.aio.outcomes import Misuse
from aqueduct_core.aqueduct.config import ALPN, DEFAULT_CONFIG, Config
from aqueduct_core.aqueduct.conventions.headers import CODE_REJECTED, BadHeader, read_connection
from aqueduct_core.aqueduct.conventions.refusals import broke_protocol
from aqueduct_core.aqueduct.engine import AqueductEngine as Engine
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.escape import escaped
from aqueduct_core.logs.refusals import RefusalLog
from aqueduct_core.primitives.host_port import HostPort, is_loopback
from aqueduct_core.transport.awaiting import Opening, Signal
from aqueduct_core.transport.listener import ListenedProtocol, PeerInfo, listen
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls.credentials import ServerTls

AuthorizeResult: TypeAlias = bool | str
"""True accepts; False or a reason refuses. The reason is told to the peer: no secrets."""
Authorize: TypeAlias = Callable[[Headers], AuthorizeResult | Awaitable[AuthorizeResult]]

_logger = logging.getLogger(__name__)

DRAIN_TIMEOUT = 5.0
"""Seconds that a server waits for the acks of each connection when it closes."""

BACKLOG = 1_024
"""Connections that wait to be taken by ``accept``; with so many, others are told to come later."""


def serve(
    host: str,
    port: int,
    *,
    tls: ServerTls,
    headers: HeadersLike = (),
    authorize: Authorize | None = None,
    config: Config | None = None,
    settings: LinkSettings | None = None,
    limits: ListenLimits | None = None,
    transport: str = "aioquic",
    reset_key: bytes | None = None,
) -> Opening[Server]:
    """Listen on ``host`` and ``port`` (0: any free one).

    ``async with serve(…) as server`` closes all at the end; ``await serve(…)`` leaves it to the
    caller. ``async for connection in server`` gives the connections that were accepted.

    Args:
        headers: our connection headers, the same for each connection.
        authorize: looks at the connection headers of a client before the application sees
            anything of it; may be a coroutine function. Refused: the connection is closed with
            ``CODE_REJECTED``. None accepts all, with a warning where that is not this machine
            alone. ``bearer`` makes one for a token.
        reset_key: 32 secret bytes that a server keeps over restarts, so that clients of the one
            before learn at once that it is gone (stateless reset); None: by their idle timeout.

    Raises: ConnectFailed, TlsFailed, InvalidOption.
    """
    pairs = as_headers(headers)

    async def start() -> Server:
        server = Server(pairs, authorize, config or DEFAULT_CONFIG)
        await server.open(
            host,
            port,
            tls=tls,
            settings=settings or LinkSettings(),
            limits=limits,
            transport=transport,
            reset_key=reset_key,
        )
        return server

    return Opening(start)


def bearer(token: str) -> Authorize:
    """An ``authorize`` that wants this token; compared in constant time."""
    wanted = token.encode()

    def authorize(headers: Headers) -> AuthorizeResult:
        try:
            given = read_connection(headers).token
        except BadHeader as error:
            return str(error)
        if given is None:
            return "a token is needed"
        return hmac.compare_digest(given.encode(), wanted) or "the token is not valid"

    return authorize


class ServerSocket(Protocol):
    """Where a server gets its connections from: a ``Listener``, or one in memory for tests."""

    @property
    def address(self) -> tuple[str, int]: ...
    @property
    def fingerprint(self) -> str: ...
    def refuse(self) -> None: ...
    async def close(self) -> None: ...


class Server:
    """A listening socket and its connections, an async iterator of ``ServerConnection``.

    Ends by ``close``, or at the end of its ``async with`` block; iteration then stops.
    """

    def __init__(self, headers: Headers, authorize: Authorize | None, config: Config) -> None:
        self.connections: set[ServerConnection] = set()
        self.refused = 0
        self._headers = headers
        self._authorize = authorize
        self._config = config
        self._listener: ServerSocket | None = None
        self._arrived: deque[ServerConnection] = deque()
        self._changed = Signal()
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self._checks: set[asyncio.Task[None]] = set()
        self._refusals: RefusalLog

    @property
    def listener(self) -> ServerSocket:
        if self._listener is None:
            raise RuntimeError("the server does not listen yet")
        return self._listener

    @property
    def address(self) -> tuple[str, int]:
        """Host and port as bound."""
        return self.listener.address

    @property
    def url(self) -> str:
        host, port = self.address
        return f"aqueduct://[{host}]:{port}" if ":" in host else f"aqueduct://{host}:{port}"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate that is shown to clients."""
        return self.listener.fingerprint

    async def accept(self) -> ServerConnection:
        """The next connection that a client has made and that was accepted. A call that is
        cancelled takes none. Raises: Misuse after ``close``, and in another event loop."""
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise Misuse("the server was closed: it accepts nobody any more") from None

    def __aiter__(self) -> Server:
        return self

    async def __anext__(self) -> ServerConnection:
        self._check_loop()
        await self._changed.until(lambda: self._closing or bool(self._arrived))
        if not self._arrived:
            raise StopAsyncIteration
        return self._arrived.popleft()

    async def close(
        self, code: int = 0, reason: str = "", *, drain_timeout: float = DRAIN_TIMEOUT
    ) -> None:
        """Accept nobody any more, close every connection in good order (``Connection.close``, for
        ``drain_timeout`` seconds at most), free the socket. May be called again.

        Raises: Misuse for a code that is not an application's own, and in another event loop.
        """
        self._check_loop()
        check_code(code)
        self._closing = True
        self._changed.fire()
        if self._listener is not None:
            self._listener.refuse()
        for task in list(self._checks):
            task.cancel()
        self._arrived.clear()
        closing = [
            connection.close(code, reason, drain_timeout=drain_timeout)
            for connection in list(self.connections)
        ]
        await asyncio.gather(*closing)
        if self._listener is not None:
            await self._listener.close()
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

    def __repr__(self) -> str:
        state = "closed" if self._closing else f"{len(self.connections)} connections"
        where = "not open" if self._listener is None else str(HostPort(*self.address))
        return f"<Server at {where}, {state}>"

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise Misuse("this server belongs to another event loop: use it there")

    async def open(
        self,
        host: str,
        port: int,
        *,
        tls: ServerTls,
        settings: LinkSettings,
        limits: ListenLimits | None,
        transport: str,
        reset_key: bytes | None,
    ) -> None:
        self.listen_on(
            await listen(
                host,
                port,
                {ALPN: ListenedProtocol(self.welcome, settings)},
                tls=tls,
                limits=limits,
                transport=transport,
                reset_key=reset_key,
            )
        )
        if self._authorize is None and not is_loopback(self.address[0]):
            _logger.warning("everybody may connect to %s: no token is demanded there", self.url)

    def listen_on(self, listener: ServerSocket) -> None:
        """Take the connections of ``listener``, which calls ``welcome`` for each."""
        self._refusals = RefusalLog(_logger, asyncio.get_running_loop().call_later)
        self._listener = listener

    def welcome(self, peer: PeerInfo, now: float) -> tuple[Engine, Callable[..., None]]:
        """A handshake is complete: an engine, and who takes its events."""
        engine = Engine(Side.SERVER, (), self._config, now)
        accepted: list[ServerConnection] = []

        def opened(headers: Headers) -> None:
            self._judge(headers, partial(self._decide, channels, headers, accepted))

        def closed(end: Closed) -> None:
            self.connections.difference_update(accepted)
            if broke_protocol(end):
                self._refusals.add(
                    "violations of the protocol",
                    "%s broke the protocol (code %d): %s",
                    HostPort(*peer.address[:2]),
                    end.code,
                    escaped(end.reason),
                )

        channels = ChannelTable(engine, opened, closed)
        return engine, channels.on_events

    def _judge(self, headers: Headers, decide: Callable[[AuthorizeResult], None]) -> None:
        verdict: AuthorizeResult | Awaitable[AuthorizeResult]
        try:
            verdict = True if self._authorize is None else self._authorize(headers)
        except Exception:
            verdict = _failed()
        if isinstance(verdict, bool | str):
            decide(verdict)
            return
        check = asyncio.get_running_loop().create_task(_await(verdict, decide), name="authorize")
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)

    def _decide(
        self,
        channels: ChannelTable,
        headers: Headers,
        accepted: list[ServerConnection],
        verdict: AuthorizeResult,
    ) -> None:
        if channels.network.closed is not None:
            return
        if self._closing:
            channels.network.shutdown(0, "the server closes")
            return
        if len(self._arrived) >= BACKLOG:
            self._refuse(channels, 0, "too many connections wait to be accepted")
            return
        if verdict is not True:
            reason = verdict if isinstance(verdict, str) else "not authorized"
            self._refuse(channels, CODE_REJECTED, reason)
            return
        driver: LinkDriver | None = channels.network.driver
        assert driver is not None
        channels.network.engine.accept(self._headers, channels.network.now())
        channels.network.kick()
        connection = ServerConnection(channels, driver, headers)
        accepted.append(connection)
        self.connections.add(connection)
        self._arrived.append(connection)
        self._changed.fire()

    def _refuse(self, channels: ChannelTable, code: int, reason: str) -> None:
        assert channels.network.driver is not None
        who = HostPort(*channels.network.driver.peer[:2])
        self.refused += 1
        self._refusals.add("connections refused", "%s refused: %s", who, escaped(reason))
        channels.network.shutdown(code, reason)


async def _await(
    question: Awaitable[AuthorizeResult], decide: Callable[[AuthorizeResult], None]
) -> None:
    try:
        verdict = await question
    except Exception:
        verdict = _failed()
    decide(verdict)


def _failed() -> AuthorizeResult:
    _logger.exception("the authorize callback failed; the connection is refused")
    return "internal error"
