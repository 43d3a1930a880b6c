"""The way of one task attempt over one line: rows as packets, within the window, until each is
acked."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.errors import SinkFailed
from aqueduct_core.intake.telehash.marks import marked
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import ChannelClosed, CloseReason
from aqueduct_core.telehash.faults import PacketTooLarge, TelehashError
from aqueduct_spark.formats.telehash.options import TelehashWrite
from aqueduct_spark.formats.telehash.sink.channels import RowChannel
from aqueduct_spark.formats.telehash.sink.columns import PacketRows, no_js, too_large
from aqueduct_spark.formats.telehash.sink.line import KeptChannel, SinkLine
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.batches import Destination, RowAccount, RowRun
from aqueduct_spark.write.ends import AttemptEnds
from aqueduct_spark.write.sink import WriteIdentity

MAX_OPEN_CHANNELS = 256
"""Open at once on a line. With more types than that, the channel not used for longest ends, and
another one is opened when a row of its type comes; far below what peers allow."""

GAVE_UP = "the sender gave up"
"""The ``err`` of a failed attempt."""


class HeldRow(NamedTuple):
    """The last row that was taken in for a destination: it is sent when it is known whether another
    one follows, as the channel ends with its last row."""

    run: RowRun
    place: int


class TelehashAttempt:
    """Sends runs over a line, and knows what became of each row (`AttemptConnection`).

    A row is acked when the peer's application has processed it. Every wait is bounded by an
    ``ackTimeout`` in which nothing was acked, and ends with whatever ended at any address of the
    attempt (`AttemptEnds`).
    """

    def __init__(
        self,
        line: SinkLine,
        options: WriteOptions,
        identity: WriteIdentity,
        accounts: Mapping[Destination, RowAccount],
        ends: AttemptEnds,
        max_open: int = MAX_OPEN_CHANNELS,
    ) -> None:
        own: TelehashWrite = options.own
        self.line = line
        self._options = options
        self._identity = identity
        self._accounts = accounts
        self._ends = ends
        self._max_open = max_open
        self._keeps = own.keep_channel
        self._timeout = own.channel_timeout
        self._open: OrderedDict[Destination, RowChannel] = OrderedDict()
        self._by_number: dict[int, tuple[Destination, RowChannel]] = {}
        self._held: dict[Destination, HeldRow] = {}
        self._runs: dict[Destination, deque[RowRun]] = {}
        self._lost: ConnectionLost | None = None
        self._untouched = True
        self._moved = line.now
        line.user = self

    @property
    def address(self) -> HostPort:
        return self.line.address

    @property
    def lost(self) -> ConnectionLost | None:
        """How the line ended, if it did."""
        return self._lost

    @property
    def stale(self) -> bool:
        """The line was an old one, and nothing shows that the peer still knew it."""
        return self.line.reused and self._untouched

    @property
    def open_most(self) -> int:
        return self._max_open

    async def open(self, starts: Mapping[Destination, int]) -> None:
        """A channel begins with its first row: it stands in the packet that opens it (T1)."""
        self._check()

    async def room(self, size: int) -> None:
        """What bounds it are the windows of the channels, packet by packet."""
        self._check()

    async def send(self, run: RowRun) -> None:
        """Send a run, but for the last row where the channel may end with it. Returns when the rest
        is on its way.

        Raises:
            ConnectionLost: the line is over.
            SinkFailed: ACK_TIMEOUT, RECEIVER_CLOSED, MESSAGE_TOO_LARGE.
        """
        destination = run.destination
        self._runs.setdefault(destination, deque()).append(run)
        for place in range(len(run.batch.payloads)):
            held = self._held.pop(destination, None)
            if held is not None:
                await self._put(held, end=False)
            if self._keeps:
                await self._put(HeldRow(run, place), end=False)
            else:
                self._held[destination] = HeldRow(run, place)
        self.line.kick()

    async def settled(self) -> None:
        """Return when every row was acked, and so is the end of each channel that ends with one.
        Raises: as `send`."""
        while self._held:
            await self._end_channel(next(iter(self._held)))
        self.line.kick()
        self._check()
        while self._unacked:
            await self._progress()

    async def finish(self, *, channels: bool) -> None:
        """End the attempt after `settled`. Channels that are kept go on with the next one."""
        for destination, channel in self._open.items():
            self.line.kept[destination.channel] = KeptChannel(channel.number, channel.next)
        self._stop()

    async def confirm(self) -> None:
        """An ack says all that there is to say."""

    async def cancel(self) -> None:
        """Give up: the peer may drop what it has of this attempt (P6)."""
        for number in self._by_number:
            with suppress(TelehashError):
                self._engine.fail(number, GAVE_UP, self.line.now)
        self.line.kick()
        self._stop()

    async def close(self, seconds: float) -> None:
        """End the line in good order; at once when that takes longer."""
        await self.line.close(seconds)

    def abandon(self) -> list[RowRun]:
        """The line is lost: the rows that are not acked, in order for each destination."""
        runs = [
            RowRun(run.batch.part(low - run.first, high - run.first), low)
            for destination, sent in self._runs.items()
            for run in sent
            for low, high in self._accounts[destination].acked_rows.missing(run.first, run.stop)
        ]
        self._stop()
        return runs

    # what the line tells (`LineUser`)

    def acked(self, channel: int, upto: int) -> None:
        found = self._by_number.get(channel)
        if found is None:
            return
        destination, opened = found
        if opened.acked(upto):
            self._untouched = False
            self._note_moved()
            self._forget_acked(destination)

    def closed(self, event: ChannelClosed) -> None:
        found = self._by_number.get(event.channel)
        if found is None:
            return
        destination, channel = found
        if self._open.get(destination) is channel:
            del self._open[destination]
        if not channel.unacked:
            del self._by_number[event.channel]
        elif event.reason is CloseReason.TIMED_OUT and not self.line.known_to_last:
            # a peer that is gone, or was started again and knows no such channel, acks as little
            why = f"none of {channel.unacked} packets was acked for {self._timeout:g} s"
            asyncio.get_running_loop().call_soon(self.line.lose, why)
        elif event.reason is not CloseReason.LOST:
            self._ends.note(self._failure(event, destination.channel, channel.unacked))

    def lost_line(self, how: ConnectionLost) -> None:
        self._lost = how
        self._ends.note(how)

    # the inside

    async def _put(self, held: HeldRow, *, end: bool) -> None:
        """Send one row, as soon as the window of its channel has room; the first one of a channel
        opens it."""
        run, place = held
        rows = run.batch
        assert isinstance(rows, PacketRows)
        destination, row = run.destination, run.first + place
        js = self._js(None if rows.js is None else rows.js[place], row)
        body = rows.payloads[place]
        end = end or (rows.ends is not None and rows.ends[place])
        if not end and not body and js is not None and list(js) == ["end"] and js["end"] is True:
            raise no_js(rows.rows[place], _LIKE_AN_END)
        channel = await self._with_room(destination)
        if not self._unacked:
            self._note_moved()
        try:
            if channel is None:
                channel = self._begin(destination, js, body, end)
            else:
                end = end or channel.exhausted
                self._engine.send(channel.number, js=js, body=body, end=end, now=self.line.now)
        except PacketTooLarge as error:
            raise too_large(rows.rows[place], error.size, error.limit) from None
        except ValueError as error:
            raise no_js(rows.rows[place], f"cannot be sent: {error}") from None
        except TelehashError as error:
            raise SinkFailed("CONNECTION_LOST", f"{self.line.url}: {error}", _AGAIN) from None
        channel.sent(row)
        if end:
            del self._open[destination]
        else:
            self._open.move_to_end(destination)

    async def _with_room(self, destination: Destination) -> RowChannel | None:
        """The channel of a destination, once a packet may go on it; None: one is to be opened."""
        while True:
            self._check(whole=True)
            channel = self._channel_of(destination)
            unused = next((each for each in self._open if each in self._held), None)
            if channel is None and len(self._open) >= self._max_open and unused is not None:
                await self._end_channel(unused)
            elif channel is None or self._engine.room(channel.number):
                return channel
            else:
                self.line.kick()
                await self._progress(whole=True)

    def _channel_of(self, destination: Destination) -> RowChannel | None:
        """Open here, or kept by an earlier attempt."""
        channel = self._open.get(destination)
        kept = self.line.kept.pop(destination.channel, None) if channel is None else None
        if kept is not None:
            channel = RowChannel(kept.channel, self._accounts[destination], kept.seq)
            self._add(destination, channel)
        return channel

    def _begin(
        self, destination: Destination, js: dict[str, Any] | None, body: bytes, end: bool
    ) -> RowChannel:
        number = self._engine.open(
            destination.channel, reliable=True, js=js, body=body, end=end, now=self.line.now
        )
        channel = RowChannel(number, self._accounts[destination])
        self._add(destination, channel)
        return channel

    def _add(self, destination: Destination, channel: RowChannel) -> None:
        self._open[destination] = channel
        self._by_number[channel.number] = destination, channel

    async def _end_channel(self, destination: Destination) -> None:
        """Send the row that was held back, with which its channel ends."""
        held = self._held.pop(destination, None)
        if held is not None:
            await self._put(held, end=True)

    def _js(self, own: dict[str, Any] | None, row: int) -> dict[str, Any] | None:
        """With who the row is: the same in each attempt to send it."""
        identity = self._identity
        if not identity.numbered:
            return own
        mark = marked(identity.writer, identity.batch, identity.partition, row)
        return {**(own or {}), **mark}

    @property
    def _engine(self) -> TelehashEngine:
        return self.line.engine

    @property
    def _unacked(self) -> int:
        return sum(channel.unacked for _, channel in self._by_number.values())

    def _note_moved(self) -> None:
        self._moved = self.line.now

    def _forget_acked(self, destination: Destination) -> None:
        runs = self._runs[destination]
        low = self._accounts[destination].acked_rows.lowest_missing(runs[0].first if runs else 0)
        while runs and runs[0].stop <= low:
            runs.popleft()

    async def _progress(self, *, whole: bool = False) -> None:
        """Wait until the line has learnt something, no longer than ``ackTimeout`` after something
        was acked last. ``whole``: as of `AttemptEnds.watched`."""
        self._check(whole=whole)
        until = self._moved + self._options.ack_timeout
        try:
            async with self._ends.watched(until, whole=whole):
                await self.line.changed.wait()
        except TimeoutError:
            raise self._too_late() from None
        self._check(whole=whole)

    def _check(self, *, whole: bool = False) -> None:
        self._ends.check(whole=whole)
        if self._lost is not None:
            raise self._lost

    def _too_late(self) -> SinkFailed:
        return SinkFailed(
            "ACK_TIMEOUT",
            f"{self._unacked} packets to {self.line.url} were not acked within "
            f"{self._options.ack_timeout:g} s",
            _SLOW.format(option="ackTimeout"),
        )

    def _failure(self, event: ChannelClosed, type: str, unacked: int) -> SinkFailed:
        on = f"{self.line.url}, channel of type '{type}' with {unacked} packets not acked"
        if event.reason is CloseReason.TIMED_OUT:
            return SinkFailed(
                "ACK_TIMEOUT",
                f"{on}: none was acked for {self._timeout:g} s",
                _SLOW.format(option="channelTimeout"),
            )
        if event.reason is CloseReason.FAILED and not event.by_peer:
            return SinkFailed(  # it fitted when it was sent, and has to be sent again
                "MESSAGE_TOO_LARGE",
                f"{on}: {event.err}",
                "Write smaller values, or send them again",
            )
        said = f"with err '{event.err}'" if event.err else "before it had all"
        return SinkFailed(
            "RECEIVER_CLOSED",
            f"{on}: the peer ended it {said}",
            "See why, and whether it takes this type; the next attempt sends the rows again",
        )

    def _stop(self) -> None:
        self.line.user = None
        self._open.clear()
        self._by_number.clear()
        self._held.clear()
        self._runs.clear()


_LIKE_AN_END = "would end the channel: so telehash-js writes an end; column end is for it"
_AGAIN = "Check the receiver and its log; the next attempt sends the rows again"
_SLOW = (
    "Check that the receiver takes packets; one that acks what its query has committed needs short "
    "triggers, or ackLevel=stored; or raise '{option}'"
)
