"""A second decoder of frame sequences, to judge the project's own.

It is written from the specification alone (section 1 and 2 and the rules AQ-VARINT-* to
AQ-FRAME-*), shares no code with ``aqueduct_core``, and is slow on purpose: it always reads the
whole sequence from its first byte, so that the way bytes were cut into chunks cannot matter.
A fault counts as soon as the bytes that show it are here. Where the specification leaves open
which of two faults of one frame counts, this is the order: lengths and limits from left to right;
the inside of a region once all of its frame's lengths are known; in there, what runs past the
region before limits and sums.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

CLIENT, SERVER = 0, 1

MAGIC = bytes([239, 80, 95, 166, 96, 15, 64, 142])
VERSION_FRAME = MAGIC + b"AQUEDUCT" + bytes([11]) + b"0.0.0-AFTER"
MAX_NUMBER = 2**62

PROTOCOL, ENCODING, VERSION, CONTEXT, RESOURCE_LIMIT = 1, 2, 3, 5, 8


class Unfinished(Exception):
    """The bytes end inside a frame."""


class Refused(Exception):
    """The bytes break a rule."""

    code: int


class BrokenGrammar(Refused):
    code = PROTOCOL


class BrokenEncoding(Refused):
    code = ENCODING


class WrongVersion(Refused):
    code = VERSION


class WrongSide(Refused):
    code = CONTEXT


class OverLimit(Refused):
    code = RESOURCE_LIMIT


class Limits(NamedTuple):
    """Sizes in bytes, counts in entries; the defaults are those of hazard H1 and H23."""

    payload: int = 16_000_000
    headers: int = 64_000
    pairs: int = 256
    attachments_region: int = 1 << 20
    attachments: int = 1024
    ranges: int = 1 << 16
    channel: int = 2**63 - 1
    """No larger identifier could be named in an answer (AQ-VARINT-3)."""


class Reading(NamedTuple):
    """Whole frames, in order; then the refusal (its code), or that more bytes are needed.

    ``parsed`` is where the last whole frame ends.
    """

    frames: list[tuple[Any, ...]]
    code: int | None
    parsed: int


class Source:
    """A place in some bytes. Whether running out is a fault depends on whose bytes they are."""

    def __init__(self, data: bytes, out: type[Exception]) -> None:
        self.data = data
        self.at = 0
        self.out = out

    def left(self) -> int:
        return len(self.data) - self.at

    def byte(self) -> int:
        if self.left() == 0:
            raise self.out
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        """Little-endian groups of 7 bits, at most 64 bits, in the shortest form."""
        value = 0
        for place in range(10):
            byte = self.byte()
            value |= (byte & 127) << (7 * place)
            if value >= 2**64:
                raise BrokenEncoding("over 64 bits")
            if byte < 128:
                if byte == 0 and place > 0:
                    raise BrokenEncoding("not the shortest form")
                return value
        raise BrokenEncoding("a varint of over 10 bytes")

    def length(self, limit: int) -> int:
        length = self.varint()
        if length > limit:
            raise OverLimit("a declared length")
        return length

    def take(self, length: int) -> bytes:
        if length > self.left():
            raise self.out
        self.at += length
        return self.data[self.at - length : self.at]

    def varbytes(self, limit: int) -> bytes:
        return self.take(self.length(limit))

    def number(self) -> int:
        value = self.varint()
        if value >= MAX_NUMBER:
            raise OverLimit("a message number or count")
        return value


def read(
    data: bytes,
    *,
    sender: int,
    datagram: bool,
    version_required: bool,
    ended: bool,
    limits: Limits | None = None,
) -> Reading:
    """Decodes the sequence that ``sender`` has written so far; ``ended``: no more will come."""
    limits = limits or Limits()
    frames: list[tuple[Any, ...]] = []
    source = Source(data, Unfinished)
    if not data and ended and version_required:
        return Reading(frames, VERSION, 0)
    channel: int | None = None
    while source.left():
        start = source.at
        try:
            frame = _frame(
                source, channel, sender, datagram, version_required and not frames, limits
            )
        except Refused as refused:
            return Reading(frames, refused.code, start)
        except Unfinished:
            return Reading(frames, ENCODING if ended or datagram else None, start)
        if frame[0] == "RouteTo":
            channel = frame[1]
        frames.append(frame)
    return Reading(frames, None, len(data))


def _frame(
    source: Source,
    channel: int | None,
    sender: int,
    datagram: bool,
    must_be_version: bool,
    limits: Limits,
) -> tuple[Any, ...]:
    tag = source.byte()
    if must_be_version and tag != MAGIC[0]:
        raise WrongVersion("a sequence that does not begin with VERSION")
    if tag != MAGIC[0] and not 1 <= tag <= 12:
        raise BrokenEncoding("an unknown tag")
    if datagram and tag not in (MAGIC[0], 3, 4):
        raise BrokenGrammar("this frame belongs on a stream")
    preamble = tag in (MAGIC[0], 1, 2, 3)
    if preamble and channel is not None:
        raise BrokenGrammar("a preamble frame behind ROUTE_TO")
    if not preamble:
        if channel is None:
            raise BrokenGrammar("a channel frame without ROUTE_TO")
        _check_side(tag, channel, sender)

    if tag == MAGIC[0]:
        for expected in VERSION_FRAME[1:]:
            if source.byte() != expected:
                raise WrongVersion("another protocol or version")
        return ("Version",)
    if tag == 1:
        return ("AckVersion",)
    if tag == 2:
        return ("ConnectionHeaders", _pairs(source.varbytes(limits.headers), limits))
    if tag == 3:
        return ("RouteTo", _chanid(source, limits))
    if tag == 4:
        number = source.number()
        headers = source.varbytes(limits.headers)
        attachments = source.varbytes(limits.attachments_region)
        length = source.length(limits.payload)
        message = (number, _pairs(headers, limits), _attached(attachments, sender, limits))
        return ("MessageFrame", *message, source.take(length))
    if tag == 5:
        return ("SentUnreliable", source.number())
    if tag == 6:
        return ("FinishSender", source.number())
    if tag == 7:
        return ("CancelSender",)
    if tag == 8:
        return ("AckReliable", _ack_ranges(source.varbytes(limits.ranges)))
    if tag == 9:
        return ("AckNackUnreliable", _ack_nack_lengths(source.varbytes(limits.ranges)))
    if tag == 10:
        return ("CloseReceiver",)
    if tag == 11:
        return ("ForgetChannel",)
    return ("Dequeued", source.varint())


def _check_side(tag: int, channel: int, sender: int) -> None:
    creator_side, sender_side = channel & 1, channel >> 1 & 1
    if tag in (4, 5, 6, 7):
        right = sender_side == sender
    elif tag == 11:
        right = creator_side == sender
    else:
        right = sender_side != sender
    if not right:
        raise WrongSide("a frame that the other side of this channel sends")


def _chanid(source: Source, limits: Limits) -> int:
    channel = source.varint()
    if channel > limits.channel:
        raise OverLimit("a channel identifier")
    return channel


def _pairs(region: bytes, limits: Limits) -> tuple[tuple[bytes, bytes], ...]:
    inner = Source(region, BrokenEncoding)
    pairs = []
    while inner.left():
        key = inner.take(inner.varint())
        if not inner.left():
            raise BrokenEncoding("a key without a value")
        pairs.append((key, inner.take(inner.varint())))
        if len(pairs) > limits.pairs:
            raise OverLimit("header pairs")
    return tuple(pairs)


def _attached(region: bytes, sender: int, limits: Limits) -> tuple[tuple[int, Any], ...]:
    inner = Source(region, BrokenEncoding)
    found: dict[int, Any] = {}
    while inner.left():
        channel = _chanid(inner, limits)
        headers = inner.take(inner.varint())
        if len(headers) > limits.headers:
            raise OverLimit("a declared length")
        if channel == 0 or channel & 1 != sender or channel in found:
            raise WrongSide("the entrypoint, a channel of the other side, or one twice")
        found[channel] = _pairs(headers, limits)
        if len(found) > limits.attachments:
            raise OverLimit("attachments")
    return tuple(found.items())


def _ack_ranges(region: bytes) -> tuple[tuple[int, int], ...]:
    """Half-open ranges of acked numbers: gap, length, gap, length …"""
    values = _varints(region)
    if not values or len(values) % 2:
        raise BrokenEncoding("gaps and lengths come in pairs")
    if sum(values) >= MAX_NUMBER:
        raise OverLimit("acked numbers")
    ranges = []
    at = 0
    for gap, length in zip(values[::2], values[1::2], strict=True):
        ranges.append((at + gap, at + gap + length))
        at += gap + length
    return tuple(ranges)


def _ack_nack_lengths(region: bytes) -> tuple[int, ...]:
    """Lengths of ranges, acked and nacked in turn."""
    values = _varints(region)
    if not values or values == [0]:
        raise BrokenEncoding("no numbers at all")
    if sum(values) >= MAX_NUMBER:
        raise OverLimit("acked and nacked numbers")
    return tuple(values)


def _varints(region: bytes) -> list[int]:
    """All of a region; only the first may be zero."""
    inner = Source(region, BrokenEncoding)
    values = []
    while inner.left():
        values.append(inner.varint())
    if 0 in values[1:]:
        raise BrokenEncoding("a zero behind the first")
    return values


def frame_name(kind: str) -> str:
    """What the specification calls a frame whose class has the name ``kind``."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", kind.removesuffix("Frame")).upper()
