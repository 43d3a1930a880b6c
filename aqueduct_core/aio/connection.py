"""One Aqueduct connection as an application holds it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from aqueduct_core.aio.channel_table import ChannelTable
from aqueduct_core.aio.halves import Receiver, Sender
from aqueduct_core.aio.network import LinkDriver
from aqueduct_core.aio.outcomes import ConnectionLost, Misuse
from aqueduct_core.aio.receive_state import ReceiveState
from aqueduct_core.aio.send_state import SendState
from aqueduct_core.aqueduct.conventions.headers import (
    CODE_ABORTED,
    OWN_CODES,
    BadHeader,
    ConnectionClaims,
    read_connection,
)
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.engine.close_codes import CloseOrigin, how_lost
from aqueduct_core.engine.message_batch import Headers

DRAIN_TIMEOUT = 30.0
"""Seconds that ``close`` waits for the peer's acks (H16)."""

MAX_CODE = 1 << 62

_ids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """Totals of a connection; ``unacked`` messages have no outcome yet, and ``queued_bytes``
    arrived and were not read."""

    bytes_received: int
    bytes_sent: int
    datagrams_received: int
    datagrams_sent: int
    open_senders: int
    open_receivers: int
    unacked: int
    messages_received: int
    messages_sent: int
    queued_bytes: int


def check_code(code: int) -> None:
    """Raise Misuse for a close code that an application may not give."""
    if code not in (0, CODE_ABORTED) and not OWN_CODES <= code < MAX_CODE:
        raise Misuse(f"close code {code} is not yours: give 0, or one from {OWN_CODES} to 2^62 - 1")


class Connection:
    """A connection, up from its first moment: the handshake and the headers are done.

    Ends by ``close`` (in good order), ``cancel`` (at once), or the peer or the network; every half
    of its channels that is still open then has the outcome ``ConnectionLost``. As a context manager
    it closes at the end, and at once when the block raised.
    """

    def __init__(self, channels: ChannelTable, driver: LinkDriver, headers: Headers) -> None:
        self.id = next(_ids)
        self.headers = headers
        self._channels = channels
        self._network = channels.network
        self._driver = driver

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the other end, as first seen."""
        return self._driver.peer[0], self._driver.peer[1]

    @property
    def claims(self) -> ConnectionClaims:
        """What the peer's headers say by our conventions; nothing where they break their form."""
        try:
            return read_connection(self.headers)
        except BadHeader:
            return ConnectionClaims()

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the peer's certificate; None where it showed none."""
        return self._driver.peer_certificate_fingerprint

    @property
    def bytes_delivered(self) -> int:
        """About how many bytes of our messages have arrived at the other host, also of one that is
        not there as a whole and cannot be acked yet. Rises while the path takes anything."""
        return self._network.bytes_delivered

    @property
    def closed(self) -> Closed | None:
        """How the connection ended, and with whose code (``origin``); None while it is up."""
        return self._network.closed

    @property
    def statistics(self) -> ConnectionStatistics:
        counts = self._driver.statistics
        engine = self._network.engine.statistics
        return ConnectionStatistics(
            counts.bytes_received,
            counts.bytes_sent,
            counts.datagrams_received,
            counts.datagrams_sent,
            len(self._channels.senders),
            len(self._channels.receivers),
            self._channels.unacked,
            engine.messages_received,
            engine.messages_sent,
            engine.queued_bytes,
        )

    async def close(
        self, code: int = 0, reason: str = "", *, drain_timeout: float = DRAIN_TIMEOUT
    ) -> None:
        """Close in good order (AQ-LIFE-24): what was read is acked, receivers are closed, what
        was sent gets its ack, then the connection closes.

        Senders that were not finished are not finished by this, except for a client's
        entrypoint; their receivers see ``ConnectionLost``. When ``drain_timeout`` seconds are
        over the connection is given up as by ``cancel``. Returns when all is freed. May be called
        again; the first code and reason count.

        Args:
            code: 0, or one of your own from ``OWN_CODES`` on; the peer learns it, with the reason.

        Raises: Misuse for another code, and in another event loop.
        """
        self._check(code)
        network, channels = self._network, self._channels
        if network.closed is None:
            entry = channels.senders.get(0)
            if entry is not None and not entry.finishing and not entry.done:
                entry.finish()
            for receiver in list(channels.receivers.values()):
                receiver.ended(ConnectionLost(receiver.label, 0, "closed"))
                receiver.close()
            try:
                async with asyncio.timeout(drain_timeout):
                    await channels.drained()
                    await self._driver.writable(1)
                network.shutdown(code, reason)
            except TimeoutError:
                network.shutdown(CODE_ABORTED, "the close took too long")
        await self._driver.wait_closed()

    async def cancel(self, code: int = CODE_ABORTED, reason: str = "cancelled") -> None:
        """Close at once; what was not acked is unknown to both sides. Returns when all is freed,
        and may be called again. Raises: as ``close``."""
        self._check(code)
        self._network.shutdown(code, reason)
        await self._driver.wait_closed()

    def abort(self, reason: str = "aborted") -> None:
        """As ``cancel``, for code that cannot wait."""
        self._network.shutdown(CODE_ABORTED, reason)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; at once where the block raised."""
        if error is not None:
            self.abort()
        await self.close()

    def _check(self, code: int) -> None:
        if asyncio.get_running_loop() is not self._network.loop:
            raise Misuse("this connection belongs to another event loop: close it there")
        check_code(code)

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` at the end of the connection, in the event loop; it must not wait."""
        if self._network.closed is not None:
            callback()
        else:
            self._network.when_closed.append(lambda _: callback())

    async def wait_closed(self) -> None:
        """Return when the connection has ended, by whomever, and all is freed."""
        await self._driver.wait_closed()

    def __repr__(self) -> str:
        closed = self._network.closed
        if closed is None:
            state = "open"
        elif closed.origin is CloseOrigin.APPLICATION:
            state = f"closed with code {closed.code}"
        else:
            state = f"lost: {how_lost(closed)!r}"
        return f"<{type(self).__name__} {self.id} with {self.peer[0]}:{self.peer[1]}, {state}>"


class ClientConnection(Connection):
    """A connection that this side dialled; made by ``connect``. ``entrypoint`` sends.

    One that was made with early data, or at once, may not be accepted yet: ``answer`` has the
    server's headers when it is, and ``headers`` is empty until then.
    """

    def __init__(
        self,
        channels: ChannelTable,
        driver: LinkDriver,
        headers: Headers,
        answer: asyncio.Future[Headers] | None = None,
    ) -> None:
        super().__init__(channels, driver, headers)
        assert isinstance(channels.entrypoint, SendState)
        self.entrypoint = Sender(channels.entrypoint)
        self._answer = answer
        if answer is not None:
            answer.add_done_callback(self._answered)

    async def accepted(self) -> Headers:
        """Return the server's connection headers when it has accepted ours.

        Raises what ``connect`` raises where it has not: the connection is over then.
        """
        return self.headers if self._answer is None else await asyncio.shield(self._answer)

    @property
    def early_data(self) -> bool | None:
        """Whether the server took what was sent before the handshake was complete (AQ-0RTT-2).

        Where it did not, that was sent once more, except for datagrams. None: nothing was sent
        so, or it is not known yet.
        """
        return self._driver.early_accepted

    def _answered(self, answer: asyncio.Future[Headers]) -> None:
        if not answer.cancelled() and answer.exception() is None:
            self.headers = answer.result()


class ServerConnection(Connection):
    """A connection that a peer dialled; made by a ``Server``. ``entrypoint`` receives."""

    def __init__(self, channels: ChannelTable, driver: LinkDriver, headers: Headers) -> None:
        super().__init__(channels, driver, headers)
        assert isinstance(channels.entrypoint, ReceiveState)
        self.entrypoint = Receiver(channels.entrypoint)
