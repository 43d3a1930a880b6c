"""Routed frames to the methods of the half that they are for."""

from __future__ import annotations

from aqueduct_core.aqueduct.channels import Channels, Half
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
    """The grammar has checked who may send which frame, so a MESSAGE always meets a receiver
    and an ack always a sender."""

    def __init__(self, channels: Channels, wiring: ConnectionContext) -> None:
        self._channels = channels
        self._wiring = wiring
        self.messages = 0
        self.overflows = 0

    def behind(self, channel: int) -> bool:
        """Whether the application has much of this channel to consume yet."""
        wiring = self._wiring
        return wiring.credit.queued(channel) > wiring.config.early_credit_bytes

    def frame(self, half: Half, frame: Routed, stream_id: int, credit: int, now: float) -> bool:
        """Whether the frame's credit is kept until the application consumed it."""
        if self._channels.idle.on:
            self._channels.idle.touched(half.channel, now)
        if isinstance(half, ReceiverHalf):
            if isinstance(frame, Block) and not half.admits(frame.first, len(frame.lengths)):
                return self._one_by_one(half, frame, stream_id, credit, now)
            if isinstance(frame, MessageFrame | Block):
                return self._message(half, frame, stream_id, credit, now)
            self._to_receiver(half, frame, stream_id, now)
        else:
            self._to_sender(half, frame, stream_id, now)
        return False

    def _one_by_one(
        self, half: ReceiverHalf, block: Block, stream_id: int, credit: int, now: float
    ) -> bool:
        """Something in the block is wrong: what is before it counts, as with any other split of
        the bytes (AQ-SEQ-9)."""
        for message in block.messages():
            share = min(credit, message.size)
            credit -= share
            if half.gone:
                self._wiring.outbox.consumed(stream_id, share)
            else:
                self._message(half, message, stream_id, share, now)
        return True

    def _message(
        self,
        half: ReceiverHalf,
        frame: MessageFrame | Block,
        stream_id: int,
        credit: int,
        now: float,
    ) -> bool:
        wiring = self._wiring
        reliable = stream_id != DATAGRAM
        if isinstance(frame, Block):
            first, count = frame.first, len(frame.lengths)
        else:
            first, count = frame.number, 1
        if reliable:
            half.arrive_reliable(first, first + count, now)
        elif self._over(half.channel, frame.size):
            self.overflows += 1
            return False  # the same as loss: it will be nacked
        elif not half.arrive_unreliable(first, frame.size, now):
            return False
        attachments = frame.attachments if isinstance(frame, MessageFrame) else ()
        if attachments:
            self._channels.claim(attachments, now)
        self.messages += count
        if not half.visible:
            run = half.wait(frame, reliable=reliable)
        elif isinstance(frame, Block):
            run = wiring.bulletin.block(half.channel, frame)
        else:
            run = wiring.bulletin.message(half.channel, reliable, frame)
        pieces = wiring.credit.owe(half.channel, stream_id, frame.size, credit, run=run)
        if not half.visible:
            self._channels.wait(frame.size, pieces)
        elif attachments:
            self._channels.reveal(half.channel, reliable, first, attachments)
        if self._over(half.channel, 0):
            self.overflows += 1
            self._channels.close(half, ReceiverInput.CLOSE, End.OVERFLOW, now)
        else:
            self._channels.finish_check(half, now)
        return True

    def _over(self, channel: int, more: int) -> bool:
        """Whether the application left more unconsumed than a limit allows (H5)."""
        credit, config = self._wiring.credit, self._wiring.config
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
            self._channels.finish_check(half, now)
        elif isinstance(frame, CancelSender):
            self._channels.close(half, ReceiverInput.CANCEL_SENDER, End.CANCELLED, now)

    def _to_sender(self, half: SenderHalf, frame: Routed, stream_id: int, now: float) -> None:
        if isinstance(frame, AckReliable):
            half.from_peer(stream_id)
            self._channels.delivered(half, True, half.ack_reliable(frame), True, now)
        elif isinstance(frame, AckNackUnreliable):
            half.from_peer(stream_id)
            acked, nacked = half.ack_nack(frame)
            self._channels.delivered(half, False, acked, True, now)
            self._channels.delivered(half, False, nacked, False, now)
        elif isinstance(frame, CloseReceiver):
            half.from_peer(stream_id)
            self._channels.closed_by_peer(half, now)
        elif isinstance(frame, Dequeued) and self._wiring.flow.active:
            half.from_peer(stream_id)
            self._wiring.flow.dequeued(half.account, frame.num_bytes)
