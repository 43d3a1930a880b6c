"""One networked connection below the asyncio API: the engine's commands and its events.

``NetworkConnection`` owns the tables of senders' and receivers' states, hands the engine's events
to them, and makes local channels networked when one of their halves leaves in a message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aqueduct_core.aio.local_channel import LocalChannel
from aqueduct_core.aio.message import CarriedHalves, abandon
from aqueduct_core.aio.outcomes import (
    Cancelled,
    ConnectionLost,
    Finished,
    LostInTransit,
    Outcome,
    Overflowed,
    ReceiverClosed,
)
from aqueduct_core.aio.receive_state import ReceiveState
from aqueduct_core.aio.remote_channel import TURN_MESSAGES, RemoteSink, RemoteSource
from aqueduct_core.aio.send_state import SendState
from aqueduct_core.aio.signal import Signal
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.events import (
    Closed,
    DatagramsUnavailable,
    Delivered,
    Dropped,
    End,
    Ended,
    Event,
    Idle,
    Ignored,
    Nacked,
    Numbered,
    Opened,
    Rerouted,
    Writable,
)
from aqueduct_core.aqueduct.faults import ConnectionOver
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.engine.message_batch import Headers, MessageBatch
from aqueduct_core.escape import escaped
from aqueduct_core.transport.driver import Driver

_logger = logging.getLogger(__name__)

HIGH_WATER = 1024 * 1024
"""Bytes unsent in the transport above which senders wait: some round trips' worth, and small
enough that an ack does not wait behind seconds of data."""


class NetworkConnection:
    """The network side of one connection.

    Ends with the events ``Closed``: every half that is still open then has ``ConnectionLost``.
    ``on_opened`` is called with the peer's connection headers, ``on_closed`` at the end.
    """

    def __init__(
        self,
        engine: AqueductEngine,
        on_opened: Callable[[Headers], None],
        on_closed: Callable[[Closed], None],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.engine = engine
        self.driver: Driver | None = None
        self.closed: Closed | None = None
        self.datagrams = True
        self.idle = 0
        self.outlets: dict[int, SendState] = {}
        self.inlets: dict[int, ReceiveState] = {}
        self._on_opened = on_opened
        self.when_closed = [on_closed]
        self._progress = Signal()
        self._fresh = self._given = self._messages = 0
        self._turning = False
        self._blocked: set[SendState] = set()
        self._unblocking: asyncio.Task[None] | None = None
        if engine.side is chanid.Side.CLIENT:
            self.entrypoint: SendState | ReceiveState = self._outlet(chanid.ENTRYPOINT, ())
        else:
            self.entrypoint = self._inlet(chanid.ENTRYPOINT, ())

    def now(self) -> float:
        return self.loop.time()

    def kick(self) -> None:
        """Let the driver run at the end of this turn of the event loop."""
        if self.driver is not None:
            self.driver.kick()
            if not self._turning:
                self._turning = True
                self.loop.call_soon(self._turned)

    def gave(self, size: int, messages: int = 1) -> None:
        """``size`` bytes went to the engine; the link counts them only after the turn."""
        self._fresh += size
        self._given += size
        self._messages += messages

    @property
    def carried(self) -> int:
        """About how many bytes of messages have left this end and arrived at the other host: it
        rises while the path takes anything, acked by the peer's application or not."""
        unsent = 0 if self.driver is None else self.driver.unsent
        return self._given - self._fresh - unsent

    def shutdown(self, code: int, reason: str) -> None:
        """Close the connection at once, with what the engine has in hand."""
        if self.closed is None:
            try:
                self.engine.shutdown(code, reason, self.now())
            except ConnectionOver:
                pass
            self.kick()

    async def drained(self) -> None:
        """Return when every message sent has an outcome and every finish is complete, or the
        connection is over."""
        await self._progress.until(lambda: self.closed is not None or not self._pending())

    def events(self, driver: Driver, events: list[Event]) -> None:
        """Take the engine's events of one burst."""
        self.driver = driver
        for item in events:
            if isinstance(item, MessageBatch):
                self._arrived(item)
            elif isinstance(item, Delivered):
                outlet = self.outlets.get(item.channel)
                if outlet is not None:
                    outlet.settled(item.reliable, item.first, item.stop, item.acked)
            elif isinstance(item, Ended):
                self._ended(item)
            elif isinstance(item, Rerouted):
                outlet = self.outlets.get(item.channel)
                if outlet is not None:
                    outlet.ledger.rerouted(item.datagram, item.reliable)
            elif isinstance(item, Numbered | Dropped | Writable):
                self._sent_later(item)
            elif isinstance(item, Nacked):
                inlet = self.inlets.get(item.channel)
                if inlet is not None:
                    inlet.nacked += item.stop - item.first
            elif isinstance(item, Opened):
                self._on_opened(item.headers)
            elif isinstance(item, DatagramsUnavailable):
                self.datagrams = False
            elif isinstance(item, Idle):
                self.idle += 1
                _logger.info("nothing happens on channel %d any more", item.channel)
            elif isinstance(item, Ignored):
                _logger.info("from the peer, ignored: %s", escaped(item.reason))
            elif isinstance(item, Closed):
                self._closed(item)
        if self._blocked:
            self._unblock()
        self._progress.fire()

    # what outlets and inlets ask for

    def full(self, outlet: SendState) -> bool:
        """Whether the transport holds enough, or this turn has brought enough; ``outlet.changed``
        fires when it does no more."""
        driver = self.driver
        if driver is None or (
            driver.unsent + self._fresh < HIGH_WATER and self._messages < TURN_MESSAGES
        ):
            return False
        self.block(outlet)
        return True

    def hold(self, outlet: SendState) -> None:
        """Fire ``outlet.changed`` when events come: acks make room in a table that is full."""
        self._blocked.add(outlet)

    def block(self, outlet: SendState) -> None:
        """Fire ``outlet.changed`` when the transport has room or events come."""
        self._blocked.add(outlet)
        if self._unblocking is None and self.closed is None:
            self._unblocking = self.loop.create_task(self._await_room())

    def bind(self, traveller: CarriedHalves, channel: int) -> None:
        """A local half has left as the channel of this id: the half that stays is networked."""
        traveller.aboard = False
        assert isinstance(traveller, SendState | ReceiveState)
        pipe = traveller.sink if isinstance(traveller, SendState) else traveller.source
        assert isinstance(pipe, LocalChannel)
        if isinstance(traveller, ReceiveState):
            self._bind_outlet(pipe.outlet, pipe.inlet, channel)
        else:
            self._bind_inlet(pipe.outlet, pipe.inlet, channel)

    @property
    def unacked(self) -> int:
        """Messages that were sent and have no outcome."""
        return sum(outlet.ledger.open for outlet in self.outlets.values())

    def _pending(self) -> bool:
        """A cancelled sender waits for CLOSE_RECEIVER too: its CANCEL_SENDER has arrived then."""
        return any(
            outlet.finishing or outlet.cancelled or outlet.ledger.open
            for outlet in self.outlets.values()
        )

    def _turned(self) -> None:
        """The driver's turn, asked for before this call, is over."""
        self._turning = False
        self._fresh = self._messages = 0

    def _outlet(self, channel: int, headers: Headers) -> SendState:
        outlet = SendState(self.loop, headers, oneshot=chanid.oneshot(channel), channel=channel)
        outlet.sink = RemoteSink(self, outlet, channel)
        self.outlets[channel] = outlet
        return outlet

    def _inlet(self, channel: int, headers: Headers) -> ReceiveState:
        inlet = ReceiveState(self.loop, headers, oneshot=chanid.oneshot(channel), channel=channel)
        inlet.source = RemoteSource(self, inlet, channel)
        self.inlets[channel] = inlet
        return inlet

    def _bind_outlet(self, outlet: SendState, left: ReceiveState, channel: int) -> None:
        queue = left.surrender()
        for queued in queue:
            outlet.ledger.space(queued.run.reliable).rewind(queued.count)
        outlet.channel = channel
        outlet.sink = sink = RemoteSink(self, outlet, channel)
        self.outlets[channel] = outlet
        if not sink.take_over(queue):
            pass  # it is as if it were lost on the way
        elif outlet.cancelled:
            sink.cancel()
        elif outlet.finishing and not (outlet.oneshot and outlet.ledger.total):
            sink.finish()
        outlet.changed.fire()

    def _bind_inlet(self, left: SendState, inlet: ReceiveState, channel: int) -> None:
        inlet.shift = {True: left.ledger.reliable.next, False: left.ledger.unreliable.next}
        inlet.channel = channel
        inlet.source = source = RemoteSource(self, inlet, channel)
        self.inlets[channel] = inlet
        if inlet.closed:
            source.close()

    # the engine's events

    def _arrived(self, run: MessageBatch) -> None:
        cargo: dict[int, tuple[CarriedHalves, ...]] = {}
        for i, entries in run.attachments.items():
            cargo[i] = tuple(self._adopt(entry.channel, entry.headers) for entry in entries)
        inlet = self.inlets.get(run.channel)
        if inlet is None:
            for cores in cargo.values():
                abandon(cores)
            RemoteSource(self, None, run.channel).taken(run.size)
            return
        inlet.put(run, cargo)

    def _adopt(self, channel: int, headers: Headers) -> CarriedHalves:
        """The half of an arrived channel: we send on it or receive, by its id (AQ-LIFE-8)."""
        core: SendState | ReceiveState
        if chanid.sender(channel) is self.engine.side:
            core = self._outlet(channel, headers)
        else:
            core = self._inlet(channel, headers)
        core.aboard = True
        return core

    def _sent_later(self, item: Numbered | Dropped | Writable) -> None:
        """What became of messages that waited in the engine."""
        outlet = self.outlets.get(item.channel)
        if outlet is None or not isinstance(outlet.sink, RemoteSink):
            return
        if isinstance(item, Numbered):
            outlet.sink.numbered(item)
        elif isinstance(item, Dropped):
            outlet.sink.dropped(item.messages)
        _wake(outlet)

    def _ended(self, item: Ended) -> None:
        outlet = self.outlets.pop(item.channel, None)
        if outlet is not None:
            _dispose(outlet)
            outlet.ended(self._outlet_outcome(item.end, outlet.label))
            return
        inlet = self.inlets.pop(item.channel, None)
        if inlet is not None:
            if item.end is End.CLOSED:
                inlet.counted(item.counts)
            else:
                inlet.ended(self._inlet_outcome(item.end, inlet.label), item.counts)

    def _outlet_outcome(self, end: End, label: str) -> Outcome | None:
        if end is End.CLOSED:
            return ReceiverClosed(label)
        if end is End.LOST:
            return LostInTransit(label)
        if end is End.CONNECTION_LOST:
            return self.lost(label)
        return None

    def _inlet_outcome(self, end: End, label: str) -> Outcome:
        if end is End.FINISHED:
            return Finished(label)
        if end is End.CANCELLED:
            return Cancelled(label)
        if end is End.LOST:
            return LostInTransit(label)
        if end is End.OVERFLOW:
            return Overflowed(label)
        return self.lost(label)

    def lost(self, label: str) -> ConnectionLost:
        closed = self.engine.closed
        if closed is None:
            return ConnectionLost(label)
        return ConnectionLost(label, *closed)

    def _closed(self, item: Closed) -> None:
        self.closed = item
        for outlet in list(self.outlets.values()):
            _dispose(outlet)
            outlet.ended(self.lost(outlet.label))
        for inlet in self.inlets.values():
            inlet.ended(self.lost(inlet.label))
        self.outlets.clear()
        self.inlets.clear()
        if self._unblocking is not None:
            self._unblocking.cancel()
            self._unblocking = None
        for tell in self.when_closed:
            tell(item)

    def _unblock(self) -> None:
        blocked, self._blocked = self._blocked, set()
        for outlet in blocked:
            _wake(outlet)

    async def _await_room(self) -> None:
        assert self.driver is not None
        await self.driver.writable(HIGH_WATER)
        self._fresh = self._messages = 0
        self._unblocking = None
        self._unblock()


def _wake(outlet: SendState) -> None:
    """Something that the outlet waits for may be there: room, credit, events."""
    if isinstance(outlet.sink, RemoteSink):
        outlet.sink.resume()
    outlet.changed.fire()


def _dispose(outlet: SendState) -> None:
    if isinstance(outlet.sink, RemoteSink):
        outlet.sink.dispose()
