"""A connection on which media are posted, for one attempt of a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aqueduct_core.engine.close_codes import how_ended
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.errors import SinkFailed
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import ALPN, QuicrEngine
from aqueduct_core.quicr.events import EndReason, QuicrEvent, TransactionEnded
from aqueduct_core.quicr.faults import INTERNAL_ERROR, NO_ERROR, MediaError
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.transport import Driver, LinkSettings, dial
from aqueduct_core.transport.awaiting import Signal
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.pool import GOODBYE_SECONDS

SILENT_SECONDS = 15.0
"""A receiver that says nothing for so long is dead, or its host or network is. One that is there
answers pings, a third of that apart. What is lost with it is done again by another attempt, from
the first row: so one that is only slow is not given up soon."""


class RowQueue(ObjectQueue):
    """Objects that wait for the link. ``taken`` is called when one has left."""

    def __init__(self, start: Position, taken: Callable[[], None]) -> None:
        super().__init__(start)
        self._taken = taken

    def advance(self) -> None:
        super().advance()
        self._taken()


class MediaPost:
    """One media on its way. ``over``: the peer has all of it."""

    def __init__(self, url: str, stream: int, queue: RowQueue) -> None:
        self.url = url
        self.stream = stream
        self.queue = queue
        self.over = False


class PostingConnection:
    """Posts media, one for each URL; what waits of them is bounded by ``maxInFlightBytes``.

    Every wait ends with the connection, and after an ``ackTimeout`` in which nothing left and
    nothing came. Ends by `complete` or `give_up`.
    """

    def __init__(self, address: HostPort, options: WriteOptions, *, datagram: bool) -> None:
        self.address = address
        self._options = options
        self._datagram = datagram
        self._engine = QuicrEngine(client=True, config=QuicrConfig(dropping=None))
        self._driver: Driver | None = None
        self._posts: dict[str, MediaPost] = {}
        self._streams: dict[int, MediaPost] = {}
        self._changed = Signal()
        self._moved = 0.0
        self._failure: SinkFailed | None = None

    @property
    def urls(self) -> list[str]:
        return list(self._posts)

    @property
    def posts(self) -> int:
        return len(self._posts)

    def has(self, url: str) -> bool:
        """Whether the media of this URL is posted here."""
        return url in self._posts

    async def dial(self) -> None:
        """Raises: ConnectFailed, TlsFailed, InvalidOption."""
        options = self._options
        self._driver = await dial(
            self.address.host,
            self.address.port,
            alpn=ALPN,
            settings=LinkSettings(
                idle_timeout=SILENT_SECONDS,
                max_streams_uni=0,
                max_datagram_size=options.max_datagram_bytes,
                datagram_outcomes=True,
                stream_progress=True,
            ),
            tls=options.tls.client(),
            make_engine=lambda now: self._engine,
            on_events=self._handle,
            transport=options.transport,
            internal_error=INTERNAL_ERROR,
        )
        self._moved = self._now

    def post(self, text: str, url: bytes, start: Position) -> MediaPost:
        """The media of this URL, begun with its first row.

        Raises:
            SinkFailed: CONNECTION_LOST, RECEIVER_CLOSED.
        """
        found = self._posts.get(text)
        if found is not None:
            return found
        self._check()
        queue = RowQueue(start, self._progress)
        try:
            stream = self._engine.post(url, queue, datagram=self._datagram, now=self._now)
        except MediaError as error:
            self._check()
            raise SinkFailed("CONNECTION_LOST", f"{self._where}: {error}", _AGAIN) from None
        post = self._posts[text] = self._streams[stream] = MediaPost(text, stream, queue)
        return post

    def wake(self, post: MediaPost) -> None:
        """Its queue has objects."""
        self._engine.wake(post.stream, self._now)
        self._kick()

    async def room(self) -> None:
        """Return when more may wait. Raises: SinkFailed."""
        most = self._options.max_in_flight_bytes
        await self._until(lambda: sum(each.queue.size for each in self._posts.values()) < most)

    async def complete(self) -> None:
        """End every media, and return when the peer has ended it too, behind its final point: then
        it has all of it. Raises: SinkFailed."""
        for post in self._posts.values():
            post.queue.finish()
            self._engine.wake(post.stream, self._now)
        self._kick()
        await self._until(lambda: all(post.over for post in self._posts.values()))
        await self._close()

    async def give_up(self) -> None:
        """End every media before its final point. Never raises."""
        if self._driver is None:
            return
        for post in self._posts.values():
            self._engine.cancel(post.stream, self._now)
        await self._close()

    # the inside

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def _where(self) -> str:
        return self._options.endpoint.url(self.address)

    def _kick(self) -> None:
        assert self._driver is not None
        self._driver.kick()

    def _progress(self) -> None:
        self._moved = self._now
        self._changed.fire()

    def _handle(self, driver: Driver, events: list[QuicrEvent]) -> None:
        for event in events:
            match event:
                case TransactionEnded(stream, EndReason.COMPLETE) if stream in self._streams:
                    self._streams[stream].over = True
                case TransactionEnded(stream, EndReason.CANCELLED) if stream in self._streams:
                    post = self._streams[stream]
                    self._fail(
                        "RECEIVER_CLOSED", f"the receiver gave up media '{post.url}'", _REFUSED
                    )
                case LinkLost():
                    self._fail("CONNECTION_LOST", how_ended(event))
        self._progress()

    def _fail(self, subclass: str, what: str, remedy: str | None = None) -> None:
        if self._failure is None:
            self._failure = SinkFailed(subclass, f"{self._where}: {what}", remedy or _AGAIN)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._check()
            limit = self._moved + self._options.ack_timeout
            try:
                async with asyncio.timeout_at(limit):
                    await self._changed.wait()
            except TimeoutError:
                if self._moved + self._options.ack_timeout <= self._now:
                    raise self._too_late() from None

    def _too_late(self) -> SinkFailed:
        waiting = [post.url for post in self._posts.values() if not post.over]
        return SinkFailed(
            "ACK_TIMEOUT",
            f"{self._where} did not confirm {len(waiting)} media, such as '{waiting[0]}', within "
            f"{self._options.ack_timeout:g} s, in which the path took nothing more",
            "Check that the receiver takes media and has room, or raise 'ackTimeout'",
        )

    async def _close(self) -> None:
        assert self._driver is not None
        self._engine.shutdown(NO_ERROR, "", self._now)
        self._kick()
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._driver.wait_closed()
        except TimeoutError:
            self._driver.abandon()


_REFUSED = (
    "Look into the receiver's log: it may take no object as large as one of these (maxMessageBytes "
    "of an intake, --memory of an origin or a relay). The next attempt posts the rows again"
)
_AGAIN = "Check the receiver and its log; the next attempt posts the rows again"
