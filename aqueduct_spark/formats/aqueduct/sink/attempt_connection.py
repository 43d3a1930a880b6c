"""The way of one task attempt over one connection: bounded channels, bytes and waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aqueduct_core.aio.halves import Sender, channel
from aqueduct_core.aio.outcomes import (
    ConnectionLost,
    LostInTransit,
    Misuse,
    Outcome,
    OverLimit,
    ReceiverClosed,
)
from aqueduct_core.errors import SinkFailed
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.transport.awaiting import Signal
from aqueduct_spark.formats.aqueduct.sink.channels import AttemptChannel, InFlightBatch
from aqueduct_spark.formats.aqueduct.sink.confirming import SentRows
from aqueduct_spark.formats.aqueduct.sink.connection import AqueductConnection, ChannelSlot
from aqueduct_spark.formats.aqueduct.sink.identity import RowIdentity
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.batches import Destination, RowAccount, RowBatch, RowRun
from aqueduct_spark.write.ends import AttemptEnds

MAX_OPEN_CHANNELS = 2048
"""Open at once on a connection. With more names than that, the one not used for longest is finished
and opened again when a row for it comes; far below what peers allow."""

ATTACH_MOST = 64
"""Channels that one entrypoint message carries."""

MAX_IN_FLIGHT = 8192
"""Runs without an outcome: bounds what tiny ones cost apart from their bytes."""

LOOKS = 4
"""So often in an ``ackTimeout`` the path is looked at: has it taken anything?"""


class AqueductAttempt:
    """Sends runs over a connection and knows what became of each (`AttemptConnection`).

    Every wait, for room, for credit, for acks, is bounded by an ``ackTimeout`` in which no message
    had an outcome and the path took nothing, and ends with whatever ended at any address of the
    attempt (`AttemptEnds`); it may be begun anew then. Ends by `finish` or `cancel`; when the
    connection is lost, by `abandon`, which says what is to be sent elsewhere.
    """

    def __init__(
        self,
        pooled: AqueductConnection,
        options: WriteOptions,
        identity: RowIdentity,
        sent: SentRows,
        accounts: Mapping[Destination, RowAccount],
        ends: AttemptEnds,
        max_open: int = MAX_OPEN_CHANNELS,
    ) -> None:
        self.pooled = pooled
        self._sent = sent
        self._options = options
        self._identity = identity
        self._accounts = accounts
        self._ends = ends
        self._max_open = max_open
        self._keyed = pooled.needs_keys(options.idempotence)
        self._channels: dict[Destination, AttemptChannel] = {}
        self._ending: dict[AttemptChannel, asyncio.Task[None]] = {}
        self._in_flight: deque[InFlightBatch] = deque()
        self._in_flight_bytes = 0
        self._changed = Signal()
        self._lost: ConnectionLost | None = None
        self._untouched = True
        self._stopped = False
        self._carried = pooled.connection.bytes_delivered
        self._moved = 0.0

    @property
    def address(self) -> HostPort:
        return self.pooled.address

    @property
    def open_most(self) -> int:
        return min(ATTACH_MOST, self._max_open)

    @property
    def stale(self) -> bool:
        """The connection was an old one, and nothing shows that the peer still knew it."""
        return self.pooled.reused and self._untouched

    @property
    def lost(self) -> ConnectionLost | None:
        """How the connection ended, if it did."""
        return self._lost if self.pooled.alive else self.pooled.lost()

    async def open(self, starts: Mapping[Destination, int]) -> None:
        """Open channels, each for rows from its start on, at most ``ATTACH_MOST`` of them.

        Raises: as `send`.
        """
        missing = {d: row for d, row in starts.items() if not self._usable(d, row)}
        if not missing:
            return
        for old in [self._channels.pop(d) for d in missing if d in self._channels]:
            self._retire(old)
        for old in [c for c in self._ending if c.destination in missing]:
            # rows of one channel stay in order only when the part before has arrived
            while old.destination.reliability == "ordered" and not old.clear:
                await self._progress()
        await self._make_room(len(missing), keep=starts)
        receivers = []
        for destination, row in missing.items():
            headers = self._identity.channel_headers(destination, row)
            sender, receiver = channel(
                destination.reliability, name=destination.channel, headers=headers
            )
            account = self._accounts[destination]
            opened = AttemptChannel(destination, account, sender, row, self._freed, self._ended)
            slot = ChannelSlot(self._identity.partition, destination)
            left = self.pooled.channels.pop(slot, None)  # of an earlier batch: all acked
            if left is not None:
                self._end(left)
            self.pooled.channels[slot] = sender
            self._channels[destination] = opened
            receivers.append(receiver)
        try:
            async with self._bounded():
                await self.pooled.connection.entrypoint.send(b"", attach=receivers)
        except BaseException:
            for destination in missing:  # nobody has got them
                del self.pooled.channels[ChannelSlot(self._identity.partition, destination)]
                await self._channels.pop(destination).sender.cancel()
            raise

    async def send(self, run: RowRun) -> None:
        """Send a run on the channel of its destination, which is open for its first row.

        Returns when it is on its way. When it raises ConnectionLost, `abandon` returns what of it
        has not arrived.

        Raises:
            ConnectionLost: the connection is over.
            SinkFailed: ACK_TIMEOUT, RECEIVER_CLOSED, LOST_IN_TRANSIT, CANCELLED, ROWS_MISSING.
        """
        self._sent.goes(run.batch, self.address)
        if not run.batch.payloads:
            return
        opened = self._channels[run.destination]
        sent = opened.launch(run, _now())
        self._in_flight.append(sent)
        self._in_flight_bytes += sent.size
        slot = ChannelSlot(self._identity.partition, run.destination)
        self.pooled.channels.move_to_end(slot)
        sender = opened.sender
        async with self._bounded(whole=True):
            for headers, payloads in self._identity.messages(run.batch, self._keyed):
                await sender.send_many(payloads, headers=headers)

    async def room(self, size: int) -> None:
        """Return when ``size`` more bytes may be in flight. Raises: as `send`."""
        most = self._options.max_in_flight_bytes
        self._check()
        while self._in_flight and (
            self._in_flight_bytes + size > most or len(self._in_flight) >= MAX_IN_FLIGHT
        ):
            await self._progress()

    async def settled(self) -> None:
        """Return when every message has its outcome. Raises: as `send`."""
        self._check()
        while self._in_flight:
            await self._progress()

    async def finish(self, *, channels: bool) -> None:
        """End the attempt after `settled`: with ``channels``, finish these and
        return when the receivers know. Raises: as `send`."""
        if channels:
            for opened in self._channels.values():
                self._retire(opened)
            self._channels.clear()
        while self._ending:
            await self._progress()
        self._channels.clear()

    async def confirm(self) -> None:
        """Raises: as `SentRows.ask`."""
        await self._sent.ask(self.pooled, self._ends)

    async def close(self, seconds: float) -> None:
        """End the connection in good order; at once when that takes longer."""
        await self.pooled.close(seconds)

    async def cancel(self) -> None:
        """Give up: the receivers may drop what they have not read of this attempt."""
        for opened in self._channels.values():
            try:
                await opened.sender.cancel()
            except Exception:
                continue  # it has ended already, or was finished: nothing to cancel
        self._stop()

    def abandon(self) -> list[RowRun]:
        """The connection is lost: what is to be sent elsewhere, in order for each destination.

        Where channels are finished at the end, a channel whose rows are all acked is among it as a
        run of none, so that its receiver is told the end on the next connection.
        """
        opened = [*self._ending, *self._channels.values()]
        runs = [run for one in opened for run in one.abandon()]
        if self._options.finish:
            again = {run.destination for run in runs}
            last = {one.destination: one for one in opened if one.destination not in again}
            runs += [
                RowRun(RowBatch(one.destination, [], []), one.next)
                for one in last.values()
                if not one.over
            ]
        self._channels.clear()
        self._stop()
        return runs

    @property
    def _partition(self) -> int:
        return self._identity.partition

    def _usable(self, destination: Destination, row: int) -> bool:
        opened = self._channels.get(destination)
        return opened is not None and opened.next == row

    async def _make_room(self, count: int, keep: Mapping[Destination, int]) -> None:
        """Finish the channels not used for longest, as many as it takes to open ``count`` more."""
        channels = self.pooled.channels
        for slot in list(channels):
            if len(channels) + count <= self._max_open:
                break
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

    def _retire(self, opened: AttemptChannel) -> None:
        """Finish a channel of this attempt while others go on. It stays among those that end until
        it has ended in good order: until then its rows are ours to answer for."""
        self.pooled.channels.pop(ChannelSlot(self._partition, opened.destination), None)
        task = asyncio.create_task(opened.sender.finish())
        self._ending[opened] = task

        def over(done: asyncio.Task[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._ending.pop(opened, None)
            self._changed.fire()

        task.add_done_callback(over)

    def _end(self, sender: Sender) -> None:
        """Finish a channel that an earlier attempt left open; all of it is acked."""
        task = asyncio.ensure_future(sender.finish())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _freed(self, size: int) -> None:
        if size:
            self._untouched = False
        self._in_flight_bytes -= size
        while self._in_flight and self._in_flight[0].done:
            self._in_flight.popleft()
        self._changed.fire()

    def _ended(self, failure: Outcome | None) -> None:
        if failure is not None and not self._stopped:
            if isinstance(failure, ConnectionLost):
                self._lost = failure
                failure = self.lost or failure
            self._ends.note(as_sink_failure(failure))
        self._changed.fire()

    async def _progress(self) -> None:
        """Wait for an outcome of messages on their way, no longer than the oldest may wait."""
        self._check()
        since = _now()
        if self._in_flight:
            oldest = self._in_flight[0]
            oldest.channel.look()
            if oldest.done:
                return
            since = max(oldest.since, oldest.channel.progress)
        try:
            async with self._watched(since):
                await self._changed.wait()
        except TimeoutError:
            raise self._too_late() from None
        self._check()

    def _check(self, *, whole: bool = False) -> None:
        self._ends.check(whole=whole)
        if self.lost is not None:
            raise self.lost

    @asynccontextmanager
    async def _bounded(self, *, whole: bool = False) -> AsyncIterator[None]:
        """Wait in the block as `_watched` does, with errors as the attempt has them."""
        self._check(whole=whole)
        try:
            async with self._watched(_now(), whole=whole):
                yield
        except TimeoutError:
            raise self._too_late() from None
        except ConnectionLost:
            self._check(whole=whole)
            raise
        except (ReceiverClosed, LostInTransit, Misuse) as error:
            raise as_sink_failure(error) from None

    @asynccontextmanager
    async def _watched(self, since: float, *, whole: bool = False) -> AsyncIterator[None]:
        """Wait in the block for as long as all is well (`AttemptEnds.watched`), and until
        ``ackTimeout`` after ``since`` or after the path took something last, which is seen a little
        later."""
        loop, most = asyncio.get_running_loop(), self._options.ack_timeout
        timer: asyncio.TimerHandle | None = None
        self._look()
        async with self._ends.watched(max(since, self._moved) + most, whole=whole) as wait:

            def look() -> None:
                nonlocal timer
                self._look()
                until = wait.when()
                if until is not None and loop.time() < until < self._moved + most:
                    wait.reschedule(self._moved + most)
                timer = loop.call_later(most / LOOKS, look)

            timer = loop.call_later(most / LOOKS, look)
            try:
                yield
            finally:
                if timer is not None:
                    timer.cancel()

    def _look(self) -> None:
        carried = self.pooled.connection.bytes_delivered
        if carried > self._carried:
            self._moved = _now()
        self._carried = carried

    def _too_late(self) -> SinkFailed:
        waiting = sum(len(sent.run.batch.payloads) for sent in self._in_flight)
        url = self._options.endpoint.url(self.address)
        what = (
            f"{waiting} messages to {url} were not acked"
            if waiting
            else (f"{url} did not confirm that channels were opened or finished")
        )
        return SinkFailed(
            "ACK_TIMEOUT",
            f"{what} within {self._options.ack_timeout:g} s, in which the path took nothing more",
            "Check that the receiver reads and has room, or raise 'ackTimeout'",
        )

    def _stop(self) -> None:
        self._stopped = True
        for task in self._ending.values():
            task.cancel()
        self._ending.clear()
        self._in_flight.clear()
        self._in_flight_bytes = 0


def _now() -> float:
    return asyncio.get_running_loop().time()


def as_sink_failure(error: Exception) -> Exception:
    """What ended a channel, as an error of the sink; a lost connection stays what it is."""
    match error:
        case ReceiverClosed():
            return SinkFailed("RECEIVER_CLOSED", error.what, error.remedy)
        case LostInTransit():
            return SinkFailed("LOST_IN_TRANSIT", error.what, error.remedy)
        case OverLimit():
            what = f"A row is too large: {error}"
            return SinkFailed("MESSAGE_TOO_LARGE", what, "Split it, or leave some of it out")
        case Misuse():
            return SinkFailed("CANCELLED", str(error), "Look for the first error of the task")
    return error
