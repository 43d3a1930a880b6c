"""Receiving halves of streams beside the library's own, frame by frame."""

from __future__ import annotations

import pytest
from aioquic.quic.packet import QuicStreamFrame
from aioquic.quic.stream import FinalSizeError, QuicStreamReceiver

from aqueduct_core.transport.aioquic.streams import StreamReceiver
from tests.core.transport.aioquic.test_traces import Owner


def test_an_empty_frame_far_ahead_is_not_forgotten_by_the_short_way() -> None:
    """It says how far the stream goes at least, and its credit has been counted."""
    ours, theirs = StreamReceiver(Owner(), 2), QuicStreamReceiver(2, readable=True)
    for half in (ours, theirs):
        half.handle_frame(QuicStreamFrame(b"", False, 35))
    assert not ours.advance(0, 17)
    for half in (ours, theirs):
        event = half.handle_frame(QuicStreamFrame(bytes(17), False, 0))
        assert event is not None
        assert half.highest_offset == 35
        with pytest.raises(FinalSizeError, match="beyond"):
            half.handle_frame(QuicStreamFrame(b"", True, 31))


def test_another_end_is_told_as_such() -> None:
    for half in (StreamReceiver(Owner(), 2), QuicStreamReceiver(2, readable=True)):
        half.handle_frame(QuicStreamFrame(b"", True, 9))
        half.handle_frame(QuicStreamFrame(b"xyz", False, 4))
        with pytest.raises(FinalSizeError, match="change"):
            half.handle_frame(QuicStreamFrame(b"", True, 5))
