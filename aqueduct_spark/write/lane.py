"""The way of one task attempt over one line: bounded channels, bounded bytes, bounded waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aqueduct_core.aio.halves import Sender, channel
from aqueduct_core.aio.outcomes import (
    ConnectionLost,
    LostInTransit,
    Misuse,
    Outcome,
    ReceiverClosed,
)
from aqueduct_core.aio.signal import Signal
from aqueduct_core.errors import SinkFailed
from aqueduct_spark.model.write_options import WriteOptions
from aqueduct_spark.write.channels import Channel, Flight, Tally
from aqueduct_spark.write.destinations import Destination
from aqueduct_spark.write.identity import WriteIdentity
from aqueduct_spark.write.line import Line, Slot, finish_all
from aqueduct_spark.write.rows import Portion

MAX_OPEN_CHANNELS = 2048
"""Open at once on a connection. With more names than that, the one not used for longest is finished
and opened again when a row for it comes; far below what peers allow."""

ATTACH_MOST = 64
"""Channels that one entrypoint message carries."""

MAX_FLIGHTS = 8192
"""Portions without an outcome: bounds what tiny ones cost apart from their bytes."""


class Lane:
    """Sends portions over a line and knows what became of each.

    Every wait is bounded by ``ackTimeout``: for room, for credit, for acks. Ends by `finish` or
    `cancel`; when the connection is lost, by `abandon`, and what has no outcome is `unsettled`.
    """

    def __init__(
        self,
        line: Line,
        options: WriteOptions,
        identity: WriteIdentity,
        max_open: int = MAX_OPEN_CHANNELS,
    ) -> None:
        self.line = line
        self._options = options
        self._identity = identity
        self._max_open = max_open
        self._keyed = line.needs_keys(options.idempotence)
        self._channels: dict[Destination, Channel] = {}
        self._ending: dict[asyncio.Task[None], Channel] = {}
        self._flights: deque[Flight] = deque()
        self._in_flight = 0
        self._changed = Signal()
        self._failure: Outcome | None = None
        self._tally = Tally()
        self._untouched = True

    @property
    def stale(self) -> bool:
        """The connection was an old one, and nothing shows that the peer still knew it."""
        return self.line.reused and self._untouched

    async def open(self, starts: dict[Destination, int]) -> None:
        """Open channels, each for rows from its start on, at most ``ATTACH_MOST`` of them.

        Raises: as `send`.
        """
        missing = {d: row for d, row in starts.items() if not self._usable(d, row)}
        if not missing:
            return
        # rows of one channel stay in order only when the part before has arrived
        olds = [self._channels.pop(d) for d in missing if d in self._channels]
        olds += [c for c in self._ending.values() if c.destination in missing]
        for old in olds:
            await self._until_clear(old)
            self._retire(old)
        await self._make_room(len(missing), keep=starts)
        receivers = []
        for destination, row in missing.items():
            headers = self._identity.channel_headers(destination, row)
            sender, receiver = channel(
                destination.reliability, name=destination.channel, headers=headers
            )
            opened = Channel(destination, sender, row, self._freed, self._ended)
            slot = Slot(self._identity.partition, destination)
            left = self.line.channels.pop(slot, None)  # of an earlier batch: all acked
            if left is not None:
                self._end(left)
            self.line.channels[slot] = sender
            self._channels[destination] = opened
            receivers.append(receiver)
        async with self._bounded():
            await self.line.connection.entrypoint.send(b"", attach=receivers)

    async def send(self, portion: Portion, first: int) -> None:
        """Send a portion, of which the first is row ``first`` of its destination, on its channel.

        Returns when it is on its way. When it raises, the portion is among the `unsettled`.

        Raises:
            ConnectionLost: the line is over.
            SinkFailed: ACK_TIMEOUT, RECEIVER_CLOSED, LOST_IN_TRANSIT, CANCELLED.
        """
        opened = self._channels[portion.destination]
        flight = opened.launch(portion, first, _now())
        self._flights.append(flight)
        self._in_flight += flight.size
        slot = Slot(self._identity.partition, portion.destination)
        self.line.channels.move_to_end(slot)
        sender = opened.sender
        async with self._bounded():
            for headers, payloads in self._identity.messages(portion, self._keyed):
                if headers:
                    await sender.send(payloads[0], headers=headers)
                else:
                    await sender.send_many(payloads)

    async def room(self, size: int) -> None:
        """Return when ``size`` more bytes may be in flight. Raises: as `send`."""
        most = self._options.max_in_flight_bytes
        self._check()
        while self._flights and (
            self._in_flight + size > most or len(self._flights) >= MAX_FLIGHTS
        ):
            await self._progress()

    async def settled(self) -> None:
        """Return when every message has its outcome. Raises: as `send`."""
        self._check()
        while self._flights:
            await self._progress()

    async def finish(self, *, channels: bool) -> None:
        """End the attempt after `settled`: with ``channels``, tell that no more rows come and
        return when the receivers know. Raises: as `send`."""
        senders = []
        if channels:
            for slot, sender in list(self.line.channels.items()):
                if slot.destination in self._channels and slot.partition == self._partition:
                    senders.append(sender)
                    del self.line.channels[slot]
        async with self._bounded():
            await finish_all(senders)
            while self._ending:
                await asyncio.wait(self._ending)
        self._check()
        for opened in self._channels.values():
            self._tally.add(opened.tally())
        self._channels.clear()

    async def cancel(self) -> None:
        """Give up: the receivers may drop what they have not read of this attempt."""
        for opened in self._channels.values():
            try:
                await opened.sender.cancel()
            except Exception:
                continue  # it has ended already, or was finished: nothing to cancel
        self._stop()

    def abandon(self) -> list[tuple[Portion, int]]:
        """The connection is lost: what may not have arrived, to be sent elsewhere, each with its
        first row. Everything else is in `tally` now."""
        opened = [*self._ending.values(), *self._channels.values()]
        unsettled = [item for one in opened for item in one.unsettled()]
        for one in opened:
            self._tally.add(one.tally())
        self._channels.clear()
        self._stop()
        return unsettled

    @property
    def tally(self) -> Tally:
        """Of the channels that have ended."""
        return self._tally

    @property
    def unreliable(self) -> Tally:
        """Of all unreliable channels until now."""
        total = Tally(lost=self._tally.lost, unreliable=self._tally.unreliable)
        for opened in (*self._channels.values(), *self._ending.values()):
            if not opened.destination.reliable:
                total.add(opened.tally())
        return total

    @property
    def _partition(self) -> int:
        return self._identity.partition

    def _usable(self, destination: Destination, row: int) -> bool:
        opened = self._channels.get(destination)
        return opened is not None and opened.next == row

    async def _make_room(self, count: int, keep: dict[Destination, int]) -> None:
        """Finish the channels not used for longest until ``count`` more may be open."""
        channels = self.line.channels
        for slot in list(channels):
            if len(channels) + len(self._ending) + count <= self._max_open:
                return
            if slot.partition == self._partition and slot.destination in keep:
                continue
            sender = channels.pop(slot)
            opened = self._channels.get(slot.destination)
            if opened is not None and opened.sender is sender:
                del self._channels[slot.destination]
                self._retire(opened)
            else:
                self._end(sender)
        while self._ending and len(channels) + len(self._ending) + count > self._max_open:
            await self._progress()

    def _retire(self, opened: Channel) -> None:
        """Finish a channel of this attempt while others go on."""
        if opened in self._ending.values():
            return
        self.line.channels.pop(Slot(self._partition, opened.destination), None)
        task = asyncio.create_task(opened.sender.finish())
        self._ending[task] = opened

        def over(done: asyncio.Task[None]) -> None:
            if self._ending.pop(done, None) is not None:
                self._tally.add(opened.tally())
            if not done.cancelled():
                done.exception()  # `_ended` has told it
            self._changed.fire()

        task.add_done_callback(over)

    def _end(self, sender: Sender) -> None:
        """Finish a channel that an earlier attempt left open; all of it is acked."""
        task = asyncio.ensure_future(sender.finish())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _until_clear(self, opened: Channel) -> None:
        while not opened.clear:
            await self._progress()

    def _freed(self, size: int) -> None:
        if size:
            self._untouched = False
        self._in_flight -= size
        while self._flights and self._flights[0].done:
            self._flights.popleft()
        self._changed.fire()

    def _ended(self, failure: Outcome | None) -> None:
        self._failure = self._failure or failure
        self._changed.fire()

    async def _progress(self) -> None:
        """Wait for news of messages on their way, no longer than the oldest may wait."""
        self._check()
        since = _now()
        if self._flights:
            oldest = self._flights[0]
            oldest.channel.look()
            if oldest.done:
                return
            since = max(oldest.since, oldest.channel.progress)
        try:
            async with asyncio.timeout_at(since + self._options.ack_timeout):
                await self._changed.wait()
        except TimeoutError:
            raise self._too_late() from None
        self._check()

    def _check(self) -> None:
        if not self.line.alive:
            raise self.line.lost()
        if self._failure is not None:
            raise as_sink_failure(self._failure)

    @asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._options.ack_timeout):
                yield
        except TimeoutError:
            raise self._too_late() from None
        except ConnectionLost:
            raise
        except (ReceiverClosed, LostInTransit, Misuse) as error:
            raise as_sink_failure(error) from None

    def _too_late(self) -> SinkFailed:
        waiting = sum(len(flight.portion.payloads) for flight in self._flights)
        return SinkFailed(
            "ACK_TIMEOUT",
            f"{waiting} messages to aqueduct://{self.line.address} were not acked within "
            f"{self._options.ack_timeout:g} s",
            "Check the receiver, or raise 'ackTimeout'",
        )

    def _stop(self) -> None:
        for task in list(self._ending):
            task.cancel()
        self._ending.clear()
        self._flights.clear()
        self._in_flight = 0


def as_sink_failure(error: Exception) -> Exception:
    """What ended a channel, as an error of the sink; a lost connection stays what it is."""
    match error:
        case ReceiverClosed():
            return SinkFailed("RECEIVER_CLOSED", error.what, error.remedy)
        case LostInTransit():
            return SinkFailed("LOST_IN_TRANSIT", error.what, error.remedy)
        case Misuse():
            return SinkFailed("CANCELLED", str(error), "Look for the first error of the task")
    return error


def _now() -> float:
    return asyncio.get_running_loop().time()
