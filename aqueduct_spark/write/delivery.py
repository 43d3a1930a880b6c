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
from aqueduct_core.aqueduct.conventions.headers import CODE_NOT_REPEATABLE
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.errors import ConnectFailed, SinkFailed
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.attempt_connection import (
    ATTACH_MOST,
    MAX_OPEN_CHANNELS,
    AttemptConnection,
)
from aqueduct_spark.write.channels import RowAccount, RowRun
from aqueduct_spark.write.confirming import SentRows, not_repeatable, other_row
from aqueduct_spark.write.counts import SentCounts
from aqueduct_spark.write.destinations import Destination
from aqueduct_spark.write.ends import Ends
from aqueduct_spark.write.identity import WriteIdentity
from aqueduct_spark.write.pool import GOODBYE_SECONDS, ConnectionKey, Pool
from aqueduct_spark.write.pooled_connection import dial
from aqueduct_spark.write.rows import RowBatch

log = logging.getLogger(__name__)

TURNS = 3
"""Lost connections that an attempt may survive, for each address."""

RETURN_SECONDS = 2.0
"""After a loss, for a receiver that was restarted to answer again; together with the silence by
which a dead one is known, 5 s. What takes longer is for the next attempt of the task."""

RETRY_SECONDS = 0.1
"""Between two dials of that time."""


class Delivery:
    """Routes runs by the name of their channel; made by `open`, ended by `complete` or `give_up`.

    Holds: each row taken in has a number of its destination, whatever address it goes to, and is
    in one place only: it waits for its address here, or it is with the lane of that address until
    it is acked. What a lost connection has not acked comes back and goes before what waits, so an
    ordered destination stays in order. Success is counted in `RowAccount`, where rows are taken
    in, and not where they are sent.

    With ``failover`` an address that is lost takes nothing more in this attempt unless no other
    one answers; with ``hash`` it is dialled again.
    """

    def __init__(
        self,
        options: WriteOptions,
        identity: WriteIdentity,
        pool: Pool,
        token: str | None,
        max_open: int = MAX_OPEN_CHANNELS,
    ) -> None:
        self._options = options
        self._identity = identity
        self._pool = pool
        self._token = token
        self._max_open = max_open
        self._addresses: Sequence[HostPort] = options.endpoint.addresses
        self._accounts: dict[Destination, RowAccount] = {}
        # by slot, of which there are as many as addresses: each channel name belongs to one
        self._waiting: list[deque[RowRun]] = [deque() for _ in self._addresses]
        self._route = list(range(len(self._addresses)))
        self._lanes: dict[int, AttemptConnection] = {}
        # every row of a channel goes to one address, in each attempt
        self._alone = not self._fails_over or len(self._addresses) == 1
        self._sent = SentRows(
            identity,
            idempotence=options.idempotence,
            alone=self._alone,
            trusts=options.superseded_batch == "trust",
        )
        self._ends = Ends()
        self._lost: SinkFailed | None = None
        self._turns = TURNS * len(self._addresses)
        self._bytes = 0
        self._begun = time.monotonic()

    async def open(self) -> None:
        """Connect to every address; with ``failover`` to one at least.

        Raises:
            ConnectFailed, TlsFailed, AuthFailed, VersionMismatch, ProtocolViolation: before any
                row was sent.
        """
        for slot in range(len(self._addresses)):
            await self._lane_of(slot)

    async def send(self, portions: Sequence[RowBatch]) -> None:
        """Send portions in their order. Returns when they are on their way.

        Raises:
            SinkFailed: ACK_TIMEOUT, RECEIVER_CLOSED, LOST_IN_TRANSIT, CONNECTION_LOST.
        """
        for portion in portions:
            account = self._accounts.setdefault(portion.destination, RowAccount())
            self._bytes += portion.size
            run = RowRun(portion, account.take(len(portion.payloads)))
            self._sent.add(portion, run.first)
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
                for lane in self._lanes.values():
                    await lane.finish(channels=self._options.finish)
                done = True
            except ConnectionLost as lost:
                self._recover(lost)
        self._check_conserved()
        used = [str(self._addresses[index]) for index in sorted(self._lanes)]
        await asyncio.gather(*(self._return(lane) for lane in self._lanes.values()))
        accounts = self._accounts.values()
        return SentCounts(
            partition=self._identity.partition,
            channels=len(accounts),
            sent=sum(account.given for account in accounts),
            acked=sum(account.acked for account in accounts),
            nacked=sum(account.lost for account in accounts),
            bytes=self._bytes,
            seconds=time.monotonic() - self._begun,
            endpoints=tuple(used),
            repeated=self._sent.repeated,
            unchecked=self._sent.unchecked,
        )

    async def give_up(self) -> None:
        """Cancel all channels, so that the receivers can drop what this attempt sent."""
        lanes = list(self._lanes.values())
        self._lanes.clear()
        for lane in lanes:
            await lane.cancel()
        await asyncio.gather(
            *(lane.line.close(GOODBYE_SECONDS) for lane in lanes), return_exceptions=True
        )

    async def _send_waiting(self) -> None:
        """Return when no row waits for its address any more. What a lost connection gave back goes
        first: other addresses may be slow."""
        while slots := [slot for slot, runs in enumerate(self._waiting) if runs]:
            slot = min(slots, key=lambda slot: self._route[slot] in self._lanes)
            waiting = self._waiting[slot]
            try:
                lane = await self._lane_of(slot)
                starts, count = self._next_channels(waiting)
                await lane.open(starts)
                for _ in range(count):
                    await lane.room(waiting[0].portion.size)
                    self._sent.goes(waiting[0].portion, lane.line.address)
                    await lane.send(waiting.popleft())  # from here on the lane answers for it
            except ConnectionLost as lost:
                self._recover(lost)

    def _next_channels(self, waiting: deque[RowRun]) -> tuple[dict[Destination, int], int]:
        """The channels to open next, each with its first row, and how many runs they are for: up to
        a run that does not go on where the one before it ended, for which the channel has to be
        opened again."""
        most = min(ATTACH_MOST, self._max_open)
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

    async def _confirm(self) -> None:
        """Ask every address that is to be asked; one that is lost before is dialled again.

        With ``failover`` one that was lost and does not answer is passed over: its rows are acked,
        and count as unchecked.
        """
        for address in self._sent.unasked:
            index = self._addresses.index(address)
            try:
                lane = self._lanes.get(index) or await self._again(partial(self._dial, index))
            except ConnectFailed as failure:
                if self._alone:
                    raise self._not_again(failure) from None
                log.warning("%s; what it has stored is not compared", failure.what)
                self._sent.passes(address)
            else:
                await self._sent.ask(lane.line, self._options.ack_timeout, self._ends)

    async def _settle(self) -> None:
        """Wait until every row that was sent has its outcome.

        All addresses at once: what is too late at one of them must not wait for another.
        """
        waits = [asyncio.ensure_future(lane.settled()) for lane in self._lanes.values()]
        try:
            await asyncio.gather(*waits)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def _recover(self, lost: ConnectionLost) -> None:
        """What lost connections have not acked waits again, before what was never sent."""
        self._ends.mended()
        gone = [(index, lane) for index, lane in self._lanes.items() if lane.lost is not None]
        if not gone:
            raise lost
        for index, lane in gone:
            self._recover_lane(index, lane, lane.lost or lost)

    def _recover_lane(self, index: int, lane: AttemptConnection, lost: ConnectionLost) -> None:
        self._lost = self._connection_lost(lane, lost)
        self._turns -= 1
        if self._turns < 0 or self._lost.subclass == "NOT_REPEATABLE":
            raise self._lost from None
        log.warning("%s; going on", lost)
        del self._lanes[index]
        self._sent.loses(lane.line.address)
        self._pool.discard(self._key(lane.line.address))
        for run in reversed(lane.abandon()):
            self._waiting[self._slot_of(run)].appendleft(run)
        if self._fails_over and not lane.stale:
            following = (index + 1) % len(self._addresses)
            self._route = [following if held == index else held for held in self._route]

    async def _lane_of(self, slot: int) -> AttemptConnection:
        """The lane that takes the rows of a slot now, connected if need be.

        Raises:
            ConnectFailed: no address that may take them answers, and none was connected before.
            SinkFailed: CONNECTION_LOST, and none answers any more.
        """
        lane = self._lanes.get(self._route[slot])
        if lane is not None:
            return lane
        try:
            return await self._again(partial(self._connect, slot))
        except ConnectFailed as failure:
            raise failure if self._lost is None else self._not_again(failure) from None

    async def _again(
        self, connect: Callable[[float | None], Awaitable[AttemptConnection]]
    ) -> AttemptConnection:
        """Connect; after a loss for ``RETURN_SECONDS``, again and again.

        Raises: ConnectFailed, and what ended at other addresses.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + RETURN_SECONDS
        while True:
            try:
                return await connect(None if self._lost is None else RETURN_SECONDS)
            except ConnectFailed:
                if self._lost is None or loop.time() >= until:
                    raise
            async with self._ends.watched(None):
                await asyncio.sleep(RETRY_SECONDS)

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
            if index not in self._lanes:
                try:
                    await self._dial(index, seconds)
                except ConnectFailed as error:
                    failure = error
                    continue
            self._route = [index if held == self._route[slot] else held for held in self._route]
            return self._lanes[index]
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
        options, writer, address = self._options, self._identity.writer, self._addresses[index]
        until = None if seconds is None else asyncio.get_running_loop().time() + seconds
        try:
            async with self._ends.watched(until):
                line = await self._pool.lease(
                    self._key(address),
                    lambda: dial(address, options, token=self._token, writer=writer),
                )
        except TimeoutError:
            raise ConnectFailed(
                "TIMEOUT",
                f"aqueduct://{address} did not answer within {seconds:g} s",
                "Check the receiver and its log",
            ) from None
        self._sent.meets(line)
        lane = AttemptConnection(
            line, options, self._identity, self._accounts, self._ends, self._max_open
        )
        self._lanes[index] = lane
        return lane

    async def _return(self, lane: AttemptConnection) -> None:
        line = lane.line
        if self._options.keeps_connections and line.alive:
            self._pool.give_back(self._key(line.address), line)
        else:
            await line.close(self._options.ack_timeout)

    def _key(self, address: HostPort) -> ConnectionKey:
        writer = self._identity.writer
        return ConnectionKey.of(address, self._options, token=self._token, writer=writer)

    @property
    def _fails_over(self) -> bool:
        return self._options.endpoint_policy == "failover"

    def _slot_of(self, run: RowRun) -> int:
        return zlib.crc32(run.destination.channel.encode()) % len(self._addresses)

    def _connection_lost(self, lane: AttemptConnection, lost: ConnectionLost) -> SinkFailed:
        refused = lost.by_peer and lost.origin is CloseOrigin.APPLICATION
        if refused and lost.code == CODE_NOT_REPEATABLE:
            where = f"aqueduct://{lane.line.address}"
            what = f"{where} refused it: {lost.reason}"
            if self._options.by_source:
                return other_row(what)
            return not_repeatable(self._identity, what)
        return SinkFailed(
            "CONNECTION_LOST",
            f"aqueduct://{lane.line.address}: {lost.what}",
            "Check the receiver and its log; rows that were not acked are sent again by the next "
            "attempt",
        )

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
