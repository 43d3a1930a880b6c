"""Frames are those of the library, and so is what is left of the stream."""

from __future__ import annotations

import pytest
from aioquic._buffer import Buffer
from aioquic.quic.packet_builder import QuicDeliveryState
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.transport.aioquic.sent_packets import SentFrame
from aqueduct_core.transport.aioquic.stream_frames import append_frame, cut, has_bytes, varint
from aqueduct_core.transport.aioquic.streams import NO_RECEIVER, Stream, StreamSender

CONTENT = bytes(range(256)) * 400


class Connection:
    """The owner of streams, as far as a sender asks it."""

    unacknowledged = untaken = 0

    def wake(self, stream_id: int) -> None: ...

    def release(self, count: int) -> None: ...

    def scatter(self, ranges: int, size: int) -> None: ...


def stream(number: int, limit: int) -> Stream:
    sender = StreamSender(Connection(), number)
    return Stream(number, receiver=NO_RECEIVER, sender=sender, remote=limit)


def library_frame(of: Stream, room: int, credit: int) -> tuple[bytes, int]:
    """As ``_write_stream_frame`` of aioquic, with its ``max_offset``."""
    sender = of.sender
    offset = len(varint(sender.next_offset)) if sender.next_offset else 0
    overhead = 3 + len(varint(of.number)) + offset
    highest = sender.highest_offset
    most = min(highest + credit, of.max_stream_data_remote)
    frame = sender.get_frame(room - overhead, most)
    if frame is None:
        return b"", 0
    buffer = Buffer(capacity=len(frame.data) + 30)
    buffer.push_uint_var(0x0A | (4 if frame.offset else 0) | frame.fin)
    buffer.push_uint_var(of.number)
    if frame.offset:
        buffer.push_uint_var(frame.offset)
    buffer.push_uint16(len(frame.data) | 0x4000)
    buffer.push_bytes(frame.data)
    return buffer.data, sender.highest_offset - highest


def standing(of: Stream) -> tuple[object, ...]:
    sender = of.sender
    return list(sender._pending), sender._pending_eof, sender.highest_offset


@pytest.mark.parametrize(
    "value", [0, 0x3F, 0x40, 0x3FFF, 0x4000, 0x3FFF_FFFF, 0x4000_0000, (1 << 62) - 1]
)
def test_integers_are_written_the_shortest_way(value: int) -> None:
    buffer = Buffer(capacity=8)
    buffer.push_uint_var(value)
    assert varint(value) == buffer.data


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "end", "frame", "frame", "cut", "lose", "ack"]),
        st.integers(0, 3_000),
        st.integers(0, 3_000),
    ),
    max_size=40,
)


@given(STEPS, st.sampled_from([0, 2, 70, 20_002]), st.sampled_from([2_000, 100_000]))
def test_each_step_is_that_of_the_library(
    steps: list[tuple[str, int, int]], number: int, limit: int
) -> None:
    ours, theirs = stream(number, limit), stream(number, limit)
    sent: list[SentFrame] = []
    written = 0
    for step, size, credit in steps:
        if step in ("write", "end"):
            if ours.sender._buffer_fin is None:
                for each in (ours, theirs):
                    data = CONTENT[written : written + size]
                    each.sender.write(data, step == "end")
                written += len(data)
        elif step == "frame":
            parts: list[bytes | bytearray] = []
            frames: list[SentFrame] = []
            taken, fresh = append_frame(ours, size, credit, parts, frames)
            expected = library_frame(theirs, size, credit)
            assert (b"".join(parts), fresh) == expected
            assert taken == len(expected[0])
            sent += frames
        elif step == "cut" and has_bytes(ours) and size >= 30:
            payloads: list[bytes] = []
            packets: list[list[SentFrame]] = []
            fresh = cut(ours, size, 4, credit, payloads, packets)
            left = credit
            for payload in payloads:
                frame, new = library_frame(theirs, size, left)
                assert payload == frame
                left -= new
            assert fresh == credit - left
            sent += [frame for held in packets for frame in held]
        elif step in ("lose", "ack") and sent:
            _, start, stop, fin = sent.pop(size % len(sent))
            state = QuicDeliveryState.LOST if step == "lose" else QuicDeliveryState.ACKED
            for each in (ours, theirs):
                each.sender.on_data_delivery(state, start, stop, fin)
        assert standing(ours) == standing(theirs)
        assert has_bytes(ours) == bool(len(theirs.sender._pending))
