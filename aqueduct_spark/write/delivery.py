"""The rows of one task attempt to the addresses of its endpoint, all acked at the end."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Sequence

from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aqueduct.conventions import CODE_NOT_REPEATABLE
from aqueduct_core.errors import ConnectFailed, SinkFailed
from aqueduct_spark.model.values import Address
from aqueduct_spark.model.write_options import WriteOptions
from aqueduct_spark.write.channels import Tally
from aqueduct_spark.write.confirming import Sent, not_repeatable
from aqueduct_spark.write.counts import SentCounts
from aqueduct_spark.write.destinations import Destination
from aqueduct_spark.write.identity import WriteIdentity
from aqueduct_spark.write.lane import ATTACH_MOST, MAX_OPEN_CHANNELS, Lane
from aqueduct_spark.write.line import dial
from aqueduct_spark.write.pool import GOODBYE_SECONDS, LineKey, Pool
from aqueduct_spark.write.rows import Portion

log = logging.getLogger(__name__)

TURNS = 3
"""Lost connections that an attempt may survive, for each address."""


class Delivery:
    """Routes portions by the name of their channel; made by `open`, ended by `complete` or
    `give_up`.

    Holds: each row has a number of its destination, whatever address it goes to; a copy of what
    is not acked (at most ``maxInFlightBytes`` for each address), which is what fail-over sends to
    the next address. An address that is lost takes nothing more in this attempt unless no other
    one answers.
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
        self._addresses: Sequence[Address] = options.endpoint.addresses
        self._route = list(range(len(self._addresses)))
        self._lanes: dict[int, Lane] = {}
        self._numbers: dict[Destination, int] = {}
        self._sent = Sent(identity, keyed=options.idempotence == "headers")
        self._tally = Tally()
        self._bytes = 0
        self._turns = TURNS * len(self._addresses)
        self._begun = time.monotonic()

    async def open(self) -> None:
        """Connect to every address; with ``failover`` to one at least.

        Raises:
            ConnectFailed, TlsFailed, AuthFailed, VersionMismatch, ProtocolViolation: before any
                row was sent.
        """
        for slot in range(len(self._addresses)):
            if self._route[slot] not in self._lanes:
                await self._connect(self._others(slot) if self._fails_over else [slot], {slot})

    async def send(self, portions: Sequence[Portion]) -> None:
        """Send portions in their order. Returns when they are on their way.

        Raises:
            SinkFailed: ACK_TIMEOUT, RECEIVER_CLOSED, LOST_IN_TRANSIT, CONNECTION_LOST.
            ConnectFailed: and no other address answers either.
        """
        numbered: dict[int, list[tuple[Portion, int]]] = {}
        for portion in portions:
            destination = portion.destination
            first = self._numbers.get(destination, 0)
            self._numbers[destination] = first + len(portion.payloads)
            self._bytes += portion.size
            self._sent.add(portion, first)
            slot = self._slot(destination)
            numbered.setdefault(slot, []).append((portion, first))
        for slot, items in numbered.items():
            await self._send_to(slot, items)

    async def complete(self) -> SentCounts:
        """Wait until every message has its outcome, and end the channels as ``finish`` says.

        Raises:
            SinkFailed: as `send`, and LOSS_ABOVE_LIMIT, NOT_REPEATABLE.
        """
        while True:
            lane = None
            try:
                for lane in list(self._lanes.values()):
                    await lane.settled()
                break
            except ConnectionLost as lost:
                assert lane is not None
                await self._turn(lane, lost)
        self._check_loss()
        for index, lane in self._lanes.items():
            try:
                await self._sent.ask(
                    lane.line,
                    [to for to in self._numbers if self._route[self._slot(to)] == index],
                    self._options.ack_timeout,
                    alone=len(self._addresses) == 1 or not self._fails_over,
                )
                await lane.finish(channels=self._options.finish)
            except ConnectionLost as lost:
                raise self._lost(lane, lost) from None
            self._tally.add(lane.tally)
        used = [str(self._addresses[index]) for index in sorted(self._lanes)]
        await asyncio.gather(*(self._return(lane) for lane in self._lanes.values()))
        total = self._tally
        return SentCounts(
            partition=self._identity.partition,
            channels=len(self._numbers),
            sent=total.sent,
            acked=total.acked,
            nacked=total.lost,
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

    @property
    def _fails_over(self) -> bool:
        return self._options.endpoint_policy == "failover"

    async def _send_to(self, slot: int, items: list[tuple[Portion, int]]) -> None:
        most = min(ATTACH_MOST, self._max_open)
        position = 0
        while position < len(items):
            lane = self._lanes[self._route[slot]]
            chunk = items[position : position + most]
            try:
                # of several portions of one channel the first says where it begins
                await lane.open({portion.destination: first for portion, first in reversed(chunk)})
                for portion, first in chunk:
                    await lane.room(portion.size)
                    position += 1  # from here on the lane answers for it
                    await lane.send(portion, first)
            except ConnectionLost as lost:
                await self._turn(lane, lost)

    async def _turn(self, lane: Lane, lost: ConnectionLost) -> None:
        """Go on elsewhere with what a lost connection has not acked, or raise."""
        index = next(i for i, held in self._lanes.items() if held is lane)
        again = lane.stale
        self._turns -= 1
        refused = lost.code == CODE_NOT_REPEATABLE
        if refused or self._turns < 0 or not (self._fails_over or again):
            raise self._lost(lane, lost) from None
        log.warning("%s; going on", lost)
        del self._lanes[index]
        unsettled = lane.abandon()
        self._tally.add(lane.tally)
        slots = {slot for slot, held in enumerate(self._route) if held == index}
        others = [other for other in self._others(index) if other != index]
        if again:
            candidates = [index, *(others if self._fails_over else ())]
        else:
            candidates = [*others, index]
        await self._connect(candidates, slots)
        if all(self._route[slot] != index for slot in slots):
            self._sent.moved(to for to in self._numbers if self._slot(to) in slots)
        for slot in slots:
            mine = [
                (portion, first)
                for portion, first in unsettled
                if self._slot(portion.destination) == slot
            ]
            await self._send_to(slot, mine)

    def _slot(self, destination: Destination) -> int:
        return zlib.crc32(destination.channel.encode()) % len(self._addresses)

    def _others(self, index: int) -> list[int]:
        """All addresses, beginning with this one."""
        count = len(self._addresses)
        return [(index + step) % count for step in range(count)]

    async def _connect(self, candidates: Sequence[int], slots: set[int]) -> None:
        """Route ``slots`` to the first candidate that answers."""
        failure: ConnectFailed | None = None
        for index in candidates:
            if index not in self._lanes:
                try:
                    self._lanes[index] = await self._lane(self._addresses[index])
                except ConnectFailed as error:
                    failure = error
                    continue
            for slot in slots:
                self._route[slot] = index
            return
        assert failure is not None
        if len(self._addresses) == 1:
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

    async def _lane(self, address: Address) -> Lane:
        options, writer = self._options, self._identity.writer
        line = await self._pool.lease(
            LineKey.of(address, options, token=self._token, writer=writer),
            lambda: dial(address, options, token=self._token, writer=writer),
        )
        return Lane(line, options, self._identity, self._max_open)

    async def _return(self, lane: Lane) -> None:
        line, options = lane.line, self._options
        if options.keeps_connections and line.alive:
            key = LineKey.of(line.address, options, token=self._token, writer=self._identity.writer)
            self._pool.give_back(key, line)
        else:
            await line.close(options.ack_timeout)

    def _lost(self, lane: Lane, lost: ConnectionLost) -> SinkFailed:
        if lost.code == CODE_NOT_REPEATABLE and lost.by_peer:
            where = f"aqueduct://{lane.line.address}"
            return not_repeatable(self._identity, f"{where} refused it: {lost.reason}")
        return SinkFailed(
            "CONNECTION_LOST",
            f"aqueduct://{lane.line.address}: {lost.what}",
            "Check the receiver and its log; rows that were not acked are sent again by the next "
            "attempt",
        )

    def _check_loss(self) -> None:
        lost, sent = self._tally.lost, self._tally.unreliable
        for lane in self._lanes.values():
            lost += lane.unreliable.lost
            sent += lane.unreliable.unreliable
        if sent and lost / sent > self._options.max_loss_ratio:
            raise SinkFailed(
                "LOSS_ABOVE_LIMIT",
                f"{lost} of {sent} unreliable messages were lost; 'maxLossRatio' is "
                f"{self._options.max_loss_ratio:g}",
                "Send them as unordered, or raise 'maxLossRatio'",
            )
