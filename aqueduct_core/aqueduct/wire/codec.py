"""Each frame's encoder and decoder, side by side (reference §2.2, AQ-FRAME-1…14).

Encoders return whole frames, tag first. Decoders take ``(data, pos, end)`` with ``pos`` behind
the tag, return the frame and the position behind it, and raise ``NeedMore`` when bytes are
missing, ``Malformed`` when no bytes could help, ``PeerFault`` when a limit is broken. A length
over its limit is refused as soon as it is known (AQ-BYTES-2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.faults import Code, PeerFault
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.frames import (
    AckNackUnreliable,
    AckReliable,
    ConnectionHeaders,
    Dequeued,
    FinishSender,
    MessageFrame,
    RouteTo,
    SentUnreliable,
)
from aqueduct_core.engine.header_column import encode_pairs
from aqueduct_core.engine.message_batch import Attachment, Headers, ReceivedHeaders
from aqueduct_core.primitives import varint
from aqueduct_core.primitives.cursor import Cursor, encode_varbytes
from aqueduct_core.primitives.ranges import Range
from aqueduct_core.primitives.varint import Malformed, NeedMore

_RANGES_A_FRAME = 2048
MAX_MESSAGE_NUM = 1 << 62
"""Message numbers, counts and sums of ranges stay below it (AQ-FRAME-14)."""

VERSION = bytes.fromhex("ef505fa6600f408e") + b"AQUEDUCT" + encode_varbytes(b"0.0.0-AFTER")
ACK_VERSION = b"\x01"
CANCEL_SENDER = b"\x07"
CLOSE_RECEIVER = b"\x0a"
FORGET_CHANNEL = b"\x0b"


def _limit(what: str, value: int, limit: int) -> None:
    if value > limit:
        raise PeerFault(Code.RESOURCE_LIMIT, f"{what} of {value}, limit {limit}")


def _number(what: str, value: int) -> int:
    if value >= MAX_MESSAGE_NUM:
        raise PeerFault(Code.RESOURCE_LIMIT, f"{what} at or above 2^62")
    return value


def _channel(channel: int) -> int:
    if channel >= varint.ENCODE_LIMIT:
        # we could not name it in an answer (AQ-VARINT-3)
        raise PeerFault(Code.RESOURCE_LIMIT, "a channel identifier at or above 2^63")
    return channel


def _region(data: bytes, pos: int, end: int, what: str, limit: int) -> tuple[int, int]:
    """Start and stop of the varbytes at ``pos``, which need not be here yet."""
    length, pos = varint.decode(data, pos, end)
    _limit(what, length, limit)
    return pos, pos + length


# --- VERSION ------------------------------------------------------------------------------


def check_version(data: bytes, pos: int, end: int) -> int:
    """The position behind the VERSION frame whose tag is at ``pos``; every byte is compared."""
    have = min(end - pos, len(VERSION))
    if data[pos : pos + have] != VERSION[:have]:
        raise PeerFault(Code.VERSION, "the peer speaks another protocol or version")
    if have < len(VERSION):
        raise NeedMore(pos + have + 1)
    return pos + have


# --- header data --------------------------------------------------------------------------


def encode_headers(headers: Headers) -> bytes:
    if not headers:
        return b"\x00"
    return encode_varbytes(encode_pairs(headers))


def headers_size(headers: Headers) -> int:
    """Bytes of the pairs on the wire, as ``Config.max_headers_bytes`` counts them."""
    return len(encode_pairs(headers))


def decode_headers(region: Cursor, config: Config) -> Headers:
    """The pairs in ``region``, in order, repeats kept (AQ-HDRDATA-1, 2)."""
    pairs = []
    while not region.exhausted:
        key = region.varbytes()
        if region.exhausted:
            raise Malformed("header data with a key but no value")
        pairs.append((key, region.varbytes()))
        _limit("header pairs", len(pairs), config.max_header_pairs)
    return ReceivedHeaders(pairs)


def encode_connection_headers(headers: Headers) -> bytes:
    return b"\x02" + encode_headers(headers)


def decode_connection_headers(
    data: bytes, pos: int, end: int, config: Config
) -> tuple[ConnectionHeaders, int]:
    start, stop = _region(data, pos, end, "header bytes", config.max_headers_bytes)
    if stop > end:
        raise NeedMore(stop)
    return ConnectionHeaders(decode_headers(Cursor(data, start, stop), config)), stop


# --- ROUTE_TO -----------------------------------------------------------------------------


def encode_route_to(channel: int) -> bytes:
    return b"\x03" + varint.encode(channel)


def decode_route_to(data: bytes, pos: int, end: int) -> tuple[RouteTo, int]:
    channel, pos = varint.decode(data, pos, end)
    return RouteTo(_channel(channel)), pos


# --- MESSAGE ------------------------------------------------------------------------------


def encode_message(
    number: int, headers: Headers, attachments: Sequence[Attachment], payload: bytes
) -> bytes:
    return message_head(number, headers, attachments, len(payload)) + payload


def message_head(
    number: int, headers: Headers, attachments: Sequence[Attachment], payload_length: int
) -> bytes:
    """The bytes of a MESSAGE frame before its payload."""
    region = b"".join(
        varint.encode(channel) + encode_headers(channel_headers)
        for channel, channel_headers in attachments
    )
    return b"".join(
        (
            b"\x04",
            varint.encode(number),
            encode_headers(headers),
            varint.encode(len(region)),
            region,
            varint.encode(payload_length),
        )
    )


def decode_message_head(
    data: bytes, pos: int, end: int, config: Config, creator: Side
) -> tuple[int, Headers, tuple[Attachment, ...], int, int]:
    """Number, headers, attachments and the payload's bounds; the payload need not be here.

    ``creator`` is the side that sent the frame: it must have created what it attaches.
    """
    number, pos = varint.decode(data, pos, end)
    _number("a message number", number)
    headers_at, headers_end = _region(data, pos, end, "header bytes", config.max_headers_bytes)
    if headers_end > end:
        raise NeedMore(headers_end)
    attached_at, attached_end = _region(
        data, headers_end, end, "attachment bytes", config.max_attachments_bytes
    )
    if attached_end > end:
        raise NeedMore(attached_end)
    payload_at, payload_end = _region(
        data, attached_end, end, "payload bytes", config.max_payload_bytes
    )
    headers: Headers = ()
    attachments: tuple[Attachment, ...] = ()
    if headers_at < headers_end:
        headers = decode_headers(Cursor(data, headers_at, headers_end), config)
    if attached_at < attached_end:
        attachments = decode_attachments(Cursor(data, attached_at, attached_end), config, creator)
    return number, headers, attachments, payload_at, payload_end


def decode_attachments(region: Cursor, config: Config, creator: Side) -> tuple[Attachment, ...]:
    attachments: list[Attachment] = []
    seen: set[int] = set()
    while not region.exhausted:
        channel = _channel(region.varint())
        headers = region.region()
        _limit("header bytes", headers.end - headers.pos, config.max_headers_bytes)
        if chanid.creator(channel) is not creator:
            raise PeerFault(Code.CONTEXT, f"attached channel {channel} is not of its sender")
        if channel == chanid.ENTRYPOINT or channel in seen:
            raise PeerFault(Code.CONTEXT, f"channel {channel} cannot be attached here")
        seen.add(channel)
        attachments.append(Attachment(channel, decode_headers(headers, config)))
        _limit("attachments", len(attachments), config.max_attachments)
    return tuple(attachments)


def decode_message(
    data: bytes, start: int, end: int, config: Config, creator: Side
) -> tuple[MessageFrame, int]:
    """The MESSAGE frame whose tag is at ``start``."""
    number, headers, attachments, payload_at, payload_end = decode_message_head(
        data, start + 1, end, config, creator
    )
    if payload_end > end:
        raise NeedMore(payload_end)
    payload = data[payload_at:payload_end]
    return MessageFrame(number, headers, attachments, payload, payload_end - start), payload_end


# --- SENT_UNRELIABLE, FINISH_SENDER, DEQUEUED ---------------------------------------------


def encode_sent_unreliable(count: int) -> bytes:
    return b"\x05" + varint.encode(count)


def decode_sent_unreliable(data: bytes, pos: int, end: int) -> tuple[SentUnreliable, int]:
    count, pos = varint.decode(data, pos, end)
    return SentUnreliable(_number("a count", count)), pos


def encode_finish_sender(sent_reliable: int) -> bytes:
    return b"\x06" + varint.encode(sent_reliable)


def decode_finish_sender(data: bytes, pos: int, end: int) -> tuple[FinishSender, int]:
    count, pos = varint.decode(data, pos, end)
    return FinishSender(_number("a count", count)), pos


def encode_dequeued(num_bytes: int) -> bytes:
    return b"\x0c" + varint.encode(num_bytes)


def decode_dequeued(data: bytes, pos: int, end: int) -> tuple[Dequeued, int]:
    count, pos = varint.decode(data, pos, end)
    return Dequeued(count), pos


# --- ACK_RELIABLE, ACK_NACK_UNRELIABLE ----------------------------------------------------


def encode_acks(ranges: Sequence[Range], lengths: Sequence[int]) -> bytes:
    """What is to be acked in both number spaces, in as many frames as it takes: the region of each
    stays under any peer's limit."""
    out = []
    for i in range(0, len(ranges), _RANGES_A_FRAME):
        out.append(encode_ack_reliable(ranges[i : i + _RANGES_A_FRAME]))
    # an even count a frame: the next one starts with an ack again
    for i in range(0, len(lengths), 2 * _RANGES_A_FRAME):
        out.append(encode_ack_nack(lengths[i : i + 2 * _RANGES_A_FRAME]))
    return b"".join(out)


def encode_ack_reliable(ranges: Iterable[Range]) -> bytes:
    """Ranges as (gap, length) pairs; the first gap counts from zero (AQ-ACK-2)."""
    out = []
    position = 0
    for first, stop in ranges:
        out.append(varint.encode(first - position))
        out.append(varint.encode(stop - first))
        position = stop
    return b"\x08" + encode_varbytes(b"".join(out))


def decode_ack_reliable(data: bytes, pos: int, end: int, config: Config) -> tuple[AckReliable, int]:
    lengths, pos = _lengths(data, pos, end, config)
    if len(lengths) < 2 or len(lengths) % 2 or 0 in lengths[1:]:
        raise Malformed("the ranges of an ACK_RELIABLE")
    ranges = []
    position = 0
    for i in range(0, len(lengths), 2):
        first = position + lengths[i]
        position = first + lengths[i + 1]
        ranges.append((first, position))
    _number("an acked number", position)
    return AckReliable(tuple(ranges)), pos


def encode_ack_nack(lengths: Iterable[int]) -> bytes:
    """Lengths to ack and to nack in turn, from where the last such frame ended (AQ-ACK-7)."""
    return b"\x09" + encode_varbytes(b"".join(varint.encode(length) for length in lengths))


def decode_ack_nack(
    data: bytes, pos: int, end: int, config: Config
) -> tuple[AckNackUnreliable, int]:
    lengths, pos = _lengths(data, pos, end, config)
    if not lengths or 0 in lengths[1:] or lengths == [0]:
        raise Malformed("the ranges of an ACK_NACK_UNRELIABLE")
    _number("an acked number", sum(lengths))
    return AckNackUnreliable(tuple(lengths)), pos


def _lengths(data: bytes, pos: int, end: int, config: Config) -> tuple[list[int], int]:
    start, stop = _region(data, pos, end, "range bytes", config.max_ranges_bytes)
    if stop > end:
        raise NeedMore(stop)
    region = Cursor(data, start, stop)
    lengths = []
    while not region.exhausted:
        lengths.append(region.varint())
    return lengths, stop
