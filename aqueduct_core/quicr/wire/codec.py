"""Messages of control streams as bytes: a length of 16 bits, then a type and its fields (Q1-Q4).

What a peer must not send raises `ProtocolFault`, which says what came and what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable

from aqueduct_core.primitives.byte_queue import ByteQueue
from aqueduct_core.primitives.varint import NeedMore
from aqueduct_core.quicr.faults import ProtocolFault
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import MAX_ID, Position
from aqueduct_core.quicr.wire import varints
from aqueduct_core.quicr.wire.messages import (
    AcceptMessage,
    ControlMessage,
    FinMessage,
    MessageType,
    NotifyMessage,
    PostMessage,
    RequestMessage,
    StartPointMessage,
    SubscribeMessage,
)

_PREFIX = 2
"""Bytes of the length before a message."""
_LONGEST = (1 << 16) - 1
_MOST_FIELDS = 1 + 4 + 4 + 4 + 1 + 4
"""Bytes of a FRAGMENT before its data: type, group, object, offset, flags, length."""
LONGEST_DATA = _LONGEST - _MOST_FIELDS
"""Bytes of data that fit into one message, whatever its other fields are."""

_FRAGMENT = int(MessageType.FRAGMENT)
_FRAGMENT_BYTE = bytes((_FRAGMENT,))
_REQUEST_REPAIR = 4
_CAPABILITIES = 3
"""The highest number that POST may have for them; the prototype reads no bit but whether there is
one (Q17)."""


# --- encoding -------------------------------------------------------------------------------


def encode(message: ControlMessage) -> bytes:
    """A message with its length; its sender keeps to the bounds."""
    number = varints.encode
    match message:
        case Fragment():
            return encode_fragment(message)
        case RequestMessage(url, None):
            body = number(MessageType.REQUEST_STREAM) + _sized(url)
        case RequestMessage(url, int(datagram_id)):
            body = number(MessageType.REQUEST_DATAGRAM) + _sized(url) + number(datagram_id)
        case FinMessage(final):
            body = number(MessageType.FIN) + _position(final)
        case PostMessage(url, datagram):
            body = number(MessageType.POST) + _sized(url) + number(datagram)
        case AcceptMessage(None):
            body = number(MessageType.ACCEPT) + number(0)
        case AcceptMessage(int(datagram_id)):
            body = number(MessageType.ACCEPT) + number(1) + number(datagram_id)
        case StartPointMessage(start):
            body = number(MessageType.START_POINT) + _position(start)
        case SubscribeMessage(prefix):
            body = number(MessageType.SUBSCRIBE) + _sized(prefix)
        case NotifyMessage(url):
            body = number(MessageType.NOTIFY) + _sized(url)
    return len(body).to_bytes(_PREFIX) + body


def encode_fragment(fragment: Fragment) -> bytes:
    """A fragment as a message of a stream.

    Raises:
        ValueError: more data than a message can have.
    """
    group, object, offset, data, last, flags, _, _ = fragment
    number = varints.encode
    fields = b"".join(
        (
            _FRAGMENT_BYTE,
            number(group),
            number(object),
            number(offset << 1 | last),
            flags.to_bytes(),
            number(len(data)),
        )
    )
    size = len(fields) + len(data)
    if size > _LONGEST:
        raise ValueError(f"{len(data)} bytes of data: a message can have {LONGEST_DATA}")
    return b"".join((size.to_bytes(_PREFIX), fields, data))


def _position(position: Position) -> bytes:
    return varints.encode(position.group) + varints.encode(position.object)


def _sized(data: bytes) -> bytes:
    return varints.encode(len(data)) + data


# --- decoding -------------------------------------------------------------------------------


class MessageReader:
    """The messages of one direction of a control stream, however its bytes are cut (Q3).

    No message is longer than 64 KiB, and its bytes are joined once, when all of them are there.

    Args:
        max_url: bytes of a URL or a prefix, at most.
    """

    __slots__ = ("_max_url", "_queue")

    def __init__(self, *, max_url: int) -> None:
        self._max_url = max_url
        self._queue = ByteQueue()

    @property
    def pending(self) -> int:
        """Bytes that came and are not read, because the end of their message is missing."""
        return self._queue.size

    def feed(self, data: bytes) -> None:
        self._queue.feed(data)

    def discard(self) -> int:
        """Forget what is pending; how many bytes it was."""
        return self._queue.skip(self._queue.size)

    def read(self) -> list[ControlMessage]:
        """All messages that are whole, in their order.

        Raises:
            ProtocolFault: one of them is not allowed; those before it are lost, too.
        """
        queue = self._queue
        if not queue.ready():
            return []
        data, pos = queue.data, queue.pos
        end = pos + queue.size
        messages: list[ControlMessage] = []
        wanted = _PREFIX
        while end - pos >= _PREFIX:
            start = pos + _PREFIX
            stop = start + (data[pos] << 8 | data[pos + 1])
            if stop > end:
                wanted = stop - pos
                break
            messages.append(self._message(data, start, stop))
            pos = stop
        queue.take(pos)
        queue.want(wanted)
        return messages

    def _message(self, data: bytes, start: int, stop: int) -> ControlMessage:
        if start == stop:
            raise ProtocolFault("a message of no bytes: it starts with its type")
        try:
            number, pos = varints.decode(data, start, stop)
        except NeedMore:
            raise ProtocolFault("a message ends inside its type: its length is wrong") from None
        if number == _FRAGMENT:
            return _fragment(data, pos, stop)
        if number not in _DECODERS:
            raise ProtocolFault(_unknown(number))
        fields = _Fields(data, pos, stop, MessageType(number).name)
        message = _DECODERS[number](fields, self._max_url)
        fields.finish()
        return message


def _fragment(data: bytes, pos: int, stop: int) -> Fragment:
    """The fragment whose fields are in ``data[pos:stop]``: the only message that comes often."""
    decode = varints.decode
    try:
        group, pos = decode(data, pos, stop)
        object, pos = decode(data, pos, stop)
        value, pos = decode(data, pos, stop)
        flags, pos = data[pos], pos + 1
        size, pos = decode(data, pos, stop)
    except (NeedMore, IndexError):
        raise ProtocolFault("FRAGMENT ends inside its fields: its length is wrong") from None
    if group > MAX_ID or object > MAX_ID:
        raise ProtocolFault(f"FRAGMENT of ({group}, {object}): groups and objects go to {MAX_ID}")
    if pos + size != stop:
        raise ProtocolFault(
            f"FRAGMENT says {size} bytes of data, and has {stop - pos}: a length is wrong"
        )
    offset, last = value >> 1, value & 1 == 1
    return Fragment(group, object, offset, data[pos:stop], last, flags)


class _Fields:
    """The fields of any other message, one after the other; what is wrong is told by its name."""

    __slots__ = ("_data", "_name", "_pos", "_stop")

    def __init__(self, data: bytes, pos: int, stop: int, name: str) -> None:
        self._data = data
        self._pos = pos
        self._stop = stop
        self._name = name

    def number(self, what: str, highest: int) -> int:
        try:
            value, self._pos = varints.decode(self._data, self._pos, self._stop)
        except NeedMore:
            raise ProtocolFault(
                f"{self._name} ends inside its {what}: its length is wrong"
            ) from None
        if value > highest:
            raise ProtocolFault(f"{self._name} has {what} {value}: {highest} is the highest")
        return value

    def position(self) -> Position:
        return Position(self.number("group", MAX_ID), self.number("object", MAX_ID))

    def url(self, longest: int) -> bytes:
        size = self.number("length of URL", varints.VALUE_LIMIT)
        if size > longest:
            raise ProtocolFault(f"{self._name} has a URL of {size} bytes: {longest} are allowed")
        start, stop = self._pos, self._pos + size
        if stop > self._stop:
            raise ProtocolFault(
                f"{self._name} says {size} bytes of URL, and has {self._stop - start}"
            )
        self._pos = stop
        return self._data[start:stop]

    def finish(self) -> None:
        if self._pos < self._stop:
            raise ProtocolFault(
                f"{self._name} has {self._stop - self._pos} bytes behind its last field:"
                " its length is wrong"
            )


def _request_stream(fields: _Fields, max_url: int) -> ControlMessage:
    return RequestMessage(fields.url(max_url), None)


def _request_datagram(fields: _Fields, max_url: int) -> ControlMessage:
    return RequestMessage(fields.url(max_url), fields.number("datagram_stream_id", MAX_ID))


def _fin(fields: _Fields, max_url: int) -> ControlMessage:
    # behind the last object of a group, which may have the highest number
    return FinMessage(Position(fields.number("group", MAX_ID), fields.number("object", MAX_ID + 1)))


def _post(fields: _Fields, max_url: int) -> ControlMessage:
    return PostMessage(fields.url(max_url), fields.number("datagram_capable", _CAPABILITIES) != 0)


def _accept(fields: _Fields, max_url: int) -> ControlMessage:
    if fields.number("use_datagram", 1):
        return AcceptMessage(fields.number("datagram_stream_id", MAX_ID))
    return AcceptMessage(None)


def _start_point(fields: _Fields, max_url: int) -> ControlMessage:
    return StartPointMessage(fields.position())


def _subscribe(fields: _Fields, max_url: int) -> ControlMessage:
    return SubscribeMessage(fields.url(max_url))


def _notify(fields: _Fields, max_url: int) -> ControlMessage:
    return NotifyMessage(fields.url(max_url))


_DECODERS: dict[int, Callable[[_Fields, int], ControlMessage]] = {
    MessageType.REQUEST_STREAM: _request_stream,
    MessageType.REQUEST_DATAGRAM: _request_datagram,
    MessageType.FIN: _fin,
    MessageType.POST: _post,
    MessageType.ACCEPT: _accept,
    MessageType.START_POINT: _start_point,
    MessageType.SUBSCRIBE: _subscribe,
    MessageType.NOTIFY: _notify,
}


def _unknown(number: int) -> str:
    what = " (REQUEST_REPAIR)" if number == _REQUEST_REPAIR else ""
    known = ", ".join(str(each.value) for each in MessageType)
    return f"a message of type {number}{what}: types are {known}"
