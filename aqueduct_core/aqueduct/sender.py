"""The sending half of a channel (reference §3.3, AQ-SEND-1…15, AQ-LIFE-13)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat, starmap

from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.context import ConnectionContext, Timer
from aqueduct_core.aqueduct.datagrams import DatagramMessage, DatagramNumbers
from aqueduct_core.aqueduct.events import Counts, Dropped, End
from aqueduct_core.aqueduct.faults import Code, NotAllowed, PeerFault, ResetCode
from aqueduct_core.aqueduct.flow import Account, SendVerdict
from aqueduct_core.aqueduct.outbox import Rank
from aqueduct_core.aqueduct.sender_table import REFUSED, SENDER_TABLE, SenderInput, SenderState
from aqueduct_core.aqueduct.wire import blocks, chanid, codec
from aqueduct_core.aqueduct.wire.frames import AckNackUnreliable, AckReliable
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Attachment, Headers
from aqueduct_core.primitives.ranges import Range, RangeSet


class SenderHalf:
    """Carries messages out, and knows which were acked.

    Ends when: the peer sends CLOSE_RECEIVER or FORGET_CHANNEL, or the channel is lost.
    Holds: no message bytes (those that wait are in ``SendQueues``); two ranges of numbers, the
    stream of each un-acked message that has a stream of its own, and what is outstanding.
    Datagram messages are numbered when the link takes them and declared when they have left it;
    the finish waits for the last of them.
    """

    def __init__(self, channel: int, context: ConnectionContext, *, visible: bool) -> None:
        self.channel = channel
        self.visible = visible
        self.discarded = False  # before the application knew it: nobody wants to know its end
        self.routed = False
        self.state = SenderState.OPEN
        self.mode: Mode | None = None
        self.reliable_sent = 0
        self.account = Account(channel)
        self.blocked_by = SendVerdict.GO  # why the last message that could not go had to wait
        self._context = context
        self._route = codec.encode_route_to(channel)
        self._datagrams = DatagramNumbers()
        self._control: int | None = None
        self._own_streams: dict[int, int] = {}  # its last message → stream, until acked
        self._run_room = 0  # bytes of frames for which the packet of the last of them has room
        self._acked = RangeSet()
        self._peer_control: int | None = None

    @property
    def open(self) -> bool:
        """It is neither finished nor cancelled, nor gone."""
        return self.state is SenderState.OPEN

    @property
    def gone(self) -> bool:
        return self.state is SenderState.GONE

    # --- the application ---------------------------------------------------------------

    def step(self, given: SenderInput) -> None:
        """Make a transition.

        Raises:
            NotAllowed: the table refuses it.
        """
        after = SENDER_TABLE[self.state][given]
        if after is REFUSED:
            raise NotAllowed(
                f"channel {self.channel} is {self.state.name.lower()}: no {given.name.lower()}"
            )
        self.state = after

    def check_send(self, mode: Mode, count: int) -> None:
        """Raises NotAllowed unless ``count`` more messages may go out in ``mode``."""
        if self.state is not SenderState.OPEN:
            self.step(SenderInput.SEND)
        if self.mode is not None and self.mode is not mode:
            raise NotAllowed(f"channel {self.channel} is {self.mode.value}, not {mode.value}")
        if chanid.oneshot(self.channel) and count > 1:  # the first one finishes it
            raise NotAllowed(f"channel {self.channel} carries one message at most")

    @property
    def waiting(self) -> int:
        """Messages in the send queue."""
        return self._context.queues.waiting(self.channel)

    def send(
        self,
        payload: bytes,
        headers: Headers,
        attachments: tuple[Attachment, ...],
        mode: Mode,
        now: float,
    ) -> tuple[int, bool] | SendVerdict:
        """Put one message out; its number and whether it is a reliable one (AQ-SEND-4), or for
        want of what it has to wait (nothing has changed then)."""
        self.mode = mode
        if mode is Mode.UNRELIABLE:
            answer = self._send_datagram(payload, headers, attachments, now)
            if answer is not None:
                return answer
        return self._send_on_stream(payload, headers, attachments)

    def sent_one(self) -> None:
        """A oneshot finishes by itself (AQ-SEND-14)."""
        if chanid.oneshot(self.channel):
            self.finish()

    def _send_on_stream(
        self, payload: bytes, headers: Headers, attachments: Sequence[Attachment]
    ) -> tuple[int, bool] | SendVerdict:
        context = self._context
        number = self.reliable_sent
        head = codec.message_head(number, headers, attachments, len(payload))
        size = len(head) + len(payload)
        verdict = context.flow.verdict(self.account, size)
        if verdict is not SendVerdict.GO:
            return verdict
        data, brings = head + payload, bool(attachments)
        if brings or not self._joins_run(number, data):
            if not self._stream_free:
                return SendVerdict.STREAMS
            own = self.mode is not Mode.ORDERED
            stream_id = self._open(Rank.MESSAGE) if own else self.control_stream()
            context.outbox.write(stream_id, data, Rank.MESSAGE, end=own, urgent=brings)
            if own:
                self._own_streams[number] = stream_id
                self._run_room = 0 if brings else self._packet - size
                context.message_streams += 1
        context.flow.sent(self.account, size)
        self.reliable_sent = number + 1
        return number, True

    def _joins_run(self, number: int, data: bytes) -> bool:
        """Put a message behind the one before it, where that has not left and one packet takes
        both: as messages in bulk do (`_send_runs`)."""
        runs = self.mode is Mode.UNORDERED and self._context.flow.peer_takes_runs
        if not runs or len(data) > self._run_room:
            return False
        stream_id = self._own_streams.get(number - 1)
        if stream_id is None or not self._context.outbox.extend(stream_id, data):
            return False
        self._own_streams[number] = self._own_streams.pop(number - 1)
        self._run_room -= len(data)
        return True

    @property
    def _packet(self) -> int:
        """Bytes of frames on a stream that has one packet, about."""
        context = self._context
        return (context.datagram_size or context.config.max_datagram_size) - len(self._route)

    @property
    def may_go(self) -> bool:
        """Whether a short message could go at once."""
        datagram = self.mode is Mode.UNRELIABLE and self._context.datagram_size > 0
        return (
            not self.waiting
            and (self._context.link.takes(1) if datagram else self._stream_free)
            and self._context.flow.verdict(self.account, 1) is SendVerdict.GO
        )

    @property
    def _stream_free(self) -> bool:
        """Whether the next message on a stream has one, with those left for control (H12)."""
        if self.mode is not Mode.ORDERED:
            return self._context.single_stream_free
        return self._control is not None or self._context.message_stream_free

    def _send_datagram(
        self, payload: bytes, headers: Headers, attachments: tuple[Attachment, ...], now: float
    ) -> tuple[int, bool] | SendVerdict | None:
        """As ``send``; None when the sequence does not fit a datagram (AQ-SEND-3)."""
        context = self._context
        number = self._datagrams.sent
        if len(payload) >= context.datagram_size:
            return None
        frame = codec.encode_message(number, headers, attachments, payload)
        sequence = context.outbox.prefixed(self._route + frame)
        if len(sequence) > context.datagram_size:
            return None
        verdict = context.flow.verdict(self.account, len(frame))
        if verdict is not SendVerdict.GO:
            return verdict
        if not context.link.takes(len(sequence)):
            return SendVerdict.LINK
        context.flow.sent_datagram(self.account, len(frame))
        token = context.outbox.datagram(sequence)
        context.refusable.add(
            token, DatagramMessage(self.channel, number, headers, attachments, payload)
        )
        self.routed = True
        self._datagrams.sent += 1
        self._datagrams.in_link += 1
        if not context.link.add(token, self.channel, len(sequence)):
            self.left(now)
        return number, False

    def left(self, now: float) -> None:
        """The oldest datagram message in the link has left it: it is declared shortly."""
        self._datagrams.in_link -= 1
        if self.state is not SenderState.CANCELLING:
            context = self._context
            context.timers.sooner((Timer.DECLARE, self.channel), now + context.declare_delay)
        self.end_messages()

    def datagram_room(self, count: int) -> int:
        """See ``AqueductEngine.datagram_room``."""
        last, size = self._datagrams.sent + max(count, 1) - 1, self._context.datagram_size
        head = codec.message_head(last, (), (), size)
        return size - len(self._context.outbox.prefixed(self._route)) - len(head)

    def send_many(
        self, payloads: Sequence[bytes], headers: HeaderColumn | None, mode: Mode, now: float
    ) -> tuple[int, int]:
        """Put messages out, as many as may go now; their numbers, ``[first, stop)``."""
        self.mode = mode
        datagrams = mode is Mode.UNRELIABLE and self._context.datagram_size > 0
        first = stop = self._datagrams.sent if datagrams else self.reliable_sent
        if self.waiting:
            return first, first
        if mode is Mode.ORDERED:
            stop += self._send_block(payloads, headers)
        elif mode is Mode.UNORDERED and self._context.flow.peer_takes_runs:
            stop += self._send_runs(payloads, headers)
        else:
            for payload, own in zip(payloads, headers or repeat(()), strict=False):
                if datagrams:
                    answer = self._send_datagram(payload, own, (), now)
                else:
                    answer = self._send_on_stream(payload, own, ())
                if not isinstance(answer, tuple):
                    self.blocked_by = answer or self.blocked_by
                    break
                stop += 1
        if stop > first:
            self.sent_one()
        return first, stop

    def _send_block(self, payloads: Sequence[bytes], headers: HeaderColumn | None) -> int:
        """Put consecutive messages on the message stream; how many have credit."""
        flow, first = self._context.flow, self.reliable_sent
        count = flow.grant(self.account, first, payloads, headers) if self._stream_free else 0
        if count < len(payloads):
            self.blocked_by = SendVerdict.CHANNEL if self._stream_free else SendVerdict.STREAMS
        if not count:
            return 0
        headers = None if headers is None else headers.part(0, count)
        frames = blocks.encode_block(first, payloads[:count], headers)
        self._context.outbox.write(self.control_stream(), frames, Rank.MESSAGE)
        flow.sent(self.account, len(frames))
        self.reliable_sent += count
        return count

    def _send_runs(self, payloads: Sequence[bytes], headers: HeaderColumn | None) -> int:
        """Put messages on streams of their own, together as many as a packet holds: they get lost
        together in any case, and none waits for another one. How many could go."""
        context, first = self._context, self.reliable_sent
        count = context.flow.grant(self.account, first, payloads, headers)
        if count < len(payloads):
            self.blocked_by = SendVerdict.CHANNEL
        for start, stop in blocks.runs(first, payloads[:count], headers, self._packet):
            if not self._stream_free:
                self.blocked_by = SendVerdict.STREAMS
                break
            part = None if headers is None else headers.part(start, stop)
            frames = blocks.encode_block(first + start, payloads[start:stop], part)
            stream_id = self._open(Rank.MESSAGE)
            context.outbox.write(stream_id, frames, Rank.MESSAGE, end=True)
            self._own_streams[first + stop - 1] = stream_id
            self._run_room = self._packet - len(frames)
            context.message_streams += 1
            context.flow.sent(self.account, len(frames))
            self.reliable_sent = first + stop
        return self.reliable_sent - first

    def send_again(self, message: DatagramMessage) -> int | None:
        """The transport refused this datagram: give its number back and use a stream (AQ-SEND-5).

        The reliable number it got; None when it counts as sent, for the peer to nack.
        """
        if self.state is not SenderState.OPEN or not self._datagrams.may_take_back(message.number):
            return None
        flow = self._context.flow
        size = flow.unsent_datagram(self.account)
        answer = self._send_on_stream(message.payload, message.headers, message.attachments)
        if isinstance(answer, SendVerdict):
            flow.sent_datagram(self.account, size)
            return None
        self._datagrams.take_back()
        return answer[0]

    def finish(self) -> None:
        """No more messages: the end goes behind those that wait (AQ-FLOW-11)."""
        self.step(SenderInput.FINISH)
        self.end_messages()

    def end_messages(self) -> None:
        """Once all has left that was sent before ``finish``: FINISH_SENDER, behind all
        SENT_UNRELIABLE, and the end of the stream (AQ-SEND-8, 9)."""
        if self.state is not SenderState.FINISHING or self.waiting or self._datagrams.in_link:
            return
        self.declare()
        self._write_control(codec.encode_finish_sender(self.reliable_sent), end=True)

    def cancel(self) -> None:
        """CANCEL_SENDER on a fresh stream; the message streams are reset (AQ-SEND-10)."""
        self.step(SenderInput.CANCEL)
        self.drop_queue()
        self._drop_streams(ResetCode.CANCELLED)
        stream_id = self._open(Rank.SENDER)
        self._context.outbox.write(stream_id, codec.CANCEL_SENDER, Rank.SENDER, end=True)
        self._context.timers.cancel((Timer.DECLARE, self.channel))

    def drop_queue(self) -> None:
        """What waits will not be sent; the channels that it carries are lost (AQ-SEND-12)."""
        count = self._context.queues.drop(self.channel)
        self._context.flow.leave_line(self.channel)
        if count and self.visible:
            self._context.events.emit(Dropped(self.channel, count))

    # --- streams of ours ---------------------------------------------------------------

    def _open(self, rank: Rank) -> int:
        stream_id = self._context.outbox.open(rank)
        self._context.outbox.write(stream_id, self._route, rank)
        self.routed = True
        return stream_id

    def control_stream(self) -> int:
        """The stream of SENT_UNRELIABLE and FINISH_SENDER; in ordered mode of all messages. It is
        opened by the first call, with ROUTE_TO as its first frame (AQ-LIFE-3)."""
        if self._control is None:
            self._control = self._open(Rank.MESSAGE if self.mode is Mode.ORDERED else Rank.SENDER)
        return self._control

    def _write_control(self, frame: bytes, *, end: bool = False) -> None:
        rank = Rank.MESSAGE if self.mode is Mode.ORDERED else Rank.SENDER
        self._context.outbox.write(self.control_stream(), frame, rank, end=end)

    def ask(self) -> None:
        """Route a sequence to the creator, which answers if it has lost the channel (AQ-LIFE-4)."""
        self._context.outbox.write(self._open(Rank.SENDER), b"", Rank.SENDER, end=True)

    def declare(self) -> None:
        """SENT_UNRELIABLE for what has left and was not declared yet (AQ-SEND-6)."""
        if self.state is not SenderState.CANCELLING and (more := self._datagrams.declare()):
            self._write_control(codec.encode_sent_unreliable(more))
        self._context.timers.cancel((Timer.DECLARE, self.channel))

    def _drop_streams(self, code: ResetCode) -> None:
        """Reset every stream that carries messages under way; end what else is open."""
        outbox = self._context.outbox
        self._context.singles_over(len(self._own_streams))
        for stream_id in self._own_streams.values():
            outbox.reset(stream_id, code)
        self._own_streams.clear()
        if self._control is None:
            return
        carries = self.mode is Mode.ORDERED and self._acked.count < self.reliable_sent
        if carries or code is ResetCode.LOST:
            outbox.reset(self._control, code)
        else:
            outbox.write(self._control, b"", Rank.SENDER, end=True)  # if it has not ended

    # --- the peer's receiver -----------------------------------------------------------

    def _same_stream(self, stream_id: int) -> None:
        """Check that the receiver's frames share one stream (AQ-ACK-9)."""
        if self._peer_control not in (None, stream_id):
            raise PeerFault(Code.STATE, f"acks of channel {self.channel} on more than one stream")
        self._peer_control = stream_id

    def ack_reliable(self, frame: AckReliable, stream_id: int) -> list[Range]:
        """The ranges that are acked by it for the first time (AQ-ACK-3)."""
        self._same_stream(stream_id)
        if frame.ranges[-1][1] > self.reliable_sent:
            raise PeerFault(Code.ACK, f"an ack on channel {self.channel} of a message never sent")
        ranges = len(self._acked)
        new = [piece for acked in frame.ranges for piece in self._acked.add(*acked)]
        self._context.ranges += len(self._acked) - ranges
        if len(self._acked) > self._context.config.max_ranges_per_space:
            raise PeerFault(Code.RESOURCE_LIMIT, "too many holes in the acked numbers")
        if self._own_streams:
            before = len(self._own_streams)
            for number in chain.from_iterable(starmap(range, new)):  # of ours, each once
                self._own_streams.pop(number, None)
            self._context.singles_over(before - len(self._own_streams))
        return new

    def ack_nack(self, frame: AckNackUnreliable, stream_id: int) -> tuple[list[Range], list[Range]]:
        """The datagram numbers it acks and nacks; both go on from the last such frame."""
        self._same_stream(stream_id)
        answers = self._datagrams.answer(frame.lengths)
        self._context.flow.answered(self.account, frame.lengths)
        return answers

    def dequeued(self, count: int, stream_id: int) -> None:
        """DEQUEUED came; without flow control it means nothing (AQ-FLOW-2)."""
        if self._context.flow.active:
            self._same_stream(stream_id)
            self._context.flow.dequeued(self.account, count)

    # --- the end -----------------------------------------------------------------------

    def open_numbers(self) -> tuple[list[Range], list[Range]]:
        """Reliable and datagram numbers that were neither acked nor nacked."""
        return self._acked.missing(0, self.reliable_sent), self._datagrams.open

    def closed_by_peer(self, stream_id: int) -> End:
        """CLOSE_RECEIVER came; how that ends the half (AQ-LIFE-13)."""
        self._same_stream(stream_id)
        before = self.state
        complete = not self.waiting and self._acked.covers(0, self.reliable_sent)
        self.step(SenderInput.CLOSE_RECEIVER)
        self._abandon(ResetCode.NONE)
        if before is SenderState.CANCELLING:
            return End.CANCELLED
        if before is SenderState.FINISHING and complete:
            return End.FINISHED
        return End.CLOSED

    def destroy(self, cause: SenderInput) -> None:
        """FORGET_CHANNEL came, or the channel is lost: abandon every stream."""
        self.step(cause)
        self._abandon(ResetCode.LOST)

    def _abandon(self, code: ResetCode) -> None:
        """Nothing more goes out, and what is outstanding is the peer's no more (AQ-FLOW-7)."""
        self.drop_queue()
        self._drop_streams(code)
        self._context.flow.closed(self.account)
        self._context.ranges -= len(self._acked)
        self._context.timers.cancel((Timer.DECLARE, self.channel))

    def counts(self) -> Counts:
        sent, acked = self._datagrams.sent, self._acked.count + self._datagrams.acked
        nacked = self.reliable_sent + sent - acked
        return Counts(self.reliable_sent, unreliable_sent=sent, acked=acked, nacked=nacked)
