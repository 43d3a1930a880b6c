"""A producer that survives its connections: nothing un-acked is forgotten, nothing stored twice.

    async with Producer("aqueduct://host:4433", producer="sensor-7") as producer:
        readings = producer.channel("readings")
        await readings.send(b"21.5")
        await readings.finish()

A new process goes on behind what an intake has stored of a channel, unless it says at which number
it begins; what is stored already is then recognised, and counted as ``repeated``.

What is not acked stays in its resend buffer. When the connection is lost it dials again, attaches
its channels anew under the same names, and sends that again under the same logical numbers
(headers ``producer``, ``name`` and ``sequence-start``), so that an intake stores each message once.

A message is *stored* when it is acked (``flush``, ``stored``), and *committed* when every query
that reads the intake has it in a finished batch (``committed``).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType

from aqueduct_core.aio.connect import Dialer, connect
from aqueduct_core.aio.connection import DRAIN_TIMEOUT, ClientConnection
from aqueduct_core.aio.message import HeadersLike, as_headers
from aqueduct_core.aio.outcomes import ConnectionLost, Misuse
from aqueduct_core.aio.producer_carrier import ChannelCarrier, ChannelSpec
from aqueduct_core.aio.producer_channel import ProducerChannel, ProducerStatistics
from aqueduct_core.aio.producer_loop import ReconnectLoop
from aqueduct_core.aio.producer_state import ProducerState
from aqueduct_core.aqueduct.config import DEFAULT_CONFIG, SCHEME, Config, Mode
from aqueduct_core.aqueduct.conventions.headers import connection_headers
from aqueduct_core.aqueduct.conventions.positions import ChannelPosition
from aqueduct_core.aqueduct.conventions.refusals import refusal_of_producer
from aqueduct_core.primitives.backoff import Backoff
from aqueduct_core.primitives.host_port import parse_url
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.sessions import SessionStore
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls

IDLE_TIMEOUT = 10.0
"""Silence after which a producer takes its connection for lost: shorter than for others, since
it loses nothing by dialling again."""


@dataclass(frozen=True, slots=True)
class ProducerTotals:
    """Totals of all channels of a producer over all its connections."""

    sent: int
    acked: int
    nacked: int
    unknown: int
    resent: int
    reconnects: int
    buffered_bytes: int
    repeated: int


class Producer:
    """Named channels over one connection at a time.

    Ends by ``close``, or gives up: at once when the server refuses it (token, certificate,
    version; other content under numbers that are stored: SinkFailed.NOT_REPEATABLE) or another
    producer of the same identity has taken one of its channels (SinkFailed.FENCED), else after
    ``give_up_after`` seconds without a connection. Every call then raises that error, and what was
    not acked is still counted in the statistics of the channels.

    Args:
        url: ``aqueduct://host:port``.
        producer: the identity, at most 64 bytes. An intake stores each number of a channel of
            this identity once, for ever, and lets one ``Producer`` at a time write to it: the
            newest.
        resend_buffer_bytes: how much may wait for its ack over all channels; more makes ``send``
            wait.
        give_up_after: seconds without a connection; None: never.
        wait_for_server: False: the first connection must come about at once.
        chance: a random number in [0, 1) for the jitter of the back-off.
        Others as for ``connect``. With ``early_data`` channels whose place at the server is known
            are sent on before it has accepted the connection: after a reconnect, and unreliable
            ones.
    """

    def __init__(
        self,
        url: str,
        *,
        producer: str,
        tls: ClientTls | None = None,
        token: str | None = None,
        headers: HeadersLike = (),
        config: Config | None = None,
        settings: LinkSettings | None = None,
        transport: str = "aioquic",
        tickets: SessionStore | None = None,
        early_data: bool = False,
        resend_buffer_bytes: int = 32 * 1024 * 1024,
        give_up_after: float | None = 120.0,
        wait_for_server: bool = True,
        first_wait: float = 0.1,
        longest_wait: float = 1.0,
        chance: Callable[[], float] = random.random,
        dialer: Dialer = dial,
    ) -> None:
        connection_headers(token=token, producer=producer)
        self._where = parse_url(url, SCHEME)
        self._identity = producer
        self._limit = (config or DEFAULT_CONFIG).max_payload_bytes
        self._state = ProducerState(producer, resend_buffer_bytes)
        self._channels: dict[str, ProducerChannel] = {}
        self._carriers: dict[str, ChannelCarrier] = {}
        self._loop = ReconnectLoop(
            str(self._where),
            self._state,
            self._carriers,
            dial=partial(
                connect,
                url,
                tls=tls,
                headers=(*self._state.positions.headers, *as_headers(headers)),
                token=token,
                producer=producer,
                config=config,
                settings=settings or LinkSettings(idle_timeout=IDLE_TIMEOUT),
                transport=transport,
                tickets=tickets,
                early_data=early_data,
                at_once=True,
                dialer=dialer,
            ),
            refused=partial(refusal_of_producer, str(self._where), producer),
            backoff=Backoff(first_wait, longest_wait, chance),
            give_up_after=give_up_after,
            impatient=not wait_for_server,
        )

    async def __aenter__(self) -> Producer:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        else:
            await self.cancel()

    async def open(self) -> None:
        """Connect; returns when the first connection is up. Raises: the error of giving up."""
        if self._loop.started:
            raise Misuse("the producer was opened before")
        self._state.loop = asyncio.get_running_loop()
        self._loop.start()
        try:
            await self._until_connected()
        except BaseException:
            await self.cancel()
            raise

    @property
    def connection(self) -> ClientConnection | None:
        """The connection that is up, or was the last one."""
        return self._loop.connection

    @property
    def connected(self) -> bool:
        """Whether a server has accepted the present connection."""
        return self._state.connected

    @property
    def failure(self) -> Exception | None:
        """Why the producer gave up; Misuse when it was closed."""
        return self._state.failure

    def channel(
        self,
        name: str,
        mode: str | Mode = "ordered",
        *,
        start: int | None = None,
        run_start: int | None = None,
        repeats: bool = False,
        headers: HeadersLike = (),
    ) -> ProducerChannel:
        """A new channel of this name; its first message has the logical number ``start``, and
        ``headers`` go with it on each connection.

        Without ``start`` it goes on behind all that the server has stored of it (``position``), or
        begins at 0 at a server that does not tell, with a warning. A start below makes the producer
        give up (InvalidOption), unless ``repeats`` says that the same is sent again: it is acked,
        not stored; other content is SinkFailed.NOT_REPEATABLE. An intake compares each of the last
        4 Mi messages that it stored since its start; others only as a whole, from the first number
        of run or channel up to as many as are stored, or to ``finish``. ``run_start``: where what
        this process sends begins, if a part is left out as stored (``ChannelPosition.begun``).

        Raises: Misuse for a name that is in use, and for an unreliable channel with a start;
        BadHeader for a name that is empty or too long.
        """
        self._state.check()
        if name in self._channels:
            raise Misuse(f"the producer has a channel {name!r} already")
        spec = ChannelSpec(name, Mode(mode), as_headers(headers), start, run_start, repeats)
        carrier = self._carriers[name] = ChannelCarrier(spec, self._state)
        made = self._channels[name] = ProducerChannel(carrier, self._state, self._limit)
        self._state.changed.fire()
        return made

    @property
    def statistics(self) -> ProducerTotals:
        """Totals of all channels so far."""
        rows = [channel.statistics for channel in self._channels.values()]
        return ProducerTotals(
            sum(row.sent for row in rows),
            sum(row.acked for row in rows),
            sum(row.nacked for row in rows),
            sum(row.unknown for row in rows),
            sum(row.resent for row in rows),
            self._loop.reconnects,
            self._state.buffered,
            sum(row.repeated for row in rows),
        )

    @property
    def channels(self) -> dict[str, ProducerStatistics]:
        """The statistics of each channel by its name."""
        return {name: channel.statistics for name, channel in self._channels.items()}

    async def position(self, name: str) -> ChannelPosition | None:
        """Where the channel of this name stood at the server before this producer; None: the
        server does not tell. From then on only this producer may send on it: another one of the
        same identity that has it open is closed (SinkFailed.FENCED there).

        Raises: Misuse before ``open``; ProtocolViolation for an answer that is none; the error for
        which the producer gave up.
        """
        if not self._loop.started:
            raise Misuse("the producer was not opened")
        while True:
            connection = await self._until_connected()
            try:
                return await self._state.positions.ask(connection, name)
            except ConnectionLost:
                await self._state.changed.until(
                    lambda: self.connection is not connection or self._state.failed  # noqa: B023
                )

    async def flush(self) -> None:
        """Wait until everything sent so far is acked, across reconnects."""
        for channel in list(self._channels.values()):
            await channel.flush()

    async def committed(self, *, timeout: float | None = None) -> None:
        """Wait until everything sent so far on reliable channels is committed, across
        reconnects. Raises as ``ProducerChannel.committed``."""
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        for channel in list(self._channels.values()):
            if channel.reliable:
                left = None if end is None else max(0.0, end - loop.time())
                await channel.committed(timeout=left)

    async def close(self) -> None:
        """Flush, then close the connection in good order. May be called again. Channels that are
        not finished can be continued by another run of this producer.

        Raises: the error for which the producer gave up. Misuse in another event loop.
        """
        self._state.check_loop()
        try:
            if not self._state.failed and not self._loop.closing:
                await self.flush()
        finally:
            await self._loop.stop(DRAIN_TIMEOUT)

    async def cancel(self) -> None:
        """Close at once; what is not acked is not stored, as far as is known. May be called
        again. Raises: Misuse in another event loop."""
        self._state.check_loop()
        if self.connection is not None:
            self.connection.abort()
        await self._loop.stop(0.0)

    def __repr__(self) -> str:
        totals = self.statistics
        state = "connected" if self.connected else "not connected"
        return (
            f"<Producer {self._identity!r} to {self._where}, {state}, {totals.sent} sent, "
            f"{totals.acked} acked>"
        )

    async def _until_connected(self) -> ClientConnection:
        """Wait for a connection that was accepted. Raises: the error of giving up."""
        state = self._state
        state.check_loop()
        await state.changed.until(lambda: state.connected or state.failed)
        state.check()
        assert self.connection is not None
        return self.connection
