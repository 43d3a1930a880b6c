"""Dial an origin or a relay of QUICR, and what goes on with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from aqueduct_core.aio.quicr.publisher import Publisher
from aqueduct_core.aio.quicr.reader import MediaReader
from aqueduct_core.aio.quicr.urls import UrlSubscription
from aqueduct_core.engine.close_codes import how_ended
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.errors import ChannelEnded, InvalidOption
from aqueduct_core.primitives.host_port import HostPort, parse_url
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import ALPN, QuicrEngine
from aqueduct_core.quicr.events import Pressure, QuicrEvent, Ready, StreamRoom
from aqueduct_core.quicr.faults import INTERNAL_ERROR, NO_ERROR
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.quicr.media.position import BEGIN, Position
from aqueduct_core.quicr.media.reception import ObjectOrder
from aqueduct_core.quicr.urls import url_bytes
from aqueduct_core.transport.awaiting import Opening
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.driver import Driver
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls

SCHEME = "quicr"
CLIENT_LINK = LinkSettings(max_streams_uni=0, datagram_outcomes=True, stream_progress=True)
"""A server opens no streams (Q1)."""


class Transfer(Protocol):
    """What one transaction of a client is to the program."""

    def hear(self, event: QuicrEvent, now: float) -> None:
        """Take in an event of it."""

    def lost(self, error: ChannelEnded) -> None:
        """The connection is over."""


TransferT = TypeVar("TransferT", bound=Transfer)


class QuicrClient:
    """A connection to an origin or a relay. Ends by `close`, or at the end of its block; what is
    still going on then is cancelled. Belongs to the event loop in which it was made.
    """

    def __init__(self, where: HostPort, engine: QuicrEngine) -> None:
        self.where = where
        self.engine = engine
        self.driver: Driver
        self._transfers: dict[int, Transfer] = {}

    def __repr__(self) -> str:
        return f"<QuicrClient of {self.where}, {len(self._transfers)} transfers>"

    def request(
        self,
        url: str | bytes,
        *,
        datagram: bool = False,
        order: ObjectOrder = "media",
        hole_timeout: float = 1.0,
        timeout: float | None = None,
        begin: Position = BEGIN,
        max_bytes: int = 16 << 20,
    ) -> MediaReader:
        """Read a media: what the peer has of it, and what comes.

        Args:
            url: of the media: its bytes, or its text, as `quicr.urls` says.
            datagram: it may come in datagrams, in any order; else on a stream.
            order: as of `Reception`, as are ``hole_timeout`` and ``max_bytes``.
            timeout: seconds without anything that comes, after which reading ends with an error;
                None: never. A URL that nobody knows is waited for (Q14).
            begin: objects before are left out.

        Raises:
            MediaError: the connection is over, or the URL is too long.
        """
        stream = self.engine.request(as_url(url), datagram=datagram, now=self.driver.now())
        reader = MediaReader(
            self,
            stream,
            as_url(url),
            order=order,
            hole_timeout=hole_timeout,
            timeout=timeout,
            begin=begin,
            max_bytes=max_bytes,
        )
        return self._begun(stream, reader)

    def publish(
        self,
        url: str | bytes,
        *,
        datagram: bool = True,
        start: Position = BEGIN,
        max_queued: int = 1 << 20,
    ) -> Publisher:
        """Publish a media (POST).

        Args:
            datagram: the peer may choose to take it in datagrams.
            start: its first object.
            max_queued: bytes of objects that may wait to be sent before `Publisher.send` waits.

        Raises:
            MediaError: the connection is over, or the URL is too long.
        """
        queue = ObjectQueue(start)
        stream = self.engine.post(as_url(url), queue, datagram=datagram, now=self.driver.now())
        return self._begun(stream, Publisher(self, stream, as_url(url), queue, max_queued))

    def subscribe(self, prefix: str | bytes = b"") -> UrlSubscription:
        """Hear of the URLs that begin so, byte by byte: those that there are, and those that come.

        Raises:
            MediaError: the connection is over, or the prefix is too long.
        """
        stream = self.engine.subscribe(as_url(prefix), self.driver.now())
        return self._begun(stream, UrlSubscription(self, stream))

    async def close(self, code: int = NO_ERROR, reason: str = "") -> None:
        """Close the connection; what was not delivered is not waited for. May be called again."""
        self.engine.shutdown(code, reason, self.driver.now())
        self.driver.kick()
        await self.driver.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def forget(self, stream: int) -> None:
        """A transfer is over."""
        self._transfers.pop(stream, None)

    def kick(self) -> None:
        """Have what commands brought about carried out."""
        self.driver.kick()

    def on_events(self, driver: Driver, events: list[QuicrEvent]) -> None:
        """Called by the driver, once a turn."""
        self.driver = driver
        now = driver.now()
        for event in events:
            if isinstance(event, LinkLost):
                ended = how_ended(event)
                for stream, transfer in list(self._transfers.items()):
                    transfer.lost(
                        ChannelEnded(
                            "LOST",
                            f"The connection to {self.where} ended: {ended}",
                            "Connect and begin again",
                        )
                    )
                    self.forget(stream)
                continue
            if isinstance(event, Pressure):
                for transfer in self._transfers.values():
                    transfer.hear(event, now)
            elif not isinstance(event, Ready | StreamRoom) and event.stream in self._transfers:
                self._transfers[event.stream].hear(event, now)

    def _begun(self, stream: int, transfer: TransferT) -> TransferT:
        self._transfers[stream] = transfer
        self.driver.kick()
        return transfer


def as_url(url: str | bytes) -> bytes:
    """The bytes of a URL, or of its text (`quicr.urls`). Raises: InvalidOption.BAD_VALUE."""
    if isinstance(url, bytes):
        return url
    try:
        return url_bytes(url)
    except ValueError as error:
        raise InvalidOption(
            "BAD_VALUE", f"the URL {url!r} cannot be used", f"Give {error}"
        ) from None


def connect(
    endpoint: str,
    *,
    tls: ClientTls | None = None,
    config: QuicrConfig | None = None,
    settings: LinkSettings | None = None,
    transport: str = "aioquic",
) -> Opening[QuicrClient]:
    """Dial the origin or relay at ``quicr://host:port``; with ``async with``, or ``await``.

    Args:
        tls: how the server is verified; None: by the authorities of the system.
        config: bounds of the protocol, and what is given up of media that finds no room.
        settings: those of the link; None: `CLIENT_LINK`.

    Raises:
        ConnectFailed, TlsFailed, InvalidOption.
    """
    where = parse_url(endpoint, SCHEME)

    async def start() -> QuicrClient:
        client = QuicrClient(where, QuicrEngine(client=True, config=config))
        client.driver = await dial(
            where.host,
            where.port,
            alpn=ALPN,
            settings=settings or CLIENT_LINK,
            tls=tls or ClientTls(),
            make_engine=lambda now: client.engine,
            on_events=client.on_events,
            transport=transport,
            internal_error=INTERNAL_ERROR,
        )
        return client

    return Opening(start)


@asynccontextmanager
async def request(
    endpoint: str, url: str | bytes, *, tls: ClientTls | None = None, **options: Any
) -> AsyncGenerator[MediaReader]:
    """One media over a connection of its own; ``options`` as of `QuicrClient.request`."""
    async with connect(endpoint, tls=tls) as client, client.request(url, **options) as reader:
        yield reader


@asynccontextmanager
async def publish(
    endpoint: str, url: str | bytes, *, tls: ClientTls | None = None, **options: Any
) -> AsyncGenerator[Publisher]:
    """One media over a connection of its own; ``options`` as of `QuicrClient.publish`."""
    async with connect(endpoint, tls=tls) as client, client.publish(url, **options) as publisher:
        yield publisher


@asynccontextmanager
async def subscribe(
    endpoint: str, prefix: str | bytes = b"", *, tls: ClientTls | None = None
) -> AsyncGenerator[UrlSubscription]:
    """The URLs with a prefix, over a connection of its own; as `QuicrClient.subscribe`."""
    async with connect(endpoint, tls=tls) as client, client.subscribe(prefix) as urls:
        yield urls
