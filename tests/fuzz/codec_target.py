"""Target: varints, header data, ranges and every frame decoder on their own.

Invariant: arbitrary bytes are a value, "need more" that asks for bytes beyond those given, or a
fault with a defined code; never another exception. What is a value encodes to the very bytes it
came from, since every encoding has one form only; and what needed more bytes is not refused by
them being cut shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.faults import Code, PeerFault
from aqueduct_core.aqueduct.wire import blocks, chanid, codec
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.primitives import cursor, varint
from aqueduct_core.primitives.cursor import Cursor
from aqueduct_core.primitives.varint import Malformed, NeedMore

_CONFIG = Config()
_TIGHT = Config(
    max_payload_bytes=40,
    max_headers_bytes=24,
    max_header_pairs=3,
    max_attachments_bytes=48,
    max_attachments=3,
    max_ranges_bytes=14,
)
_FAULTS = {Code.ENCODING, Code.CONTEXT, Code.VERSION, Code.RESOURCE_LIMIT}
Decoded: TypeAlias = tuple[Any, int, bytes | None]
"""The value, where it ends, and the bytes it encodes to (None: it has several forms)."""


def _varint(data: bytes, config: Config) -> Decoded:
    value, stop = varint.decode(data, 0, len(data))
    assert 0 <= value < varint.DECODE_LIMIT
    return value, stop, varint.encode(value) if value < varint.ENCODE_LIMIT else None


def _headers(data: bytes, config: Config) -> Decoded:
    frame, stop = codec.decode_connection_headers(data, 0, len(data), config)
    return frame, stop, codec.encode_headers(frame.headers)


def _varbytes(data: bytes, config: Config) -> Decoded:
    region = Cursor(data)
    value = region.varbytes()
    return value, region.pos, cursor.encode_varbytes(value)


def _varranges(data: bytes, config: Config) -> Decoded:
    region = Cursor(data)
    ranges = cursor.varranges(region)
    position = -1
    for first, stop in ranges:
        assert position < first < stop, "ascending and apart"
        position = stop
    if position < varint.ENCODE_LIMIT:
        again = cursor.varranges(Cursor(cursor.encode_varranges(ranges)))
        assert again == ranges
    return ranges, region.pos, None


def _chanid(data: bytes, config: Config) -> Decoded:
    frame, stop = codec.decode_route_to(data, 0, len(data))
    channel = frame.channel
    made = chanid.make(
        chanid.creator(channel),
        chanid.sender(channel),
        chanid.oneshot(channel),
        chanid.index(channel),
    )
    assert made == channel
    return frame, stop, codec.encode_route_to(channel)[1:]


def _message(data: bytes, config: Config) -> Decoded:
    frame, stop = codec.decode_message(b"\x04" + data, 0, len(data) + 1, config, Side.CLIENT)
    assert frame.size == stop
    encoded = codec.encode_message(*frame[:4])
    return frame, stop - 1, encoded[1:]


def _server_message(data: bytes, config: Config) -> Decoded:
    frame, stop = codec.decode_message(b"\x04" + data, 0, len(data) + 1, config, Side.SERVER)
    return frame, stop - 1, None


def _block(data: bytes, config: Config) -> Decoded:
    """What a block takes, the ordinary decoder reads as the same messages."""
    block, stop = blocks.decode_block(data, 0, len(data), config.max_payload_bytes, 1 << 18)
    if block is None:
        assert stop == 0
        raise NeedMore(len(data) + 1)
    assert block.size == stop
    messages = list(block.messages())
    assert len(messages) == len(block.lengths) >= 2
    at = 0
    for message in messages:
        found, at = codec.decode_message(data, at, stop, config, Side.CLIENT)
        assert found == message
    assert at == stop
    return block, stop, blocks.encode_block(block.first, [m.payload for m in messages])


def _ack_reliable(data: bytes, config: Config) -> Decoded:
    frame, stop = codec.decode_ack_reliable(data, 0, len(data), config)
    assert frame.ranges
    assert all(first < end for first, end in frame.ranges)
    return frame, stop, codec.encode_ack_reliable(frame.ranges)[1:]


def _ack_nack(data: bytes, config: Config) -> Decoded:
    frame, stop = codec.decode_ack_nack(data, 0, len(data), config)
    assert sum(frame.lengths) > 0
    return frame, stop, codec.encode_ack_nack(frame.lengths)[1:]


def _sent_unreliable(data: bytes, config: Config) -> Decoded:
    frame, stop = codec.decode_sent_unreliable(data, 0, len(data))
    return frame, stop, codec.encode_sent_unreliable(frame.additional)[1:]


def _finish_sender(data: bytes, config: Config) -> Decoded:
    frame, stop = codec.decode_finish_sender(data, 0, len(data))
    return frame, stop, codec.encode_finish_sender(frame.sent_reliable)[1:]


def _dequeued(data: bytes, config: Config) -> Decoded:
    frame, stop = codec.decode_dequeued(data, 0, len(data))
    limited = frame.num_bytes < varint.ENCODE_LIMIT
    return frame, stop, codec.encode_dequeued(frame.num_bytes)[1:] if limited else None


def _version(data: bytes, config: Config) -> Decoded:
    return None, codec.check_version(data, 0, len(data)), codec.VERSION


DECODERS: tuple[Callable[[bytes, Config], Decoded], ...] = (
    _varint, _headers, _varbytes, _varranges, _chanid, _message, _server_message, _block,
    _ack_reliable, _ack_nack, _sent_unreliable, _finish_sender, _dequeued, _version,
)  # fmt: skip


def _outcome(
    decode: Callable[[bytes, Config], Decoded], data: bytes, config: Config
) -> Decoded | NeedMore | Malformed | PeerFault:
    try:
        return decode(data, config)
    except (NeedMore, Malformed, PeerFault) as outcome:
        return outcome


def run(data: bytes) -> None:
    """The first byte names the decoder and the limits; the others are its input."""
    if not data:
        return
    decode = DECODERS[(data[0] & 0x7F) % len(DECODERS)]
    config = _TIGHT if data[0] & 0x80 else _CONFIG
    data = data[1:]
    outcome = _outcome(decode, data, config)
    if isinstance(outcome, PeerFault):
        assert outcome.code in _FAULTS
    if isinstance(outcome, NeedMore):
        assert outcome.upto > len(data), "asks for bytes that are here"
    if isinstance(outcome, NeedMore) and data:
        shorter = _outcome(decode, data[:-1], config)
        assert isinstance(shorter, NeedMore) or decode in (_varbytes, _varranges)
    elif isinstance(outcome, tuple):
        _, stop, encoded = outcome
        assert 0 < stop <= len(data)
        assert encoded is None or encoded == data[:stop], "another form of the same value"
