"""A producer that survives its connections: nothing un-acked is forgotten, nothing stored twice.

    async with Producer("aqueduct://host:4433", producer="sensor-7") as producer:
        readings = producer.channel("readings")
        await readings.send(b"21.5")
        await readings.finish()

A new process goes on behind what an intake has stored of a channel, unless it says at which number
it begins; what is stored already is then recognised, and counted as ``repeated``.

The producer keeps what is not acked. When the connection is lost it dials again, attaches its
channels anew under the same names, and sends what it kept under the same logical numbers
(headers ``producer``, ``name`` and ``sequence-start``), so that an intake stores each message once.

A message is *stored* when it is acked (``flush``, ``stored``), and *committed* when every query
that reads the intake has it in a finished batch (``committed``).
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType

from aqueduct_core.aio.connect import connect, refusal_for_good
from aqueduct_core.aio.connection import DRAIN_TIMEOUT, ClientConnection
from aqueduct_core.aio.headers import HeadersLike, as_headers
from aqueduct_core.aio.outcomes import ConnectionLost, LostInTransit, Misuse, ReceiverClosed
from aqueduct_core.aio.producer_channel import ProducerChannel, ProducerStatistics
from aqueduct_core.aio.producer_positions import ProducerPositions
from aqueduct_core.aio.producer_receipts import ProducerReceipts
from aqueduct_core.aio.signal import Signal
from aqueduct_core.aqueduct.config import DEFAULT_CONFIG, SCHEME, Config, Mode
from aqueduct_core.aqueduct.conventions.headers import connection_headers
from aqueduct_core.aqueduct.conventions.positions import ChannelPosition
from aqueduct_core.errors import AqueductError, ConnectFailed, ProtocolViolation
from aqueduct_core.primitives.backoff import Backoff
from aqueduct_core.primitives.host_port import parse_url
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
    kept_bytes: int
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
        max_kept_bytes: how much may be kept un-acked over all channels; more makes ``send`` wait.
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
        max_kept_bytes: int = 32 * 1024 * 1024,
        give_up_after: float | None = 120.0,
        wait_for_server: bool = True,
        first_wait: float = 0.1,
        longest_wait: float = 5.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        connection_headers(token=token, producer=producer)
        self._where = parse_url(url, SCHEME)
        self._producer = producer
        self._config = config
        self._max_kept = max_kept_bytes
        self._give_up_after = give_up_after
        self._impatient = not wait_for_server
        self._backoff = Backoff(first_wait, longest_wait, chance)
        self.changed = Signal()
        self.failure: Exception | None = None
        self.connected = False
        self.receipts = ProducerReceipts(self.changed)
        self.positions = ProducerPositions(producer)
        self._dial = partial(
            connect,
            url,
            tls=tls,
            headers=(*self.positions.headers, *as_headers(headers)),
            token=token,
            producer=producer,
            config=config,
            settings=settings or LinkSettings(idle_timeout=IDLE_TIMEOUT),
            transport=transport,
            tickets=tickets,
            early_data=early_data,
        )
        self._kept = 0
        self._reconnects = 0
        self._channels: dict[str, ProducerChannel] = {}
        self._carrying: dict[ProducerChannel, asyncio.Task[None]] = {}
        self._connection: ClientConnection | None = None
        self._closing = False
        self._task: asyncio.Task[None] | None = None

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
            await self.abort()

    async def open(self) -> None:
        """Connect; returns when the first connection is up. Raises: the error of giving up."""
        if self._task is not None:
            raise Misuse("the producer was opened before")
        self._task = asyncio.get_running_loop().create_task(self._run(), name="producer")
        try:
            await self.changed.until(lambda: self.connected or self.failure is not None)
            self.check()
        except BaseException:
            await self.abort()
            raise

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
        self.check()
        if Mode(mode) is Mode.UNRELIABLE and (start is not None or run_start is not None):
            raise Misuse(f"channel {name!r} is unreliable: it keeps no logical numbers")
        if run_start is not None and (start is None or run_start > start):
            raise Misuse(f"the run of channel {name!r} begins above its start")
        if name in self._channels:
            raise Misuse(f"the producer has a channel {name!r} already")
        limit = (self._config or DEFAULT_CONFIG).max_payload_bytes
        made = ProducerChannel(
            name, Mode(mode), as_headers(headers), start, run_start, repeats, limit, self
        )
        self._channels[name] = made
        self.changed.fire()
        return made

    @property
    def statistics(self) -> ProducerTotals:
        rows = [channel.statistics for channel in self._channels.values()]
        return ProducerTotals(
            sum(row.sent for row in rows),
            sum(row.acked for row in rows),
            sum(row.nacked for row in rows),
            sum(row.unknown for row in rows),
            sum(row.resent for row in rows),
            self._reconnects,
            self._kept,
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
        if self._task is None:
            raise Misuse("the producer was not opened")
        while True:
            await self.changed.until(lambda: self.connected or self.failure is not None)
            self.check()
            connection = self._connection
            assert connection is not None
            try:
                return await self.positions.ask(connection, name)
            except ConnectionLost:
                await self.changed.until(
                    lambda: self._connection is not connection or self.failure is not None  # noqa: B023
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
        """Flush, then close the connection in good order. Channels that are not finished can
        be continued by nobody else; finish them before.

        Raises: the error for which the producer gave up.
        """
        try:
            if self.failure is None and not self._closing:
                await self.flush()
        finally:
            await self._stop(DRAIN_TIMEOUT)

    async def abort(self) -> None:
        """Close at once; what is not acked is not stored, as far as is known."""
        if self._connection is not None:
            self._connection.abort()
        await self._stop(0.0)

    def __repr__(self) -> str:
        totals = self.statistics
        state = "connected" if self.connected else "not connected"
        return (
            f"<Producer {self._producer!r} to {self._where}, {state}, {totals.sent} sent, "
            f"{totals.acked} acked>"
        )

    # for the channels

    def room(self, size: int) -> bool:
        return self._kept == 0 or self._kept + size <= self._max_kept

    def keep(self, size: int) -> None:
        self._kept += size

    def check(self) -> None:
        if self.failure is not None:
            raise copy.copy(self.failure)

    # the connection

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        lost_at = loop.time()
        while not self._closing and self.failure is None:
            try:
                await self._use(await self._dial())
            except (ConnectFailed, ProtocolViolation) as error:
                if self._impatient:
                    self._fail(error)
                    return
                wait = self._backoff.next()
                if self._too_late(loop.time() + wait - lost_at):
                    self._fail(self._gave_up(error))
                    return
                await asyncio.sleep(wait)
                continue
            except Exception as error:  # refused for a reason that no waiting changes
                self._fail(error)
                return
            self._impatient = False
            lost_at = loop.time()
            if self.failure is None:
                self._reconnects += 1

    async def _use(self, connection: ClientConnection) -> None:
        """Carry all channels over this connection until it is lost.

        Raises: why the server did not accept it, where it did not (only with early data).
        """
        self._connection = connection

        def settled(reliable: bool, first: int, stop: int, acked: bool) -> None:
            if acked and reliable:
                self._backoff.reset()

        connection.entrypoint.observe(settled, self.changed.fire)
        connection.when_closed(self.changed.fire)
        loop = asyncio.get_running_loop()
        accepting = loop.create_task(self._await_acceptance(connection), name="acceptance")
        hearing: asyncio.Task[None] | None = None
        try:
            while connection.closed is None:
                if hearing is None and self.receipts.wanted:
                    hearing = loop.create_task(self.receipts.hear(connection), name="receipts")
                for channel in self._channels.values():
                    if not channel.finished and channel not in self._carrying:
                        self._carrying[channel] = loop.create_task(
                            self._carry(channel, connection), name=f"channel {channel.name}"
                        )
                await self.changed.wait()
        finally:
            self.connected = False
            self.receipts.refused = None
            carrying = [accepting, *self._carrying.values()]
            if hearing is not None:
                carrying.append(hearing)
            self._carrying.clear()
            for task in carrying:
                task.cancel()
            await asyncio.wait(carrying)
            if connection.closed is not None:
                refused = refusal_for_good(self._where, self._producer, connection.closed)
                if refused is not None:
                    self._fail(refused)
            self.changed.fire()
        await connection.wait_closed()
        if not self._closing:
            await connection.accepted()

    async def _await_acceptance(self, connection: ClientConnection) -> None:
        try:
            await connection.accepted()
        except AqueductError:
            return  # the connection is over, and `_use` tells why
        self.connected = True
        self.changed.fire()

    async def _carry(self, channel: ProducerChannel, connection: ClientConnection) -> None:
        """Carry one channel; a receiver that closed it gets it anew after a wait, since what it
        did not ack must still be stored."""
        backoff = Backoff(self._backoff.first, self._backoff.limit, self._backoff.chance)
        while connection.closed is None and not channel.finished:
            before = channel.statistics.acked
            try:
                await channel.carry(connection)
            except ConnectionLost:
                return
            except (ReceiverClosed, LostInTransit) as error:
                if channel.statistics.acked > before:
                    backoff.reset()
                if backoff.attempts >= CLOSED_IN_A_ROW:
                    self._fail(error)
                    return
                await asyncio.sleep(backoff.next())
            except Exception as error:  # a channel that cannot be carried must not be silent
                self._fail(error)
                return

    def _too_late(self, elapsed: float) -> bool:
        return self._give_up_after is not None and elapsed > self._give_up_after

    def _gave_up(self, last: AqueductError) -> AqueductError:
        """The last error, in the words of one who waited."""
        totals = self.statistics
        given = type(last)(
            last.subclass,
            f"{last.what}; the producer gave up after {self._give_up_after:g} s with "
            f"{totals.sent - totals.acked - totals.nacked - totals.unknown} messages not acked",
            last.remedy,
        )
        given.__cause__ = last
        return given

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        if self._connection is not None:
            self._connection.abort("the producer gives up")
        self.changed.fire()

    async def _stop(self, drain_timeout: float) -> None:
        self._closing = True
        connection, task = self._connection, self._task
        if connection is not None and connection.closed is None:
            await connection.close(drain_timeout)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if connection is not None:
            await connection.wait_closed()
        if self.failure is None:
            self.failure = Misuse("the producer is closed")
        self.changed.fire()


CLOSED_IN_A_ROW = 5
"""Times that a receiver may close a channel without acking anything before that is an error."""
