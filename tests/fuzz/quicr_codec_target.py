"""Target: messages of QUICR's control streams and datagrams, beside the plainest decoder.

Invariant: arbitrary bytes are messages, the beginning of one, or a fault of the peer with a text;
never another exception. The plain decoder, which has its varints from elsewhere, finds the same up
to the first fault. However the bytes are cut, the same comes of them; and what was read is written
in a form that is read as the same.
"""

from __future__ import annotations

from aioquic.buffer import Buffer, BufferReadError

from aqueduct_core.quicr.faults import ProtocolFault
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import MAX_ID, Position
from aqueduct_core.quicr.wire import codec, datagrams
from aqueduct_core.quicr.wire.codec import MessageReader
from aqueduct_core.quicr.wire.messages import (
    AcceptMessage,
    ControlMessage,
    FinMessage,
    NotifyMessage,
    PostMessage,
    RequestMessage,
    StartPointMessage,
    SubscribeMessage,
)
from tests.fuzz.byte_source import ByteSource

MAX_URL = 8


class Refused(Exception):
    """By the plain decoder."""


def run(data: bytes) -> None:
    """The first byte: a datagram, or how a stream is cut."""
    source = ByteSource(data)
    cut = source.byte()
    if cut == 0:
        _datagram(source.rest())
    else:
        _stream(source.rest(), cut)


def _stream(data: bytes, cut: int) -> None:
    expected, rest, refused = _plain(data)
    for size in (len(data) or 1, 1, cut):
        found, pending, fault = _read(data, size)
        assert (fault is not None) == refused, fault
        if fault is None:
            assert (found, pending) == (expected, rest)
        elif size == 1:
            assert found == expected
    again = MessageReader(max_url=MAX_URL)
    for message in expected:
        again.feed(codec.encode(message))
    assert again.read() == expected


def _read(data: bytes, size: int) -> tuple[list[ControlMessage], int, str | None]:
    """The messages in pieces of ``size`` bytes, how many bytes are left, and the text of a fault,
    with which the messages of its piece are lost."""
    reader = MessageReader(max_url=MAX_URL)
    found: list[ControlMessage] = []
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
        try:
            found += reader.read()
        except ProtocolFault as fault:
            return found, reader.pending, str(fault)
    return found, reader.pending, None


def _plain(data: bytes) -> tuple[list[ControlMessage], int, bool]:
    """The messages before the first fault, how many bytes are behind the last, and whether there
    is a fault."""
    messages: list[ControlMessage] = []
    buffer = Buffer(data=data)
    while len(data) - buffer.tell() >= 2:
        start = buffer.tell()
        size = buffer.pull_uint16()
        if size > len(data) - buffer.tell():
            return messages, len(data) - start, False
        try:
            messages.append(_message(Buffer(data=buffer.pull_bytes(size)), size))
        except (BufferReadError, Refused):
            return messages, 0, True
    return messages, len(data) - buffer.tell(), False


def _message(body: Buffer, size: int) -> ControlMessage:
    number = body.pull_uint_var()
    message: ControlMessage
    match number:
        case 1:
            message = RequestMessage(_url(body), None)
        case 2:
            message = RequestMessage(_url(body), _id(body))
        case 3:
            message = FinMessage(Position(_id(body), _at_most(body.pull_uint_var(), MAX_ID + 1)))
        case 5:
            group, object, value = _id(body), _id(body), body.pull_uint_var()
            flags = body.pull_uint8()
            data = body.pull_bytes(_at_most(body.pull_uint_var(), size))
            message = Fragment(group, object, value // 2, data, bool(value % 2), flags)
        case 6:
            message = PostMessage(_url(body), _at_most(body.pull_uint_var(), 3) > 0)
        case 7:
            use = _at_most(body.pull_uint_var(), 1)
            message = AcceptMessage(_id(body) if use else None)
        case 8:
            message = StartPointMessage(Position(_id(body), _id(body)))
        case 9:
            message = SubscribeMessage(_url(body))
        case 10:
            message = NotifyMessage(_url(body))
        case _:
            raise Refused
    if body.tell() != size:
        raise Refused
    return message


def _datagram(data: bytes) -> None:
    try:
        expected = _plain_datagram(data)
    except (BufferReadError, Refused):
        expected = None
    try:
        found = datagrams.decode(data)
    except ProtocolFault:
        assert expected is None, "refused"
        return
    assert found == expected
    header = datagrams.encode_header(*found)
    assert len(header) <= datagrams.HEADER_OVERHEAD
    datagram_id, fragment = datagrams.decode(header + found[1].data)
    assert datagram_id == found[0]
    assert fragment._replace(previous=None) == found[1]._replace(previous=None)
    assert fragment.previous == found[1].previous or not fragment.group


def _plain_datagram(data: bytes) -> tuple[int, Fragment]:
    buffer = Buffer(data=data)
    datagram_id, group, object, value, delay = (buffer.pull_uint_var() for _ in range(5))
    flags = buffer.pull_uint8()
    previous = None
    if object == 0 and value < 2:
        previous = buffer.pull_uint_var()
        if previous > MAX_ID:
            previous = None
    rest = data[buffer.tell() :]
    for number in (datagram_id, group, object):
        _at_most(number, MAX_ID)
    fragment = Fragment(
        group, object, value // 2, rest, bool(value % 2), flags, min(delay, MAX_ID), previous
    )
    return datagram_id, fragment


def _url(body: Buffer) -> bytes:
    return body.pull_bytes(_at_most(body.pull_uint_var(), MAX_URL))


def _id(body: Buffer) -> int:
    return _at_most(body.pull_uint_var(), MAX_ID)


def _at_most(value: int, highest: int) -> int:
    if value > highest:
        raise Refused
    return value
