"""Routed frames to the methods of the half that they are for."""

from __future__ import annotations

from aqueduct_core.aqueduct.channels import ChannelHalf, Channels
from aqueduct_core.aqueduct.context import ConnectionContext
from aqueduct_core.aqueduct.credit import DATAGRAM
from aqueduct_core.aqueduct.events import End
from aqueduct_core.aqueduct.receiver import ReceiverHalf, ReceiverInput
from aqueduct_core.aqueduct.sender import SenderHalf
from aqueduct_core.aqueduct.wire.frames import (
    AckNackUnreliable,
    AckReliable,
    Block,
    CancelSender,
    CloseReceiver,
    Dequeued,
    FinishSender,
    MessageFrame,
    Routed,
    SentUnreliable,
)


class Dispatch:
    """Ends with the connection. The grammar has checked who may send which frame, so a MESSAGE
    always meets a receiver and an ack always a sender.

    ``messages`` came in; ``overflows`` counts the limits of the application's queues that were met.
    """

    def __init__(self, channels: Channels, context: ConnectionContext) -> None:
        self._channels = channels
        self._context = context
        self.messages = 0
        self.overflows = 0

    def behind(self, channel: int) -> bool:
        """Whether the application has much of this channel to consume yet."""
        context = self._context
        return context.credit.queued(channel) > context.config.early_credit_bytes

    def frame(
        self, half: ChannelHalf, frame: Routed, *, stream_id: int, credit: int, now: float
    ) -> bool:
        """Whether the frame's credit is kept until the application consumed it."""
        if self._channels.idle.on:
            self._channels.idle.touched(half.channel, now)
        if not isinstance(half, ReceiverHalf):
            self._to_sender(half, frame, stream_id, now)
            return False
        if isinstance(frame, Block) and not half.admits(frame.first, len(frame.lengths)):
            self._one_by_one(half, frame, stream_id=stream_id, credit=credit, now=now)
            return True
        if isinstance(frame, MessageFrame | Block):
            return self._message(half, frame, stream_id=stream_id, credit=credit, now=now)
        self._to_receiver(half, frame, stream_id, now)
        return False

    def _one_by_one(
        self, half: ReceiverHalf, block: Block, *, stream_id: int, credit: int, now: float
    ) -> None:
        """Something in the block is wrong: what is before it counts, as with any other split of
        the bytes (AQ-SEQ-9)."""
        for message in block.messages():
            share = min(credit, message.size)
            credit -= share
            if half.gone:
                self._context.outbox.consumed(stream_id, share)
            else:
                self._message(half, message, stream_id=stream_id, credit=share, now=now)

    def _message(
        self,
        half: ReceiverHalf,
        frame: MessageFrame | Block,
        *,
        stream_id: int,
        credit: int,
        now: float,
    ) -> bool:
        """Take messages in: their numbers, the channels that they carry, the messages themselves,
        what they owe of credit, and what ends with them. Returns as ``frame``."""
        channel, size = half.channel, frame.size
        reliable = stream_id != DATAGRAM
        if isinstance(frame, Block):
            first, count = frame.first, len(frame.lengths)
        else:
            first, count = frame.number, 1
        if reliable:
            half.arrive_reliable(first, first + count, now)
        elif self._over(channel, size):
            self.overflows += 1
            return False  # the same as loss: it will be nacked
        elif not half.arrive_unreliable(first, size, now):
            return False
        attachments = frame.attachments if isinstance(frame, MessageFrame) else ()
        if attachments:
            self._channels.claim(attachments, now)
        self.messages += count
        new_batch = half.deliver(frame, reliable=reliable)
        pieces = self._context.credit.delivered(
            channel, stream_id, size=size, credit=credit, new_batch=new_batch
        )
        if not half.visible:
            self._channels.wait(size, pieces)
        elif attachments:
            self._channels.reveal(channel, reliable, first, attachments)
        if self._over(channel, 0):
            self.overflows += 1
            self._channels.close(half, ReceiverInput.CLOSE, End.OVERFLOW, now)
        else:
            self._channels.end_if_complete(half, now)
        return True

    def _over(self, channel: int, more: int) -> bool:
        """Whether the application left more unconsumed than a limit allows (H5)."""
        credit, config = self._context.credit, self._context.config
        return (
            credit.queued(channel) + more > config.max_channel_queue_bytes
            or credit.total + more > config.max_connection_queue_bytes
            or credit.pieces > config.max_queue_pieces
        )

    def _to_receiver(self, half: ReceiverHalf, frame: Routed, stream_id: int, now: float) -> None:
        if isinstance(frame, SentUnreliable):
            half.sent_unreliable(frame.additional, stream_id, now)
        elif isinstance(frame, FinishSender):
            half.finish_sender(frame.sent_reliable, stream_id)
            self._channels.end_if_complete(half, now)
        elif isinstance(frame, CancelSender):
            self._channels.close(half, ReceiverInput.CANCEL_SENDER, End.CANCELLED, now)

    def _to_sender(self, half: SenderHalf, frame: Routed, stream_id: int, now: float) -> None:
        channels = self._channels
        if isinstance(frame, AckReliable):
            new = half.ack_reliable(frame, stream_id)
            channels.answered(half, new, reliable=True, acked=True, now=now)
        elif isinstance(frame, AckNackUnreliable):
            acked, nacked = half.ack_nack(frame, stream_id)
            channels.answered(half, acked, reliable=False, acked=True, now=now)
            channels.answered(half, nacked, reliable=False, acked=False, now=now)
        elif isinstance(frame, CloseReceiver):
            channels.closed_by_peer(half, stream_id, now)
        elif isinstance(frame, Dequeued):
            half.dequeued(frame.num_bytes, stream_id)
