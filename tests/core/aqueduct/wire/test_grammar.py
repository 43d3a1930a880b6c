"""Every vector through the sequence reader: whole, byte by byte, at each split, with a tail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.faults import Code, PeerFault
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.frames import Block, Frame, MessageFrame, Tag
from aqueduct_core.aqueduct.wire.grammar import SequenceReader
from aqueduct_core.primitives import varint
from tests.core.aqueduct.vectors import VECTORS, Vector
from tests.support.rules import rule


@dataclass
class OpenGate:
    version_required: bool
    headers_known: bool = True


def plain(frame: Frame) -> list[tuple[Any, ...]]:
    """Frames as (name, values…); a block as its messages."""
    if isinstance(frame, Block):
        out = []
        start = 0
        for number, length in enumerate(frame.lengths.tolist(), frame.first):
            out.append(("MessageFrame", number, (), (), frame.payload[start : start + length]))
            start += length
        return out
    if isinstance(frame, MessageFrame):
        return [("MessageFrame", *frame[:4])]
    return [(type(frame).__name__, *frame)]


def read(vector: Vector, pieces: list[bytes], end: bool) -> tuple[list[Any], Code | None]:
    """Frames that were read, and the error that ended it."""
    gate = OpenGate(vector.early)
    reader = SequenceReader(vector.sender, gate, Config(), datagram=vector.datagram)
    frames: list[Any] = []
    try:
        for piece in pieces:
            reader.feed(piece)
            while (frame := reader.next()) is not None:
                frames.extend(plain(frame))
                gate.version_required = False
        if end:
            reader.end()
    except PeerFault as fault:
        return frames, fault.code
    return frames, None


def splits(data: bytes) -> list[list[bytes]]:
    two_way = [[data[:i], data[i:]] for i in range(1, len(data))]
    return [[data], [bytes([byte]) for byte in data], *two_way]


@rule("AQ-SEQ-1", "AQ-SEQ-2", "AQ-SEQ-3", "AQ-SEQ-7", "AQ-SEQ-9", "AQ-SEQ-10")
@rule("AQ-FRAME-1", "AQ-FRAME-2", "AQ-FRAME-3", "AQ-FRAME-4", "AQ-FRAME-5", "AQ-FRAME-6")
@rule("AQ-FRAME-7", "AQ-FRAME-8", "AQ-FRAME-9", "AQ-FRAME-10", "AQ-FRAME-11", "AQ-FRAME-12")
@rule("AQ-FRAME-13", "AQ-VER-4", "AQ-VER-5")
@pytest.mark.parametrize("vector", VECTORS, ids=[v.id for v in VECTORS])
def test_vector(vector: Vector) -> None:
    for pieces in splits(vector.data):
        frames, code = read(vector, pieces, end=not vector.waits or vector.datagram)
        assert code == vector.code, pieces
        if vector.code is None or vector.waits:
            assert frames == list(vector.frames), pieces


@rule("AQ-SEQ-5", "AQ-SEQ-6", "AQ-VARINT-4")
@pytest.mark.parametrize("vector", [v for v in VECTORS if v.waits], ids=lambda v: v.id)
def test_a_sequence_that_ends_inside_a_frame(vector: Vector) -> None:
    for pieces in splits(vector.data):
        assert read(vector, pieces, end=True)[1] is Code.ENCODING


WITH_TAIL = [v for v in VECTORS if v.code is None and not v.waits and v.data and not v.datagram]


@rule("AQ-SEQ-9")
@pytest.mark.parametrize("vector", WITH_TAIL, ids=lambda v: v.id)
def test_a_tail_changes_nothing_before_it(vector: Vector) -> None:
    routed = any(frame[0] == "RouteTo" for frame in vector.frames)
    channel = next((frame[1] for frame in vector.frames if frame[0] == "RouteTo"), 0)
    sends = (channel >> 1 & 1) == vector.sender
    # the start of a frame that may follow, never complete
    tail = b"\x03" if not routed else b"\x04\x09" if sends else b"\x08\x05\x00"
    for pieces in splits(vector.data + tail):
        frames, code = read(vector, pieces, end=False)
        assert code is None
        assert frames == list(vector.frames)
        assert read(vector, pieces, end=True)[1] is Code.ENCODING


@rule("AQ-VER-4")
@pytest.mark.parametrize("first", [b"\x00", b"\x0d", b"\xd7"])
def test_an_unknown_first_byte_is_no_version(first: bytes) -> None:
    """Found by the differential test: it was taken for an unknown frame type."""
    reader = SequenceReader(Side.CLIENT, OpenGate(True), Config())
    reader.feed(first)
    with pytest.raises(PeerFault) as caught:
        reader.next()
    assert caught.value.code is Code.VERSION


@rule("AQ-BYTES-2")
@pytest.mark.parametrize(
    ("frame", "limit"),
    [
        ("0400000080808080802000"[:20], "payload"),
        ("0400" + "81f403", "header"),
        ("040000" + "818040", "attachment"),
        ("02" + "81f403", "connection header"),
    ],
    ids=lambda value: value if not value[0].isdigit() else "",
)
def test_a_length_over_its_limit_is_refused_at_once(frame: str, limit: str) -> None:
    start = bytes.fromhex(frame if frame.startswith("02") else "0300" + frame)
    reader = SequenceReader(Side.CLIENT, OpenGate(False), Config())
    reader.feed(start)
    if not frame.startswith("02"):
        assert reader.next() is not None  # ROUTE_TO
    with pytest.raises(PeerFault) as caught:
        reader.next()
    assert caught.value.code is Code.RESOURCE_LIMIT, limit
    assert reader.waiting <= len(start)


@rule("AQ-FRAME-14")
@pytest.mark.parametrize(
    "frame",
    [
        b"\x04" + varint.encode(1 << 62) + b"\x00\x00\x00",
        b"\x05" + varint.encode(1 << 62),
        b"\x06" + varint.encode(1 << 62),
    ],
)
def test_numbers_end_below_two_to_the_62(frame: bytes) -> None:
    reader = SequenceReader(Side.CLIENT, OpenGate(False), Config())
    reader.feed(b"\x03\x00" + frame)
    reader.next()
    with pytest.raises(PeerFault) as caught:
        reader.next()
    assert caught.value.code is Code.RESOURCE_LIMIT


@rule("AQ-FRAME-14")
def test_sums_of_ranges_end_below_two_to_the_62() -> None:
    far = varint.encode(1 << 61) * 2
    for tag in (Tag.ACK_RELIABLE, Tag.ACK_NACK_UNRELIABLE):
        reader = SequenceReader(Side.SERVER, OpenGate(False), Config())
        reader.feed(b"\x03\x00" + bytes([tag, len(far)]) + far)
        reader.next()
        with pytest.raises(PeerFault) as caught:
            reader.next()
        assert caught.value.code is Code.RESOURCE_LIMIT


def test_a_channel_that_no_answer_could_name_is_refused() -> None:
    reader = SequenceReader(Side.CLIENT, OpenGate(False), Config())
    reader.feed(b"\x03" + b"\x80" * 9 + b"\x01")
    with pytest.raises(PeerFault) as caught:
        reader.next()
    assert caught.value.code is Code.RESOURCE_LIMIT


@rule("AQ-SEQ-11")
def test_what_is_skipped_keeps_no_payload_and_is_still_checked() -> None:
    reader = SequenceReader(Side.CLIENT, OpenGate(False), Config())
    reader.feed(b"\x03\x08")
    reader.next()
    reader.skip()
    reader.feed(b"\x04\x00\x00\x00\xa0\x8d\x06" + b"x" * 60_000)
    assert type(reader.next()).__name__ == "Skipped"
    assert reader.waiting == 0
    reader.feed(b"x" * 40_000 + b"\x0b")
    assert type(reader.next()).__name__ == "ForgetChannel"
    reader.feed(b"\x0d")
    with pytest.raises(PeerFault):
        reader.next()


@rule("AQ-SEQ-11", "AQ-SEQ-5")
def test_what_is_skipped_may_not_end_inside_a_payload() -> None:
    reader = SequenceReader(Side.CLIENT, OpenGate(False), Config())
    reader.feed(b"\x03\x08\x04\x00\x00\x00\x05hi")
    reader.next()
    reader.skip()
    assert reader.next() is not None
    assert reader.next() is None
    with pytest.raises(PeerFault):
        reader.end()


def test_a_large_frame_in_small_pieces_is_joined_once() -> None:
    """Not a timing: the reader never looks at bytes again before the frame can be complete."""
    size = 1 << 20
    reader = SequenceReader(Side.CLIENT, OpenGate(False), Config())
    reader.feed(b"\x03\x00\x04\x00\x00\x00" + varint.encode(size))
    assert reader.next() is not None
    assert reader.next() is None
    piece = b"x" * 64
    for _ in range(size // 64 - 1):
        reader.feed(piece)
        assert reader.next() is None
        assert len(reader._backlog.data) < 16  # still the first piece
    reader.feed(piece)
    frame = reader.next()
    assert isinstance(frame, MessageFrame)
    assert len(frame.payload) == size
