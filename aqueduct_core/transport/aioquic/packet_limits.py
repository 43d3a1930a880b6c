"""aioquic's connection, made to refuse packets that are all work and no progress.

A frame of one byte takes as long to handle as one that fills a packet, so a packet of a thousand
PINGs or acknowledgements costs what fifty honest ones do. RFC 9000 §21.9 lets an endpoint end a
connection whose peer sends such things in excess. What is excess is counted in each packet alone,
for what a peer sends in many packets costs it as much as anything else does.
"""

from __future__ import annotations

from typing import Any

from aioquic.quic.connection import QuicConnectionError, QuicReceiveContext
from aioquic.quic.packet import QuicErrorCode

from aqueduct_core.transport.aioquic.sent_numbers import NumberedConnection

MOST_FRAMES = 256
"""Frames of a packet, about as many as an honest one holds of the smallest that limit or end
streams; in one that is larger than usual, one for each ``LEAST_BYTES``."""
LEAST_BYTES = 4
MOST_ACK_RANGES = 256
"""Ranges of an ACK frame, each of which costs a third of a frame; honest ends name 64 at most, or
some more."""
IDLE_SHARE = 8
"""Frames for which one counts of a kind that a packet needs a few of at most."""


class LimitedConnection(NumberedConnection):
    """A ``NumberedConnection`` that is closed by a packet of too many frames."""

    _frames_left = MOST_FRAMES

    def _payload_received(
        self,
        context: QuicReceiveContext,
        plain: bytes,
        crypto_frame_required: bool = False,
    ) -> tuple[bool, bool]:
        self._frames_left = max(MOST_FRAMES, len(plain) // LEAST_BYTES)
        return super()._payload_received(context, plain, crypto_frame_required)

    def _handle_ack_frame(self, context: QuicReceiveContext, frame_type: int, buf: Any) -> None:
        self._spend(frame_type, IDLE_SHARE)
        start = buf.tell()
        _, _, ranges = (buf.pull_uint_var() for _ in range(3))
        if ranges > MOST_ACK_RANGES:
            raise _excess(frame_type, f"an acknowledgement of {ranges} ranges")
        buf.seek(start)
        super()._handle_ack_frame(context, frame_type, buf)

    def _spend(self, frame_type: int, frames: int) -> None:
        self._frames_left -= frames
        if self._frames_left < 0:
            raise _excess(frame_type, "a packet of too many frames")


def _excess(frame_type: int, reason: str) -> QuicConnectionError:
    return QuicConnectionError(
        error_code=QuicErrorCode.INTERNAL_ERROR, frame_type=frame_type, reason_phrase=reason
    )


def _counted(name: str, frames: int) -> None:
    handle = getattr(NumberedConnection, name)

    def counted(
        self: LimitedConnection, context: QuicReceiveContext, frame_type: int, buf: Any
    ) -> None:
        self._spend(frame_type, frames)
        handle(self, context, frame_type, buf)

    setattr(LimitedConnection, name, counted)


USEFUL = (
    "_handle_datagram_frame",
    "_handle_max_stream_data_frame",
    "_handle_reset_stream_frame",
    "_handle_stop_sending_frame",
    "_handle_stream_data_blocked_frame",
    "_handle_stream_frame",
)
IDLE = (
    "_handle_crypto_frame",
    "_handle_data_blocked_frame",
    "_handle_max_data_frame",
    "_handle_max_streams_bidi_frame",
    "_handle_max_streams_uni_frame",
    "_handle_new_connection_id_frame",
    "_handle_path_challenge_frame",
    "_handle_path_response_frame",
    "_handle_ping_frame",
    "_handle_retire_connection_id_frame",
    "_handle_streams_blocked_frame",
)

for _name in USEFUL:
    _counted(_name, 1)
for _name in IDLE:
    _counted(_name, IDLE_SHARE)
