"""An Aqueduct connection: the engine that a transport drives. It only routes.

Inputs go to ``Ingress`` (bytes → frames → halves of channels), timers and commands to the half
that they are for; actions come from ``Outbox``, events from ``EventQueue``. See
``aqueduct_core.engine.engine`` for the order of calls.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aqueduct_core.aqueduct.channels import Channels
from aqueduct_core.aqueduct.config import AckMode, Config, Mode
from aqueduct_core.aqueduct.context import ConnectionContext, Timer
from aqueduct_core.aqueduct.credit import ReceiveCredit
from aqueduct_core.aqueduct.datagrams import LinkQueue, Refusable
from aqueduct_core.aqueduct.dispatch import Dispatch
from aqueduct_core.aqueduct.egress import Egress, Sent, check_headers
from aqueduct_core.aqueduct.event_queue import EventQueue
from aqueduct_core.aqueduct.events import Closed, End, Event, Ignored, Opened
from aqueduct_core.aqueduct.faults import (
    BadArgument,
    ChannelGone,
    Code,
    ConnectionOver,
    NotAllowed,
    PeerFault,
)
from aqueduct_core.aqueduct.flow import BadFlowHeader, Flow
from aqueduct_core.aqueduct.handshake import Handshake
from aqueduct_core.aqueduct.ingress import Ingress
from aqueduct_core.aqueduct.outbox import Outbox
from aqueduct_core.aqueduct.receiver import ReceiverHalf, ReceiverInput
from aqueduct_core.aqueduct.send_queue import Attach, SendQueues
from aqueduct_core.aqueduct.sender import SenderHalf
from aqueduct_core.aqueduct.statistics import Statistics, footprint
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.actions import Action
from aqueduct_core.engine.engine import Footprint, StorageEngine
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.inputs import (
    Datagram,
    Input,
    LinkLost,
    StreamBytes,
    StreamReset,
    StreamStopped,
)
from aqueduct_core.engine.message_batch import Attachment, Headers

__all__ = ["AckMode", "AqueductEngine", "Attach", "Config", "Mode", "Sent", "Side", "Statistics"]

_log = logging.getLogger("aqueduct_core.aqueduct")


class AqueductEngine:
    """One end of an Aqueduct connection over one QUIC connection.

    Ends with the first protocol error, ``shutdown`` or the link's end: then ``closed`` is set,
    every half ends with CONNECTION_LOST, and every command raises ``ConnectionOver``.
    All commands raise a subclass of ``LocalError`` on misuse and then change nothing.
    """

    ENTRYPOINT = chanid.ENTRYPOINT

    def __init__(
        self, side: Side, headers: Headers = (), config: Config | None = None, now: float = 0.0
    ) -> None:
        self.side = side
        self.config = config = Config() if config is None else config
        self.closed: Closed | None = None
        self._now = now
        self._own_headers = headers
        self._handshake = Handshake(side)
        self._outbox = Outbox(side, self._handshake.prefix)
        self._events = EventQueue()
        self._context = ConnectionContext(
            config=config,
            outbox=self._outbox,
            events=self._events,
            credit=ReceiveCredit(self._outbox),
            refusable=Refusable(),
            datagram_size=config.max_datagram_size,
            flow=Flow(config),
            queues=SendQueues(config),
            link=LinkQueue(),
        )
        self._timers = self._context.timers
        self._channels = Channels(side, self._context)
        self._egress = Egress(side, self._channels, self._context)
        self._dispatch = Dispatch(self._channels, self._context)
        self._ingress = Ingress(
            peer=side.other,
            context=self._context,
            handshake=self._handshake,
            channels=self._channels,
            dispatch=self._dispatch,
            headers_came=self._headers_came,
        )
        self._timers.set((Timer.HANDSHAKE, 0), now + config.handshake_timeout)
        check_headers(headers, config)
        if side is Side.CLIENT:
            self._handshake.offer(self._context.flow.announce(headers))
            self._handshake.flush(self._outbox)

    # --- inputs --------------------------------------------------------------------------

    def handle(self, input: Input, now: float) -> None:
        """Take in one input. Whatever the peer sent ends in events, or in a closed connection."""
        if self.closed is None:
            self._now = now
            with self._guard():
                self._handle(input, now)

    def _handle(self, input: Input, now: float) -> None:
        if isinstance(input, StreamBytes):
            self._ingress.stream_bytes(input, now)
        elif isinstance(input, Datagram):
            self._ingress.datagram(input.data, now)
        elif isinstance(input, StreamReset):
            self._ingress.stream_reset(input.stream_id)
        elif isinstance(input, StreamStopped):
            self._outbox.stopped(input.stream_id)
        elif isinstance(input, LinkLost):
            self._lost(input)
        else:
            self._egress.link(input, now)

    def _headers_came(self) -> None:
        headers = self._handshake.peer_headers
        assert headers is not None
        self._timers.cancel((Timer.HANDSHAKE, 0))
        if self.half_open(self.ENTRYPOINT):
            self._channels.idle.touched(self.ENTRYPOINT, self._now)
        flow = self._context.flow
        try:
            flow.headers_came(headers)
        except BadFlowHeader as error:
            self._events.emit(Ignored(str(error)))
        self._events.emit(Opened(flow.of_application(headers)))
        if self.side is Side.SERVER:
            if not self.config.auto_accept:
                return
            self._handshake.offer(flow.announce(self._own_headers))
            self._outbox.admit()
        self._ingress.release(self._now)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Turn what goes wrong with the peer's input into the end of this connection."""
        try:
            yield
        except PeerFault as fault:
            self._fail(fault.code, fault.reason)
        except Exception:
            # a bug of ours must not take other connections down with it
            _log.exception("internal error in an Aqueduct connection")
            self._fail(Code.INTERNAL, "internal error")

    def _fail(self, code: Code, reason: str) -> None:
        """The peer broke the protocol: nothing but the close leaves (AQ-ERR-1)."""
        self._outbox.close(code, reason, drop=True)
        self._over(Closed(code, reason, by_peer=False))

    def _lost(self, input: LinkLost) -> None:
        self._outbox.abandon()
        self._over(Closed(*input))

    def _over(self, closed: Closed) -> None:
        self.closed = closed
        self._channels.connection_lost()
        self._context.link.clear()
        self._context.stop_timers()
        self._events.emit(closed)

    # --- time, actions, events -------------------------------------------------------------

    @property
    def wake_at(self) -> float | None:
        return self._context.wake_at

    def tick(self, now: float) -> None:
        """Act on every deadline that is due."""
        self._now = now
        with self._guard():
            self._context.fall_due(now)
            while self.closed is None and (key := self._timers.pop(now)) is not None:
                self._on_timer(*key, now)

    def _on_timer(self, timer: Timer, channel: int, now: float) -> None:
        if timer is Timer.HANDSHAKE:
            raise PeerFault(Code.HEADERS, "no connection headers in time")
        if timer is Timer.FORGET:
            self._channels.forgets.send()
        elif timer is Timer.PROCEED:
            self._ingress.proceed(now)
        elif timer is Timer.LINGER:
            self._channels.forgets.linger_over(channel)
        elif timer is Timer.IDLE:
            self._channels.idle_passed(channel, now)
        else:
            half = self._channels.halves.get(channel)
            if isinstance(half, SenderHalf):
                half.declare()
            elif half is not None:
                half.deadline_passed(now)

    def actions(self) -> list[Action]:
        """Take what the transport has to do."""
        self._ingress.turn()
        if self.closed is None:
            with self._guard():
                self._handshake.flush(self._outbox)
                self._channels.flush(self._now)
                self._egress.release(self._now)
                self._ingress.flush()
                self._outbox.check_waiting(self.config.max_waiting_streams)
                self._context.tell_streams_taken()
            self._context.refusable.hand_over()
        return self._outbox.take()

    def events(self) -> list[Event]:
        """Take what the application should learn."""
        return self._events.take()

    # --- commands -----------------------------------------------------------------------

    def accept(self, headers: Headers, now: float) -> None:
        """Answer ``Opened`` with the server's headers, once; only then are messages processed."""
        self._live(now)
        if self.side is Side.CLIENT:
            raise NotAllowed("a client gives its headers when it is made")
        check_headers(headers, self.config)
        self._handshake.offer(self._context.flow.announce(headers))
        self._outbox.admit()
        with self._guard():
            self._ingress.release(now)

    def send(
        self,
        channel: int,
        payload: bytes,
        *,
        now: float,
        mode: Mode = Mode.ORDERED,
        headers: Headers = (),
        attach: Sequence[Attach] = (),
    ) -> Sent:
        """Send one message (AQ-SEND-1…5), with new channels attached (AQ-SEND-11).

        An unreliable message that does not fit a datagram goes on a stream, with a reliable
        number. The mode is fixed by the channel's first send. Without credit of the receiver, or
        room in the link for a datagram, the message waits (``Sent``); a full queue refuses it with
        ``QueueFull``, or drops its oldest message if the channel is unreliable (AQ-FLOW-5).
        """
        half = self._live_sender(channel, now)
        return self._egress.send(half, payload, mode=mode, headers=headers, attach=attach, now=now)

    def send_many(
        self,
        channel: int,
        payloads: Sequence[bytes],
        *,
        now: float,
        mode: Mode = Mode.ORDERED,
        headers: HeaderColumn | None = None,
    ) -> tuple[int, int]:
        """Send messages in bulk, the first ones of them that may go now; their numbers ``[first,
        stop)``. When not all could go, ``Writable`` tells when more can. Unreliable ones must all
        fit a datagram (``datagram_room``, less ``longest_added``), unless the peer takes none: then
        all go on streams, under reliable numbers."""
        half = self._live_sender(channel, now)
        return self._egress.send_many(half, payloads, headers, mode=mode, now=now)

    def congested(self, channel: int) -> bool:
        """Whether an application that would rather wait than lose should wait with an unreliable
        message, as the link or the receiver is slower than it: the send queue is full, so that
        one more message drops the oldest (AQ-FLOW-5), or it has tried ``send_many`` in vain.
        ``Writable`` tells when to go on.
        """
        return self._egress.congested(self._sender(channel))

    def datagram_room(self, channel: int, count: int = 1) -> int:
        """The longest plain payload that each of the next ``count`` datagrams can carry; below
        zero where not even an empty one fits."""
        return self._sender(channel).datagram_room(count)

    def finish(self, channel: int, now: float) -> None:
        """No more messages will come; ends with FINISHED when the peer has all of them."""
        self._live_sender(channel, now).finish()

    def cancel(self, channel: int, now: float) -> None:
        """Give up the channel; what the peer has not read yet is dropped (AQ-SEND-10)."""
        self._live_sender(channel, now).cancel()

    def close(self, channel: int, now: float) -> None:
        """Receive no more; what was received (or stored) is acked, the rest nacked."""
        self._live(now)
        half = self._channels.halves.get(channel)
        if not isinstance(half, ReceiverHalf):
            raise ChannelGone(f"no receiver of channel {channel} here")
        self._channels.close(half, ReceiverInput.CLOSE, End.CLOSED, now)

    def drop(self, attachments: Iterable[Attachment], now: float) -> None:
        """Close or cancel channels of messages that nobody will read (AQ-LIFE-20).

        Halves that have ended already, and senders that are finished, are left alone.
        """
        self._live(now)
        self._channels.drop((attachment.channel for attachment in attachments), now)

    def stored(self, channel: int, first: int, stop: int, *, reliable: bool, now: float) -> None:
        """Messages ``[first, stop)`` are durable: ack them with the next actions (AQ-ACK-15).

        Without effect when the channel has ended.
        """
        self._live(now)
        half = self._channels.halves.get(channel)
        if isinstance(half, SenderHalf):
            raise BadArgument(f"channel {channel} has its sender here")
        if half is not None:
            half.stored(first, stop, reliable=reliable)

    def confirm(self, channel: int, now: float) -> None:
        """The finish that ``Complete`` told of is noted: the half may end (``confirm_finish``).

        Without effect when the channel has ended.
        """
        self._live(now)
        half = self._channels.halves.get(channel)
        if isinstance(half, ReceiverHalf):
            half.confirm()

    def refused(self, channel: int, first: int, stop: int, now: float) -> None:
        """Datagram messages ``[first, stop)`` will not be stored: they are nacked as if they had
        been lost on the way, at their receipt deadline. Without effect when the channel has ended.

        They are to be ``consumed`` all the same; the sender takes them off by the nack (AQ-FLOW-6).
        """
        self._live(now)
        half = self._channels.halves.get(channel)
        if isinstance(half, SenderHalf):
            raise BadArgument(f"channel {channel} has its sender here")
        if half is not None:
            half.refused(first, stop)

    def consumed(self, channel: int, size: int, now: float) -> None:
        """The application is done with ``size`` bytes (``MessageBatch.size``): credit may go back.

        Without effect when the channel has ended otherwise than by finish, or the connection.
        """
        self._now = now
        if self.closed is None:
            size = self._context.credit.consumed(channel, size)
            half = self._channels.halves.get(channel)
            if isinstance(half, ReceiverHalf):
                half.dequeued(size, now)

    def pause(self) -> None:
        """Take no frames in until ``resume``: stream bytes wait, without transport credit, so the
        peer comes to rest; datagrams are dropped. Events that are due are not affected."""
        self._ingress.pause()

    def resume(self, now: float) -> None:
        """Take in what has waited."""
        self._now = now
        if self.closed is None:
            with self._guard():
                self._ingress.resume(now)

    def shutdown(self, code: int, reason: str, now: float) -> None:
        """Close the QUIC connection, behind the actions that are due (0: in good order)."""
        if self.closed is not None:
            return
        with self._guard():
            self._handshake.flush(self._outbox)
            self._channels.flush(now)
        if self.closed is None:
            self._outbox.close(code, reason, drop=False)
            self._over(Closed(code, reason, by_peer=False))

    # --- what is so ---------------------------------------------------------------------

    @property
    def peer_headers(self) -> Headers | None:
        """The peer's connection headers; None before they came."""
        return self._handshake.peer_headers

    def half_open(self, channel: int) -> bool:
        """Whether our half of ``channel`` is alive."""
        return channel in self._channels.halves

    def can_send(self, channel: int) -> bool:
        """Whether our half is a sender that is neither finished nor cancelled."""
        half = self._channels.halves.get(channel)
        return isinstance(half, SenderHalf) and half.open

    @property
    def open_channels(self) -> int:
        return len(self._channels.halves)

    @property
    def drained(self) -> bool:
        """No sender of ours is alive: the connection may be closed in good order (AQ-LIFE-24)."""
        return not any(isinstance(half, SenderHalf) for half in self._channels.halves.values())

    @property
    def statistics(self) -> Statistics:
        return Statistics(
            messages_received=self._dispatch.messages,
            messages_sent=self._egress.messages,
            queued_bytes=self._context.credit.total,
            open_channels=self.open_channels,
            datagrams_dropped=self._ingress.datagrams_dropped,
            overflows=self._dispatch.overflows,
            waiting=len(self._context.queues),
            outstanding=self._context.flow.total,
            short_of_credit=self._egress.short_of_credit(),
        )

    @property
    def footprint(self) -> Footprint:
        """Memory that the peer makes us hold, about."""
        return footprint(self._context, self._channels, self._ingress, self._handshake)

    def _live(self, now: float) -> None:
        if self.closed is not None:
            raise ConnectionOver("the connection is closed")
        self._now = now

    def _sender(self, channel: int) -> SenderHalf:
        half = self._channels.halves.get(channel)
        if not isinstance(half, SenderHalf):
            raise ChannelGone(f"no sender of channel {channel} here")
        return half

    def _live_sender(self, channel: int, now: float) -> SenderHalf:
        """The sender that a command is for: with it something happens on the channel."""
        self._live(now)
        half = self._sender(channel)
        self._channels.idle.touched(channel, now)
        return half


if TYPE_CHECKING:
    _satisfied: type[StorageEngine[Event]] = AqueductEngine
