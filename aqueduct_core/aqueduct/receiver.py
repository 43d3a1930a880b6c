"""The receiving half of a channel (reference §3.4, §3.5, AQ-ACK-1…15, AQ-LIFE-11…16).

Theory of operation. A half is OPEN until FINISH_SENDER says how many reliable messages there
are; then FINISHING until all of them are here and every declared datagram message was acked or
nacked. Each end but FORGET_CHANNEL and loss goes the same way: acks first, then CLOSE_RECEIVER
on the same stream (AQ-LIFE-12). The queue for the application is apart: what was delivered is the
application's; what came before the application knew of the channel waits here.
"""

from __future__ import annotations

from enum import IntEnum, auto

from aqueduct_core.aqueduct.acks import ReliableAcks, UnreliableAcks
from aqueduct_core.aqueduct.config import AckMode, Config
from aqueduct_core.aqueduct.context import ConnectionContext, Timer
from aqueduct_core.aqueduct.credit import UnreportedCredit
from aqueduct_core.aqueduct.event_queue import BatchBuilder
from aqueduct_core.aqueduct.events import Complete, Counts, Nacked
from aqueduct_core.aqueduct.faults import BadArgument, Code, PeerFault, ResetCode
from aqueduct_core.aqueduct.outbox import Rank
from aqueduct_core.aqueduct.wire import chanid, codec
from aqueduct_core.aqueduct.wire.frames import Block, MessageFrame
from aqueduct_core.primitives.ranges import Range


class ReceiverState(IntEnum):
    OPEN = auto()
    FINISHING = auto()
    GONE = auto()


class ReceiverInput(IntEnum):
    MESSAGE = auto()
    SENT_UNRELIABLE = auto()
    FINISH_SENDER = auto()
    CANCEL_SENDER = auto()
    COMPLETE = auto()
    CLOSE = auto()
    FORGET = auto()
    LOST = auto()


VIOLATION = None
"""In the table: the peer may not do this now; it closes the connection (AQ-LIFE-16)."""

NO_DATAGRAMS = UnreliableAcks(Config())
"""Of every channel without datagram messages; it stays as it is, since what has no number can be
neither stored, nor refused, nor answered."""
NO_ANSWER: tuple[list[int], list[Range]] = ([], [])
"""Of every such channel, and never changed."""

_S, _I = ReceiverState, ReceiverInput
RECEIVER_TABLE: dict[ReceiverState, dict[ReceiverInput, ReceiverState | None]] = {
    _S.OPEN: {
        _I.MESSAGE: _S.OPEN,
        _I.SENT_UNRELIABLE: _S.OPEN,
        _I.FINISH_SENDER: _S.FINISHING,
        _I.CANCEL_SENDER: _S.GONE,
        _I.COMPLETE: VIOLATION,
        _I.CLOSE: _S.GONE,
        _I.FORGET: _S.GONE,
        _I.LOST: _S.GONE,
    },
    _S.FINISHING: {
        _I.MESSAGE: _S.FINISHING,
        _I.SENT_UNRELIABLE: VIOLATION,
        _I.FINISH_SENDER: VIOLATION,
        _I.CANCEL_SENDER: VIOLATION,
        _I.COMPLETE: _S.GONE,
        _I.CLOSE: _S.GONE,
        _I.FORGET: _S.GONE,
        _I.LOST: _S.GONE,
    },
}


class ReceiverHalf:
    """Takes messages in, and acks them.

    Ends when: finished and complete, cancelled, closed by the application, forgotten or lost.
    Holds: ranges of numbers; ``queue`` while the application does not know the channel; the
    bytes that it consumed and no DEQUEUED has reported.
    """

    def __init__(
        self, channel: int, context: ConnectionContext, *, local: bool, visible: bool
    ) -> None:
        self.channel = channel
        self.visible = visible
        self.discarded = (
            False  # dropped before the application knew it: nobody wants to know its end
        )
        self.routed = False
        self.state = ReceiverState.OPEN
        self.queue: list[BatchBuilder] = []
        self.buffer: int | None = None  # the channel's own PER_CHANNEL, where we announced one
        self._local = local
        self._context = context
        self._reliable = ReliableAcks(context.config)
        self._datagrams: UnreliableAcks | None = None
        self._finish_at: int | None = None
        self._control: int | None = None
        self._peer_control: int | None = None
        self._late = 0
        self._unreported = UnreportedCredit()
        self._unreliable_received = 0
        self._acked = 0
        self._nacked = 0
        self._unreliable_acked = 0
        self._confirmed = not context.config.confirm_finish
        self._announced = False
        self._ranges = 0  # of its numbers, as far as they are counted in all

    def _count_ranges(self) -> None:
        now = 0 if self.gone else len(self._reliable.received) + self._unreliable.entries
        self._context.ranges += now - self._ranges
        self._ranges = now

    @property
    def gone(self) -> bool:
        return self.state is ReceiverState.GONE

    def step(self, given: ReceiverInput) -> None:
        """Make a transition.

        Raises:
            PeerFault: the table calls it a violation.
        """
        after = RECEIVER_TABLE[self.state][given]
        if after is VIOLATION:
            raise PeerFault(
                Code.STATE, f"{given.name} on channel {self.channel}, {self.state.name.lower()}"
            )
        self.state = after

    # --- the peer's sender -------------------------------------------------------------

    def admits(self, first: int, count: int) -> bool:
        """Whether ``count`` messages from ``first`` on can be taken at once, without a fault."""
        stop = first + count
        return (
            not chanid.oneshot(self.channel)
            and (self._finish_at is None or stop <= self._finish_at)
            and self._reliable.admits(first, stop)
        )

    def arrive_reliable(self, first: int, stop: int, now: float) -> None:
        """Messages ``[first, stop)`` came on a stream."""
        self.step(ReceiverInput.MESSAGE)
        if self._finish_at is not None and stop > self._finish_at:
            raise PeerFault(Code.STATE, f"message {stop - 1} beyond the finish")
        if chanid.oneshot(self.channel) and (stop > 1 or self._unreliable_received):
            raise PeerFault(Code.STATE, f"a second message on oneshot channel {self.channel}")
        self._reliable.arrive(first, stop)
        if len(self._reliable.received) != self._ranges:
            self._count_ranges()
        if self._reliable.owing:
            self._ack_shortly(now)

    def arrive_unreliable(self, number: int, size: int, now: float) -> bool:
        """Message ``number`` of ``size`` bytes came in a datagram; False: ignored as lost."""
        self.step(ReceiverInput.MESSAGE)
        if number < self._unreliable.mark:
            self._late += 1
            return False
        if self._finish_at is not None and number >= self._unreliable.declared:
            raise PeerFault(Code.STATE, f"datagram message {number} beyond the finish")
        if chanid.oneshot(self.channel) and (number or self._reliable.received):
            raise PeerFault(Code.STATE, f"a second message on oneshot channel {self.channel}")
        if not self._numbered().arrive(number):
            self._late += number < self._unreliable.frozen
            return False
        self._unreliable_received += 1
        self._count_ranges()
        if self._context.flow.active and self._context.config.ack_mode is AckMode.ON_STORED:
            self._unreported.arrived(number, size)
        self._ack_early(now)
        return True

    def sent_unreliable(self, count: int, stream_id: int, now: float) -> None:
        self.step(ReceiverInput.SENT_UNRELIABLE)
        self._same_stream(stream_id)
        deadline = now + self._context.receipt_deadline
        self._numbered().declare(count, deadline)
        self._count_ranges()
        self._check_oneshot_total()
        self._set_deadline()
        self._ack_early(now)

    def finish_sender(self, sent_reliable: int, stream_id: int) -> None:
        self.step(ReceiverInput.FINISH_SENDER)
        if self._peer_control is not None:
            self._same_stream(stream_id)
        self._finish_at = sent_reliable
        if sent_reliable < self._reliable.received.stop:
            raise PeerFault(Code.STATE, "a finish below a message that was received")
        if self._unreliable.received.stop > self._unreliable.declared:
            raise PeerFault(Code.STATE, "a finish below a datagram message that was received")
        self._check_oneshot_total()

    @property
    def _unreliable(self) -> UnreliableAcks:
        """The numbers of datagram messages, to be read."""
        return self._datagrams or NO_DATAGRAMS

    def _numbered(self) -> UnreliableAcks:
        """The numbers of datagram messages, for what came. Most channels have none, and they take
        more than all else of theirs."""
        if self._datagrams is None:
            self._datagrams = UnreliableAcks(self._context.config)
        return self._datagrams

    def _check_oneshot_total(self) -> None:
        if not chanid.oneshot(self.channel):
            return
        if (self._finish_at or 0) + self._unreliable.declared > 1:
            raise PeerFault(Code.STATE, f"more than one message on channel {self.channel}")

    def _same_stream(self, stream_id: int) -> None:
        if self._peer_control is None:
            self._peer_control = stream_id
        elif self._peer_control != stream_id:
            raise PeerFault(
                Code.STATE, f"control of channel {self.channel} on more than one stream"
            )

    def deliver(self, frame: MessageFrame | Block, *, reliable: bool) -> bool:
        """Give what came to the application, or keep it until that knows the channel; whether a
        new batch began with it."""
        if not self.visible:
            return self._keep(frame, reliable)
        if isinstance(frame, Block):
            return self._context.events.emit_block(self.channel, frame)
        return self._context.events.emit_message(self.channel, reliable, frame)

    def _keep(self, frame: MessageFrame | Block, reliable: bool) -> bool:
        number = frame.first if isinstance(frame, Block) else frame.number
        builder = self.queue[-1] if self.queue else None
        if builder is None or builder.reliable is not reliable or not builder.fits(number):
            builder = BatchBuilder(self.channel, reliable, number)
            self.queue.append(builder)
        if isinstance(frame, Block):
            builder.add_block(frame)
        else:
            builder.add(frame)
        return builder.first == number

    def take_queue(self) -> list[BatchBuilder]:
        queue, self.queue = self.queue, []
        return queue

    # --- the application ---------------------------------------------------------------

    def stored(self, first: int, stop: int, *, reliable: bool) -> None:
        """The application stored ``[first, stop)``: acks leave with the next actions.

        Raises:
            BadArgument: a number that was never delivered, or the wrong ack mode.
        """
        if self._context.config.ack_mode is not AckMode.ON_STORED:
            raise BadArgument("stored() is for ack mode ON_STORED")
        if reliable:
            if not self._reliable.received.covers(first, stop):
                raise BadArgument(f"not all of {first}…{stop - 1} was received")
            self._reliable.store(first, stop)
        else:
            low = max(first, self._unreliable.mark)
            if not self._unreliable.received.covers(low, stop):
                raise BadArgument(f"not all of {first}…{stop - 1} was received")
            self._unreliable.store(low, stop)
        self._context.due[self.channel] = None

    def refused(self, first: int, stop: int) -> None:
        """The application had no room for the datagram messages ``[first, stop)``.

        Raises:
            BadArgument: the wrong ack mode.
        """
        if self._context.config.ack_mode is not AckMode.ON_STORED:
            raise BadArgument("refused() is for ack mode ON_STORED")
        for piece in self._unreliable.refuse(first, stop):
            self._unreported.refused(*piece)
        self._context.due[self.channel] = None

    def dequeued(self, size: int, now: float) -> None:
        """The application is done with ``size`` bytes: DEQUEUED goes at once when enough has
        gathered, else shortly (AQ-FLOW-6)."""
        context = self._context
        if not size or not context.flow.active or context.flow.own is None:
            return
        self._unreported.gathered += size
        enough = context.flow.own.dequeue_threshold(self.buffer)
        if enough is not None and self._unreported.gathered >= enough:
            context.due[self.channel] = None
        else:
            context.credit_due.add(self.channel, now)

    # --- acks --------------------------------------------------------------------------

    def _ack_shortly(self, now: float) -> None:
        self._context.acks_due.add(self.channel, now)

    def _ack_early(self, now: float) -> None:
        if self._unreliable.whole:
            self._ack_shortly(now)

    def _set_deadline(self) -> None:
        deadline = self._unreliable.deadline
        if deadline is not None:
            self._context.timers.set((Timer.RECEIPT_DEADLINE, self.channel), deadline)

    def deadline_passed(self, now: float) -> None:
        """What is declared and not here by now is lost; answers leave with the next actions."""
        self._unreliable.expire(now)
        self._count_ranges()
        self._set_deadline()
        self._context.due[self.channel] = None

    def flush(self) -> None:
        """Write the acks and nacks that may go now, and the credit that has gathered."""
        self._context.acks_due.cancel(self.channel)
        self._write_acks(NO_ANSWER if self._datagrams is None else self._datagrams.answer())
        if self._unreported.gathered:
            self._context.credit_due.cancel(self.channel)
            count = self._unreported.take(self._context.credit.queued(self.channel))
            if count:
                frame = codec.encode_dequeued(count)
                self._context.outbox.write(self.control_stream(), frame, Rank.RECEIVER)

    def _write_acks(self, answer: tuple[list[int], list[Range]]) -> None:
        ranges = self._reliable.take()
        lengths, nacked = answer
        if not ranges and not lengths:
            return
        frames = codec.encode_acks(ranges, lengths)
        self._context.outbox.write(self.control_stream(), frames, Rank.RECEIVER)
        for first, stop in ranges:
            self._acked += stop - first
        if lengths:
            self._count_ranges()
            self._unreliable_acked += sum(lengths[::2])
            self._acked += sum(lengths[::2])
        self._settle(ranges, lengths, nacked)
        for first, stop in nacked:
            self._nacked += stop - first
            if self.visible:
                self._context.events.emit(Nacked(self.channel, first, stop))

    def _settle(self, ranges: list[Range], lengths: list[int], nacked: list[Range]) -> None:
        """What depends on acks: channels that these messages carried, and credit for them."""
        acked = []
        if lengths:
            position = self._unreliable.mark - sum(lengths)
            for i, length in enumerate(lengths):
                if not i % 2:
                    acked.append((position, position + length))
                    self._unreported.acked(position, position + length)
                position += length
        remote_lineage = self._context.remote_lineage
        if remote_lineage.carries(self.channel):
            remote_lineage.answered(self.channel, True, ranges, acked=True)
            remote_lineage.answered(self.channel, False, acked, acked=True)
            remote_lineage.answered(self.channel, False, nacked, acked=False)

    def acked(self, reliable: bool, first: int, stop: int) -> list[Range]:
        """Of messages ``[first, stop)``, which all came, those whose acks have left."""
        if reliable:
            return self._reliable.acked(first, stop)
        stop = min(stop, self._unreliable.mark)
        return [(first, stop)] if first < stop else []

    def complete(self) -> bool:
        """Whether it finishes and may end: all reliable messages may be acked, all datagram ones
        are settled, and the application agrees; it learns of it when nothing is missing."""
        if self._finish_at is None or self.state is not ReceiverState.FINISHING:
            return False
        if not self._confirmed:
            if not self._announced:
                self._announce(self._finish_at)
            return False
        return self._reliable.complete(self._finish_at) and (
            self._unreliable.settled or self._unreliable.whole
        )

    def _announce(self, finish_at: int) -> None:
        """Emit ``Complete`` if nothing is missing; the application is to confirm the finish."""
        if not self.visible or not self._reliable.received.covers(0, finish_at):
            return
        if not self._unreliable.settled:
            if not self._unreliable.whole:
                return
            self._write_acks(self._unreliable.answer())
        self._announced = True
        self._context.events.emit(Complete(self.channel, self.counts()))

    def confirm(self) -> None:
        """The application has noted the finish: the half may end."""
        self._confirmed = True
        self._context.due[self.channel] = None

    def control_stream(self) -> int:
        """The stream of all acks and CLOSE_RECEIVER (AQ-ACK-9). The first call opens it, with
        ROUTE_TO as its first frame (AQ-LIFE-3)."""
        if self._control is None:
            outbox = self._context.outbox
            self._control = outbox.open(Rank.RECEIVER)
            outbox.write(self._control, codec.encode_route_to(self.channel), Rank.RECEIVER)
            self.routed = True
        return self._control

    # --- the end -----------------------------------------------------------------------

    def shut(self, cause: ReceiverInput) -> int | None:
        """Acks, CLOSE_RECEIVER, the end of the stream; the stream that lingers, if it does."""
        self.step(cause)
        self._write_acks(self._unreliable.last_answer())
        stream_id = self.control_stream()
        self._context.outbox.write(
            stream_id, codec.CLOSE_RECEIVER, Rank.RECEIVER, end=not self._local
        )
        self._cancel_timers()
        return stream_id if self._local else None

    def destroy(self, cause: ReceiverInput) -> None:
        """FORGET_CHANNEL came, or the channel is lost: no acks, abandon the stream."""
        self.step(cause)
        if self._control is not None:
            self._context.outbox.reset(self._control, ResetCode.LOST)
        self._cancel_timers()

    def _cancel_timers(self) -> None:
        self._count_ranges()
        self._context.acks_due.cancel(self.channel)
        self._context.credit_due.cancel(self.channel)
        self._context.timers.cancel((Timer.RECEIPT_DEADLINE, self.channel))
        self._context.due.pop(self.channel, None)

    def counts(self) -> Counts:
        return Counts(
            reliable_sent=self._finish_at or 0,
            reliable_received=self._reliable.received.count,
            unreliable_sent=self._unreliable.declared,
            acked=self._acked,
            nacked=self._nacked,
            late=self._late,
            unreliable_acked=self._unreliable_acked,
        )
