"""The rows of one task attempt to the addresses of its endpoint, all acked at the end."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.errors import ConnectFailed, SinkFailed
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.batches import Destination, RowAccount, RowBatch, RowRun
from aqueduct_spark.write.dial_wait import DialWait
from aqueduct_spark.write.ends import AttemptEnds
from aqueduct_spark.write.pool import GOODBYE_SECONDS
from aqueduct_spark.write.sink import AttemptConnection, SentCounts, SinkProtocol

log = logging.getLogger(__name__)

LOSSES = 3
"""Lost connections that an attempt may survive, for each address."""

FINAL = ("NOT_REPEATABLE", "MESSAGE_TOO_LARGE")
"""Why connections are lost that to send the same rows again would lose as well."""

RETURN_SECONDS = 2.0
"""After a loss, for a receiver that was restarted to answer again, and for each dial of that time;
together with the silence by which a dead one is known, 5 s. A ``connectTimeout`` above it holds
after a loss as well."""

RETRY_SECONDS = 0.1
"""Between two dials of that time."""

LONGEST_RETRY_SECONDS = 1.0
"""Between two dials of an endpoint that has not answered for `RETURN_SECONDS`, or never did; the
pauses double up to it."""


class Delivery:
    """Routes runs by the name of their channel; made by `open`, ended by `complete` or `give_up`.

    Holds: each row taken in has a number of its destination, whatever address it goes to, and is
    in one place only: it waits for its address here, or it is with the connection to that address
    until it is acked. What a lost connection has not acked comes back and goes before what waits,
    so an ordered destination stays in order. Success is counted in `RowAccount`, where rows are
    taken in, and not where they are sent.

    With ``failover`` an address that is lost takes nothing more in this attempt unless no other
    one answers; with ``hash`` it is dialled again.
    """

    def __init__(self, options: WriteOptions, partition: int, protocol: SinkProtocol) -> None:
        self._options = options
        self._partition = partition
        self._protocol = protocol
        self._addresses: Sequence[HostPort] = options.endpoint.addresses
        self._accounts: dict[Destination, RowAccount] = {}
        # by slot, of which there are as many as addresses: each channel name belongs to one
        self._waiting: list[deque[RowRun]] = [deque() for _ in self._addresses]
        self._route = list(range(len(self._addresses)))
        self._connections: dict[int, AttemptConnection] = {}
        self._ends = AttemptEnds()
        self._lost: SinkFailed | None = None
        self._dial_until: float | None = None
        self._losses_left = LOSSES * len(self._addresses)
        self._bytes = 0
        self._begun = time.monotonic()

    async def open(self) -> None:
        """Connect to every address; with ``failover`` to one at least.

        Raises:
            ConnectFailed, TlsFailed, AuthFailed, VersionMismatch, ProtocolViolation: before any
                row was sent.
        """
        for slot in range(len(self._addresses)):
            await self._connection_of(slot)

    async def send(self, batches: Sequence[RowBatch]) -> None:
        """Send batches in their order. Returns when they are on their way.

        Raises:
            SinkFailed: ACK_TIMEOUT, RECEIVER_CLOSED, LOST_IN_TRANSIT, CONNECTION_LOST.
        """
        for batch in batches:
            account = self._accounts.setdefault(batch.destination, RowAccount())
            self._bytes += batch.size
            run = RowRun(batch, account.take(len(batch.payloads)))
            self._protocol.take(batch, run.first)
            self._waiting[self._slot_of(run)].append(run)
        await self._send_waiting()

    async def complete(self) -> SentCounts:
        """Wait until every row has its outcome, and end the channels as ``finish`` says.

        Raises:
            SinkFailed: as `send`, LOSS_ABOVE_LIMIT, NOT_REPEATABLE, and ROWS_MISSING where not
                every row that was taken in is acked, or known to be lost where it is unreliable.
        """
        done = False
        while not done:
            try:
                await self._send_waiting()
                await self._settle()
                self._check_loss()
                await self._confirm()
                for connection in self._connections.values():
                    await connection.finish(channels=self._options.finish)
                done = True
            except ConnectionLost as lost:
                self._recover(lost)
        self._check_conserved()
        used = [str(self._addresses[index]) for index in sorted(self._connections)]
        await asyncio.gather(*map(self._protocol.release, self._connections.values()))
        accounts = self._accounts.values()
        return SentCounts(
            partition=self._partition,
            channels=len(accounts),
            sent=sum(account.given for account in accounts),
            acked=sum(account.acked for account in accounts),
            nacked=sum(account.lost for account in accounts),
            bytes=self._bytes,
            seconds=time.monotonic() - self._begun,
            endpoints=tuple(used),
            repeated=self._protocol.repeated,
            unchecked=self._protocol.unchecked,
        )

    async def give_up(self) -> None:
        """Cancel all channels, so that the receivers can drop what this attempt sent."""
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            await connection.cancel()
        await asyncio.gather(
            *(each.close(GOODBYE_SECONDS) for each in connections), return_exceptions=True
        )

    async def _send_waiting(self) -> None:
        """Return when no row waits for its address any more. What a lost connection gave back goes
        first: other addresses may be slow."""
        while slots := [slot for slot, runs in enumerate(self._waiting) if runs]:
            slot = min(slots, key=lambda slot: self._route[slot] in self._connections)
            waiting = self._waiting[slot]
            try:
                connection = await self._connection_of(slot)
                starts, count = _next_channels(waiting, connection.open_most)
                await connection.open(starts)
                for _ in range(count):
                    await connection.room(waiting[0].batch.size)
                    await connection.send(waiting.popleft())
            except ConnectionLost as lost:
                self._recover(lost)

    async def _confirm(self) -> None:
        """Ask every address that is to be asked; one that is lost before is dialled again.

        With ``failover`` one that was lost and does not answer is passed over: its rows are acked,
        and count as unchecked.
        """
        for address in self._protocol.unconfirmed:
            index = self._addresses.index(address)
            try:
                connection = self._connections.get(index) or await self._again(
                    partial(self._dial, index)
                )
            except ConnectFailed as failure:
                if self._options.one_way:
                    raise self._not_again(failure) from None
                log.warning("%s; what it has stored is not compared", failure.what)
                self._protocol.pass_over(address)
            else:
                await connection.confirm()

    async def _settle(self) -> None:
        """Wait until every row that was sent has its outcome.

        All addresses at once: what is too late at one of them must not wait for another.
        """
        waits = [asyncio.ensure_future(each.settled()) for each in self._connections.values()]
        try:
            await asyncio.gather(*waits)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def _recover(self, lost: ConnectionLost) -> None:
        """What lost connections have not acked waits again, before what was never sent."""
        self._ends.mended()
        gone = [(index, each) for index, each in self._connections.items() if each.lost is not None]
        if not gone:
            raise lost
        for index, connection in gone:
            self._recover_from(index, connection, connection.lost or lost)

    def _recover_from(
        self, index: int, connection: AttemptConnection, lost: ConnectionLost
    ) -> None:
        self._lost = self._protocol.lost(connection, lost)
        self._losses_left -= 1
        if self._losses_left < 0 or self._lost.subclass in FINAL:
            raise self._lost from None
        log.warning("%s; going on", lost)
        del self._connections[index]
        for run in reversed(connection.abandon()):
            self._waiting[self._slot_of(run)].appendleft(run)
        if self._fails_over and not connection.stale:
            following = (index + 1) % len(self._addresses)
            self._route = [following if held == index else held for held in self._route]

    async def _connection_of(self, slot: int) -> AttemptConnection:
        """The connection that takes the rows of a slot now, made if need be.

        Raises:
            ConnectFailed: no address that may take them answers, and none was connected before.
            SinkFailed: CONNECTION_LOST, and none answers any more.
        """
        connection = self._connections.get(self._route[slot])
        if connection is not None:
            return connection
        try:
            return await self._again(partial(self._connect, slot))
        except ConnectFailed as failure:
            raise failure if self._lost is None else self._not_again(failure) from None

    async def _again(
        self, connect: Callable[[float | None], Awaitable[AttemptConnection]]
    ) -> AttemptConnection:
        """Connect, again and again: for ``connectTimeout`` from the first dial of the attempt, and
        from each loss, there for ``RETURN_SECONDS`` at least.

        Raises: ConnectFailed, and what ended at other addresses.
        """
        loop = asyncio.get_running_loop()
        allowed, lost = self._options.connect_timeout, self._lost is not None
        if self._dial_until is None:
            self._dial_until = loop.time() + allowed
        begun, pause = loop.time(), RETRY_SECONDS
        until = begun + max(RETURN_SECONDS, allowed) if lost else self._dial_until
        with DialWait(str(self._options.endpoint)) as wait:
            while True:
                try:
                    return await connect(RETURN_SECONDS if lost else None)
                except ConnectFailed as failure:
                    wait.failure = failure
                    if loop.time() >= until:
                        if not allowed:
                            raise
                        raise wait.over("connectTimeout") from None
                async with self._ends.watched(None):
                    await asyncio.sleep(pause)
                if not lost or loop.time() - begun >= RETURN_SECONDS:
                    pause = min(2 * pause, LONGEST_RETRY_SECONDS)

    def _not_again(self, failure: ConnectFailed) -> SinkFailed:
        """An address that was lost does not answer any more."""
        assert self._lost is not None
        return SinkFailed(
            self._lost.subclass, f"{self._lost.what}; then {failure.what}", self._lost.remedy
        )

    async def _connect(self, slot: int, seconds: float | None = None) -> AttemptConnection:
        """Route a slot to the first address that may take it and answers."""
        count = len(self._addresses)
        candidates = [(self._route[slot] + step) % count for step in range(count)]
        failure: ConnectFailed | None = None
        for index in candidates if self._fails_over else candidates[:1]:
            if index not in self._connections:
                try:
                    await self._dial(index, seconds)
                except ConnectFailed as error:
                    failure = error
                    continue
            self._route = [index if held == self._route[slot] else held for held in self._route]
            return self._connections[index]
        assert failure is not None
        if count == 1:
            raise failure
        if self._fails_over:
            raise ConnectFailed(
                failure.subclass,
                f"no address of {self._options.endpoint} answers; the last one: {failure.what}",
                failure.remedy,
            )
        raise ConnectFailed(
            failure.subclass,
            f"{failure.what}; endpointPolicy=hash sends its channels to no other address",
            f"{failure.remedy}, or set endpointPolicy=failover",
        )

    async def _dial(self, index: int, seconds: float | None) -> AttemptConnection:
        address = self._addresses[index]
        until = None if seconds is None else asyncio.get_running_loop().time() + seconds
        try:
            async with self._ends.watched(until):
                connection = await self._protocol.connect(address, self._accounts, self._ends)
        except TimeoutError:
            raise ConnectFailed(
                "TIMEOUT",
                f"{self._options.endpoint.url(address)} did not answer within {seconds:g} s",
                "Check the receiver and its log",
            ) from None
        self._connections[index] = connection
        return connection

    @property
    def _fails_over(self) -> bool:
        return self._options.endpoint_policy == "failover"

    def _slot_of(self, run: RowRun) -> int:
        return zlib.crc32(run.destination.channel.encode()) % len(self._addresses)

    def _check_loss(self) -> None:
        unreliable = [a for d, a in self._accounts.items() if not d.reliable]
        lost, sent = sum(a.lost for a in unreliable), sum(a.given for a in unreliable)
        if sent and lost / sent > self._options.max_loss_ratio:
            raise SinkFailed(
                "LOSS_ABOVE_LIMIT",
                f"{lost} of {sent} unreliable messages were lost; 'maxLossRatio' is "
                f"{self._options.max_loss_ratio:g}",
                "Send them as unordered, or raise 'maxLossRatio'",
            )

    def _check_conserved(self) -> None:
        """Does not ask how the rows went: whatever that was, this has to hold."""
        for destination, account in self._accounts.items():
            if not account.settled or (destination.reliable and account.lost):
                raise SinkFailed(
                    "ROWS_MISSING",
                    f"Of {account.given} rows for channel '{destination.channel}' "
                    f"({destination.reliability}) {account.acked} were acked and {account.lost} "
                    "lost",
                    "This is a fault of the sink: report it; the next attempt sends the rows again",
                )


def _next_channels(waiting: deque[RowRun], most: int) -> tuple[dict[Destination, int], int]:
    """The destinations to open next, at most so many, each with its first row, and how many runs
    they are for: up to a run that does not go on where the one before it ended, for which its
    destination has to be opened again."""
    starts: dict[Destination, int] = {}
    stops: dict[Destination, int] = {}
    count = 0
    for run in waiting:
        destination = run.destination
        if destination not in starts and len(starts) == most:
            break
        if stops.get(destination, run.first) != run.first:
            break
        starts.setdefault(destination, run.first)
        stops[destination] = run.stop
        count += 1
    return starts, count
