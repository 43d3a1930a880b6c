"""The networked channels of one connection, and what the engine's events do to them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from aqueduct_core.aio.delivery_watch import DeliveryWatch, Observed
from aqueduct_core.aio.half import CarriedHalf, abandon
from aqueduct_core.aio.local_channel import LocalChannel
from aqueduct_core.aio.network import LinkDriver, NetworkConnection
from aqueduct_core.aio.outcomes import (
    Cancelled,
    Finished,
    LostInTransit,
    Outcome,
    Overflowed,
    ReceiverClosed,
)
from aqueduct_core.aio.receive_state import ReceiveState
from aqueduct_core.aio.remote_channel import RemoteSink, RemoteSource
from aqueduct_core.aio.send_state import SendState
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
    StreamsTaken,
    Writable,
)
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.engine.message_batch import Headers, MessageBatch
from aqueduct_core.escape import escaped
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.transport.awaiting import Signal

_logger = logging.getLogger(__name__)


class ChannelTable:
    """The states of all networked halves of a connection, by the numbers of their channels.

    Hands the engine's events to them, and makes a local channel networked when one of its halves
    leaves in a message. Ends with the event ``Closed``: every half that is still open then has
    ``ConnectionLost``. ``on_opened`` is called with the peer's connection headers, ``on_closed`` at
    the end.
    """

    def __init__(
        self,
        engine: AqueductEngine,
        on_opened: Callable[[Headers], None],
        on_closed: Callable[[Closed], None],
    ) -> None:
        self.network = NetworkConnection(engine, on_closed)
        self.network.watch = DeliveryWatch(self.network.loop, self)
        self.senders: dict[int, SendState] = {}
        self.receivers: dict[int, ReceiveState] = {}
        self._on_opened = on_opened
        self._progress = Signal()
        self.entrypoint: SendState | ReceiveState
        if engine.side is chanid.Side.CLIENT:
            self.entrypoint = self._new_sender(chanid.ENTRYPOINT, ())
        else:
            self.entrypoint = self._new_receiver(chanid.ENTRYPOINT, ())

    @property
    def unacked(self) -> int:
        """Messages that were sent and have no outcome."""
        return sum(sender.deliveries.open for sender in self.senders.values())

    def observe(self) -> Observed:
        """What waits for the peer now; see ``DeliveryWatch``."""
        network = self.network
        waiting = ending = settled = most = 0
        channel: int | None = None
        for number, sender in self.senders.items():
            mine, ends = sender.deliveries.open, sender.finishing or sender.cancelled
            waiting += mine
            ending += ends
            settled += sender.deliveries.total - mine
            if mine + ends > most:
                most, channel = mine + ends, number
        blocked = network.engine.statistics.short_of_credit
        if blocked in self.senders:
            channel = blocked
        driver = network.driver
        return Observed(
            peer="the peer" if driver is None else str(HostPort(*driver.peer[:2])),
            channel="" if channel is None else self.senders[channel].label,
            waiting=waiting,
            ending=ending,
            settled=settled,
            heard=0 if driver is None else driver.statistics.datagrams_received,
            delivered=network.bytes_delivered,
            blocked=blocked is not None or bool(waiting and driver is not None and driver.unsent),
        )

    def probe(self) -> None:
        self.network.probe()

    async def drained(self) -> None:
        """Return when every message sent has an outcome and every finish is complete, or the
        connection is over."""
        await self._progress.until(lambda: self.network.closed is not None or not self._pending())

    def on_events(self, driver: LinkDriver, events: list[Event]) -> None:
        """Take the engine's events of one burst."""
        self.network.driver = driver
        for event in events:
            if isinstance(event, MessageBatch):
                self._arrived(event)
            elif isinstance(event, Delivered):
                sender = self.senders.get(event.channel)
                if sender is not None:
                    sender.settled(event.reliable, event.first, event.stop, event.acked)
            elif isinstance(event, Ended):
                self._ended(event)
            elif isinstance(event, Rerouted):
                sender = self.senders.get(event.channel)
                if sender is not None:
                    sender.deliveries.rerouted(event.datagram, event.reliable)
            elif isinstance(event, Numbered | Dropped | Writable):
                self._sent_later(event)
            elif isinstance(event, Nacked):
                receiver = self.receivers.get(event.channel)
                if receiver is not None:
                    receiver.nacked += event.stop - event.first
            elif isinstance(event, Opened):
                self._on_opened(event.headers)
            elif isinstance(event, DatagramsUnavailable):
                self.network.datagrams = False
            elif isinstance(event, Idle):
                _logger.info("nothing happens on channel %d any more", event.channel)
            elif isinstance(event, Ignored):
                _logger.info("from the peer, ignored: %s", escaped(event.reason))
            elif isinstance(event, StreamsTaken):
                _logger.warning("%s", event)
            elif isinstance(event, Closed):
                self._closed(event)
        self.network.wake_blocked()
        self._progress.fire()

    def bind(self, detached: CarriedHalf, channel: int) -> None:
        """A local half has left as the channel of this id: the half that stays is networked."""
        detached.in_transit = False
        assert isinstance(detached, SendState | ReceiveState)
        local = detached.sink if isinstance(detached, SendState) else detached.source
        assert isinstance(local, LocalChannel)
        if isinstance(detached, ReceiveState):
            self._bind_sender(local.sender, local.receiver, channel)
        else:
            self._bind_receiver(local.sender, local.receiver, channel)

    def _pending(self) -> bool:
        """A cancelled sender waits for CLOSE_RECEIVER too: its CANCEL_SENDER has arrived then."""
        return any(
            sender.finishing or sender.cancelled or sender.deliveries.open
            for sender in self.senders.values()
        )

    def _new_sender(self, channel: int, headers: Headers) -> SendState:
        sender = SendState(
            self.network.loop, headers, oneshot=chanid.oneshot(channel), channel=channel
        )
        sender.sink = RemoteSink(self.network, sender, channel, self.bind)
        self.senders[channel] = sender
        return sender

    def _new_receiver(self, channel: int, headers: Headers) -> ReceiveState:
        receiver = ReceiveState(
            self.network.loop, headers, oneshot=chanid.oneshot(channel), channel=channel
        )
        receiver.source = RemoteSource(self.network, channel)
        self.receivers[channel] = receiver
        return receiver

    def _bind_sender(self, sender: SendState, left: ReceiveState, channel: int) -> None:
        queue = left.surrender()
        for queued in queue:
            sender.deliveries.space(queued.columns.reliable).rewind(queued.count)
        sender.channel = channel
        sender.sink = sink = RemoteSink(self.network, sender, channel, self.bind)
        self.senders[channel] = sender
        if not sink.take_over(queue):
            pass  # it is as if it were lost on the way
        elif sender.cancelled:
            sink.cancel()
        elif sender.finishing and not (sender.oneshot and sender.deliveries.total):
            sink.finish()
        sender.notify()

    def _bind_receiver(self, left: SendState, receiver: ReceiveState, channel: int) -> None:
        sent = left.deliveries
        receiver.shift = {True: sent.reliable.next, False: sent.unreliable.next}
        receiver.channel = channel
        receiver.source = source = RemoteSource(self.network, channel)
        self.receivers[channel] = receiver
        if receiver.closed:
            source.close()

    # the engine's events

    def _arrived(self, batch: MessageBatch) -> None:
        carried: dict[int, tuple[CarriedHalf, ...]] = {}
        for i, entries in batch.attachments.items():
            carried[i] = tuple(self._adopt(entry.channel, entry.headers) for entry in entries)
        receiver = self.receivers.get(batch.channel)
        if receiver is None:
            for halves in carried.values():
                abandon(halves)
            RemoteSource(self.network, batch.channel).taken(batch.size)
            return
        receiver.put(batch, carried)

    def _adopt(self, channel: int, headers: Headers) -> CarriedHalf:
        """The half of an arrived channel: we send on it or receive, by its id (AQ-LIFE-8)."""
        half: SendState | ReceiveState
        if chanid.sender(channel) is self.network.engine.side:
            half = self._new_sender(channel, headers)
        else:
            half = self._new_receiver(channel, headers)
        half.in_transit = True
        return half

    def _sent_later(self, event: Numbered | Dropped | Writable) -> None:
        """What became of messages that waited in the engine."""
        sender = self.senders.get(event.channel)
        if sender is None or not isinstance(sender.sink, RemoteSink):
            return
        if isinstance(event, Numbered):
            sender.sink.numbered(event)
        elif isinstance(event, Dropped):
            sender.sink.dropped(event.messages)
        sender.sink.wake()

    def _ended(self, event: Ended) -> None:
        sender = self.senders.pop(event.channel, None)
        if sender is not None:
            _dispose(sender)
            sender.ended(self._sender_outcome(event.end, sender.label))
            return
        receiver = self.receivers.pop(event.channel, None)
        if receiver is not None:
            if event.end is End.CLOSED:
                receiver.counted(event.counts)
            else:
                receiver.ended(self._receiver_outcome(event.end, receiver.label), event.counts)

    def _sender_outcome(self, end: End, label: str) -> Outcome | None:
        if end is End.CLOSED:
            return ReceiverClosed(label)
        if end is End.LOST:
            return LostInTransit(label)
        if end is End.CONNECTION_LOST:
            return self.network.lost(label)
        return None

    def _receiver_outcome(self, end: End, label: str) -> Outcome:
        if end is End.FINISHED:
            return Finished(label)
        if end is End.CANCELLED:
            return Cancelled(label)
        if end is End.LOST:
            return LostInTransit(label)
        if end is End.OVERFLOW:
            return Overflowed(label)
        return self.network.lost(label)

    def _closed(self, event: Closed) -> None:
        network = self.network
        network.closed = event
        for sender in list(self.senders.values()):
            _dispose(sender)
            sender.ended(network.lost(sender.label))
        for receiver in self.receivers.values():
            receiver.ended(network.lost(receiver.label))
        self.senders.clear()
        self.receivers.clear()
        network.over(event)


def _dispose(sender: SendState) -> None:
    if isinstance(sender.sink, RemoteSink):
        sender.sink.dispose()
