"""What a packet of a channel has in its head, as a frozen value, and its bytes (P3-P6).

| key  | value                    | what for                                           |
|------|--------------------------|----------------------------------------------------|
| c    | 1 … 4,294,967,295        | the channel                                        |
| type | text                     | what it is for; in the first packet alone          |
| seq  | 0 … 4,294,967,295        | the number of a packet with content, where reliable|
| ack  | 0 … 4,294,967,295        | the highest seq that the application has processed |
| miss | up to 100 of such        | what is missing above that                         |
| end  | true                     | the last content                                   |
| err  | text                     | the channel has failed; nothing else counts        |
| _    | any                      | JSON of the application                            |

Types of applications begin with ``_``, and their JSON is under ``_``; of other types it is in the
keys that are left (P4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from aqueduct_core.telehash.config import MAX_CHANNEL, MAX_SEQ, MAX_UNACKED
from aqueduct_core.telehash.faults import PacketFault
from aqueduct_core.telehash.wire import packets
from aqueduct_core.telehash.wire.packets import PacketRefused

_json = msgspec.json.Encoder().encode

RESERVED = frozenset({"c", "type", "seq", "ack", "miss", "end", "err", "_"})
"""Keys that have a meaning."""
ACK_BYTES = len(b',"ack":4294967295')
"""Of an ack, at most: each packet of a reliable channel has room for it (T6)."""
_SEQ_DIGITS = 10
_HIDDEN_END = {"end": True}


class ChannelPacket(NamedTuple):
    """``js``: what the application has in the head, as compact JSON. ``ignored``: what was wrong
    with ``miss``, which is None then. ``size``: of the whole packet, in bytes."""

    channel: int
    seq: int | None = None
    ack: int | None = None
    miss: list[int] | None = None
    end: bool = False
    err: str | None = None
    type: str | None = None
    js: bytes | None = None
    body: bytes = b""
    ignored: PacketFault | None = None
    size: int = 0

    @property
    def has_content(self) -> bool:
        """Whether there is anything for the application to process (T3)."""
        return bool(self.body) or self.end or self.js is not None or self.type is not None


# --- decoding -------------------------------------------------------------------------------


def decode(data: bytes) -> ChannelPacket:
    """The packet of a channel that a datagram is.

    Raises:
        PacketRefused: it is none, or a field is not what it may be.
    """
    head, body = packets.decode(data)
    if head.__class__ is not dict:
        raise PacketRefused(PacketFault.NO_CHANNEL)
    fields: dict[str, Any] = head
    try:
        channel = fields.pop("c")
    except KeyError:
        raise PacketRefused(PacketFault.NO_CHANNEL) from None
    if channel.__class__ is not int or not 0 < channel <= MAX_CHANNEL:
        raise PacketRefused(PacketFault.BAD_CHANNEL)
    seq = fields.pop("seq", None)
    if seq is not None and not _is_number(seq):
        raise PacketRefused(PacketFault.BAD_SEQ, channel)
    ack = fields.pop("ack", None)
    if ack is not None and not _is_number(ack):
        raise PacketRefused(PacketFault.BAD_ACK, channel)
    if not fields:
        return ChannelPacket(channel, seq, ack, body=body, size=len(data))
    return _with_more(fields, channel, seq, ack, body, len(data))


def _with_more(
    fields: dict[str, Any],
    channel: int,
    seq: int | None,
    ack: int | None,
    body: bytes,
    size: int,
) -> ChannelPacket:
    """The rest of the fields, which most packets have none of."""
    ignored = None
    miss = fields.pop("miss", None)
    if miss is not None:
        ignored = _fault_of_miss(miss)
        if ignored is not None:
            miss = None
    end = fields.pop("end", None)
    if end == "true":  # as the document writes it (P5)
        end = True
    if end is not None and end.__class__ is not bool:
        raise PacketRefused(PacketFault.BAD_END, channel)
    err = fields.pop("err", None)
    if err is not None and err.__class__ is not str:
        raise PacketRefused(PacketFault.BAD_ERR, channel)
    type = fields.pop("type", None)
    if type is not None and (type.__class__ is not str or not type):
        raise PacketRefused(PacketFault.BAD_TYPE, channel)
    own = fields.get("_")
    if own == _HIDDEN_END and seq is not None and not body and own["end"] is True:
        # telehash-js has the end of an application's channel there (P5)
        end = True
    js = None
    if own is not None:
        js = _json(own)
    else:
        fields.pop("_", None)
        if fields:
            js = _json(fields)
    return ChannelPacket(channel, seq, ack, miss, bool(end), err, type, js, body, ignored, size)


def _is_number(value: object) -> bool:
    """Neither true nor 1.5 is one."""
    return value.__class__ is int and 0 <= value <= MAX_SEQ


def _fault_of_miss(miss: object) -> PacketFault | None:
    if not isinstance(miss, list) or not all(map(_is_number, miss)):
        return PacketFault.BAD_MISS
    return PacketFault.MISS_TOO_LONG if len(miss) > MAX_UNACKED else None


# --- encoding -------------------------------------------------------------------------------


def content_fields(
    *, type: str | None, own: bool, js: Mapping[str, Any] | None, end: bool
) -> bytes:
    """The fields of a packet that are the same each time it is sent (T15).

    Args:
        own: the channel is of an application's type: its JSON goes under ``_`` (P4).

    Raises:
        ValueError: ``js`` cannot be JSON, or has a key that the protocol has a meaning for, where
            it does not go under ``_``.
    """
    parts = []
    if type is not None:
        parts.append(b',"type":' + _json(type))
    if end:
        parts.append(b',"end":true')
    if js is not None:
        if own:
            parts.append(b',"_":' + _encode(js))
        else:
            for key in js:
                if key in RESERVED:
                    raise ValueError(f"the key {key!r} has a meaning of its own")
            if js:
                parts.append(b"," + _encode(js)[1:-1])
    return b"".join(parts)


def _encode(js: Mapping[str, Any]) -> bytes:
    try:
        found = _json(js if isinstance(js, dict) else dict(js))
    except (TypeError, UnicodeEncodeError, RecursionError, OverflowError) as error:
        raise ValueError(f"this is not to be written as JSON: {error}") from error
    if b"null" in found and not _is_finite(js):
        raise ValueError("it has a number that JSON cannot have: an infinite one, or none")
    return found


def _is_finite(value: object) -> bool:
    """Whether all numbers of it are numbers of JSON; the encoder writes null for others."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    return not isinstance(value, list | tuple) or all(map(_is_finite, value))


def content_size(channel: int, fields: bytes, body: bytes, *, reliable: bool) -> int:
    """Bytes of a packet with this content, at most: whatever its seq, and with an ack."""
    size = packets.PREFIX + len(b'{"c":%d}' % channel) + len(fields) + len(body)
    return size + len(b',"seq":') + _SEQ_DIGITS + ACK_BYTES if reliable else size


def encode_content(channel: int, seq: int | None, acks: bytes, fields: bytes, body: bytes) -> bytes:
    """A packet with content; ``acks`` of `ack_fields`."""
    if seq is None:
        return packets.encode(b'{"c":%d%b}' % (channel, fields), body)
    return packets.encode(b'{"c":%d,"seq":%d%b%b}' % (channel, seq, acks, fields), body)


def ack_fields(ack: int | None, miss: list[int]) -> bytes:
    """What acknowledges, as part of any packet; nothing, where there is nothing to say."""
    if ack is None and not miss:
        return b""
    first = b"" if ack is None else b',"ack":%d' % ack
    return first + b',"miss":[%b]' % ",".join(map(str, miss)).encode() if miss else first


def encode_ack(channel: int, acks: bytes) -> bytes:
    """A packet that acknowledges and has no content, and no seq (T8)."""
    return packets.encode(b'{"c":%d%b}' % (channel, acks), b"")


def encode_filler(channel: int, size: int) -> bytes:
    """A packet of ``size`` bytes that says nothing, as an ack that has none."""
    head = b'{"c":%d}' % channel
    return packets.encode(head.ljust(size - packets.PREFIX), b"")


def encode_err(channel: int, err: str) -> bytes:
    """A packet that fails a channel: never with a seq (P6)."""
    return packets.encode(b'{"c":%d,"err":%b}' % (channel, _json(err)), b"")
