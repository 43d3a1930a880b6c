"""Frames of real connections with loss and reordering, through our receivers and the library's."""

from __future__ import annotations

from collections import Counter

import pytest
from aioquic.quic.packet import QuicStreamFrame
from aioquic.quic.stream import FinalSizeError, QuicStreamReceiver

from aqueduct_core.transport.aioquic.streams import CryptoReceiver, StreamReceiver
from tests.core.transport.aioquic import record_traces
from tests.core.transport.aioquic.record_traces import CODE, CONVERSATIONS, TRACES, Frame, read

CONTENT = bytes((at ^ at >> 8) & 0xFF for at in range(400_000))


class Owner:
    """The connection of our receivers."""

    def __init__(self) -> None:
        self.unacknowledged = self.ranges = self.released = 0

    def wake(self, stream_id: int) -> None:
        pass

    def release(self, count: int) -> None:
        self.released += count

    def scatter(self, ranges: int, size: int) -> None:
        self.ranges += ranges


def outcome(half: QuicStreamReceiver, frame: Frame) -> tuple[object, ...]:
    """What a receiver gives for a frame: data, end and reset; or its error."""
    try:
        if frame.kind == "reset":
            event = half.handle_reset(final_size=frame.offset, error_code=CODE)
            return ("reset", event and event.error_code)
        data = CONTENT[frame.offset : frame.offset + frame.size]
        given = half.handle_frame(QuicStreamFrame(data, frame.kind == "fin", frame.offset))
        return (given and given.data, given and given.end_stream)
    except FinalSizeError as error:
        return ("error", str(error))


def standing(half: QuicStreamReceiver) -> tuple[object, ...]:
    return half.starting_offset(), half.is_finished


def pair(name: str, owner: Owner) -> tuple[QuicStreamReceiver, QuicStreamReceiver]:
    if name.startswith("c"):
        return CryptoReceiver(), QuicStreamReceiver(None, readable=True)
    return StreamReceiver(owner, 2), QuicStreamReceiver(2, readable=True)


@pytest.mark.parametrize("shortly", [False, True], ids=["frame by frame", "the short way first"])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_library_gives_the_same_at_each_step(name: str, shortly: bool) -> None:
    owner = Owner()
    halves: dict[str, tuple[QuicStreamReceiver, QuicStreamReceiver]] = {}
    given: Counter[str] = Counter()
    short = 0
    for frame in read(TRACES / f"{name}.txt"):
        ours, theirs = halves.setdefault(frame.half, pair(frame.half, owner))
        expected = outcome(theirs, frame)
        stop = frame.offset + frame.size
        if (
            shortly
            and frame.size
            and not frame.kind
            and isinstance(ours, StreamReceiver)
            and ours.advance(frame.offset, stop)
        ):
            assert expected == (CONTENT[frame.offset : stop], False)
            short += 1
        else:
            assert outcome(ours, frame) == expected
        assert standing(ours) == standing(theirs)
        if isinstance(expected[0], bytes):
            assert expected[0] == CONTENT[given[frame.half] :][: len(expected[0])]
            given[frame.half] += len(expected[0])
        if isinstance(ours, StreamReceiver):
            assert ours.highest_offset == theirs.highest_offset
    assert owner.ranges == 0, "all holes were filled, or forgotten"
    assert bool(short) == shortly
    streams = [theirs for half, (_, theirs) in halves.items() if half.startswith("s")]
    assert streams
    assert all(theirs.is_finished for theirs in streams)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_traces_have_what_they_are_for(name: str) -> None:
    reached: Counter[str] = Counter()
    ahead = again = 0
    kinds = set()
    for frame in read(TRACES / f"{name}.txt"):
        ahead += frame.offset > reached[frame.half]
        again += frame.offset < reached[frame.half]
        reached[frame.half] = max(reached[frame.half], frame.offset + frame.size)
        kinds.add((frame.half[0], frame.kind))
    assert ahead > 10
    assert again > 10
    assert {("c", ""), ("s", ""), ("s", "fin")} <= kinds
    assert (("s", "reset") in kinds) is CONVERSATIONS[name][1]


def test_a_trace_is_what_the_receivers_were_given() -> None:
    """As they are now: a recording today finds a stream's bytes in the same way."""
    frames = record_traces.record("both")
    stops = {frame.half: frame.offset + frame.size for frame in frames if frame.kind == "fin"}
    assert len(stops) == 5
    for half, stop in stops.items():
        came = {
            offset
            for frame in frames
            if frame.half == half
            for offset in range(frame.offset, frame.offset + frame.size)
        }
        assert came == set(range(stop))
