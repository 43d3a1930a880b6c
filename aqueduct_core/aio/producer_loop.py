"""The connections of a producer, one at a time: dialled again when one is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.delivery_watch import OutageNotices
from aqueduct_core.aio.outcomes import ConnectionLost, LostInTransit, Misuse, ReceiverClosed
from aqueduct_core.aio.producer_carrier import ChannelCarrier
from aqueduct_core.aio.producer_state import ProducerState
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.errors import AqueductError, ConnectFailed, ProtocolViolation
from aqueduct_core.escape import escaped
from aqueduct_core.primitives.backoff import Backoff

CLOSED_IN_A_ROW = 5
"""Times that a receiver may close a channel without acking anything before that is an error."""


_logger = logging.getLogger(__name__)


class ReconnectLoop:
    """Keeps a connection up that carries all channels, until the producer is closed or gives up.

    ``dial`` makes a connection to ``server``; ``refused`` says what a server that closed it has
    against the producer, if no new connection changes that. ``impatient``: the first connection
    must come about at once; ``give_up_after``: seconds without a connection, None for ever.
    """

    def __init__(
        self,
        server: str,
        producer: ProducerState,
        carriers: Mapping[str, ChannelCarrier],
        *,
        dial: Callable[[], Awaitable[ClientConnection]],
        refused: Callable[[Closed], AqueductError | None],
        backoff: Backoff,
        give_up_after: float | None,
        impatient: bool,
    ) -> None:
        self.connection: ClientConnection | None = None
        self.reconnects = 0
        self._notices = OutageNotices(server)
        self._producer = producer
        self._carriers = carriers
        self._dial = dial
        self._refused = refused
        self._backoff = backoff
        self._give_up_after = give_up_after
        self._impatient = impatient
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._carrying: dict[ChannelCarrier, asyncio.Task[None]] = {}

    @property
    def started(self) -> bool:
        return self._task is not None

    @property
    def closing(self) -> bool:
        return self._closing

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="producer")

    async def stop(self, drain_timeout: float) -> None:
        """Close the connection in good order, for so long at most, and dial no more."""
        self._closing = True
        connection, task = self.connection, self._task
        if connection is not None and connection.closed is None:
            await connection.close(drain_timeout=drain_timeout)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if connection is not None:
            await connection.wait_closed()
        self._producer.fail(Misuse("the producer is closed"))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        lost_at = loop.time()
        while not self._closing and not self._producer.failed:
            try:
                connection = await self._dial()
                self._tell(self._notices.connected(loop.time()))
                await self._use(connection)
            except (ConnectFailed, ProtocolViolation) as error:
                if self._impatient:
                    self._fail(error)
                    return
                wait = self._backoff.next()
                limit = self._give_up_after
                if limit is not None and loop.time() + wait - lost_at > limit:
                    self._fail(self._gave_up(error, limit))
                    return
                self._tell(self._notices.failed(loop.time(), error.what, since=lost_at))
                await asyncio.sleep(wait)
                continue
            except Exception as error:  # refused for a reason that no waiting changes
                self._fail(error)
                return
            self._impatient = False
            lost_at = loop.time()
            if not self._producer.failed:
                self.reconnects += 1

    async def _use(self, connection: ClientConnection) -> None:
        """Carry all channels over this connection until it is lost.

        Raises: why the server did not accept it, where it did not (only with early data).
        """
        self.connection = connection
        producer, loop = self._producer, asyncio.get_running_loop()
        connection.entrypoint.observe(self._settled, producer.changed.fire)
        connection.when_closed(producer.changed.fire)
        accepting = loop.create_task(self._await_acceptance(connection), name="acceptance")
        hearing: asyncio.Task[None] | None = None
        try:
            while connection.closed is None:
                if hearing is None and producer.receipts.wanted:
                    hearing = loop.create_task(producer.receipts.hear(connection), name="receipts")
                for name, carrier in self._carriers.items():
                    if not carrier.finished and carrier not in self._carrying:
                        self._carrying[carrier] = loop.create_task(
                            self._carry(carrier, connection), name=f"channel {name}"
                        )
                await producer.changed.wait()
        finally:
            producer.connected = False
            producer.receipts.refused = None
            tasks = [accepting, *self._carrying.values()]
            if hearing is not None:
                tasks.append(hearing)
            self._carrying.clear()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            if connection.closed is not None:
                refused = self._refused(connection.closed)
                if refused is not None:
                    self._fail(refused)
            producer.changed.fire()
        await connection.wait_closed()
        if not self._closing:
            await connection.accepted()

    def _tell(self, line: str | None) -> None:
        if line is not None:
            _logger.warning("%s", escaped(line))

    def _settled(self, reliable: bool, first: int, stop: int, acked: bool) -> None:
        """The server took a message that carried a channel: it is there, and well."""
        if acked and reliable:
            self._backoff.reset()

    async def _await_acceptance(self, connection: ClientConnection) -> None:
        try:
            await connection.accepted()
        except AqueductError:
            return  # the connection is over, and `_use` raises why
        self._producer.connected = True
        self._producer.changed.fire()

    async def _carry(self, carrier: ChannelCarrier, connection: ClientConnection) -> None:
        """Carry one channel; a receiver that closed it gets it anew after a wait, since what it
        did not ack must still be stored."""
        backoff = Backoff(self._backoff.first, self._backoff.limit, self._backoff.chance)
        while connection.closed is None and not carrier.finished:
            before = carrier.statistics().acked
            try:
                await carrier.carry(connection)
            except ConnectionLost:
                return
            except (ReceiverClosed, LostInTransit) as error:
                if carrier.statistics().acked > before:
                    backoff.reset()
                if backoff.attempts >= CLOSED_IN_A_ROW:
                    self._fail(error)
                    return
                await asyncio.sleep(backoff.next())
            except Exception as error:  # a channel that cannot be carried must not be silent
                self._fail(error)
                return

    def _gave_up(self, last: AqueductError, after: float) -> AqueductError:
        """The last error, in the words of one who waited."""
        left = sum(each.statistics().pending - each.unknown for each in self._carriers.values())
        given = type(last)(
            last.subclass,
            f"{last.what}; the producer gave up after {after:g} s with {left} messages not acked",
            last.remedy,
        )
        given.__cause__ = last
        return given

    def _fail(self, error: Exception) -> None:
        self._producer.failure = self._producer.failure or error
        if self.connection is not None:
            self.connection.abort("the producer gives up")
        self._producer.changed.fire()
