"""A packet: two bytes of length, so many of head, and a body to the end of the datagram (P1).

The head is nothing, one byte of any value, or JSON: an object or an array. JSON comes from anybody,
so what it may cost is bounded: it is read in time that is linear in its length, is at most so deep,
and has no key twice, of which two readers would take different ones.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeAlias

import msgspec

from aqueduct_core.telehash.faults import PacketFault

Head: TypeAlias = int | dict[str, Any] | list[Any] | None
"""Of a packet; a number is the value of the one byte."""

PREFIX = 2
"""Bytes of the length before the head."""
MAX_HEAD = 0xFFFF
MAX_DEPTH = 64
"""Objects and arrays within each other."""

_DECODE = msgspec.json.Decoder().decode


class Packet(NamedTuple):
    head: Head
    body: bytes


class PacketRefused(Exception):
    """Not to be taken in; ``channel``, where it says of which one it is. Never leaves the engine,
    which counts the fault."""

    def __init__(self, fault: PacketFault, channel: int | None = None) -> None:
        super().__init__(fault.value)
        self.fault = fault
        self.channel = channel


def encode(head: bytes, body: bytes) -> bytes:
    """A packet with this head, of at most 65,535 bytes."""
    return b"%c%c%b%b" % (len(head) >> 8, len(head) & 0xFF, head, body)


def decode(data: bytes) -> Packet:
    """The packet that a datagram is.

    Raises:
        PacketRefused: it is none.
    """
    if len(data) < PREFIX:
        raise PacketRefused(PacketFault.TOO_SHORT)
    stop = PREFIX + (data[0] << 8 | data[1])
    if stop > len(data):
        raise PacketRefused(PacketFault.HEAD_TOO_LONG)
    if stop == PREFIX:
        return Packet(None, data[PREFIX:])
    if stop == PREFIX + 1:
        return Packet(data[PREFIX], data[stop:])
    text = data[PREFIX:stop]
    try:
        head = _DECODE(text)
    except UnicodeDecodeError:
        raise PacketRefused(PacketFault.NOT_UTF8) from None
    except RecursionError:
        raise PacketRefused(PacketFault.TOO_DEEP) from None
    except msgspec.DecodeError:
        raise PacketRefused(PacketFault.NOT_JSON) from None
    if head.__class__ is dict:
        # each key has a colon: where there are no more colons than keys, no key is there twice
        keys = len(head)
        own = head.get("_")
        if own.__class__ is dict:
            keys += len(own)
        deep = len(text) > MAX_DEPTH and text.count(b"[") + text.count(b"{") > MAX_DEPTH
        if deep or text.count(b":") != keys:
            _examine(text, head)
    elif head.__class__ is list:
        _examine(text, head)
    else:
        raise PacketRefused(PacketFault.NOT_JSON)
    return Packet(head, data[stop:])


def _examine(text: bytes, head: Any) -> None:
    """Whether it is not too deep, and has no key twice."""
    level = [head]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            break
    else:
        raise PacketRefused(PacketFault.TOO_DEEP)
    try:
        json.loads(text, object_pairs_hook=_once)
    except ValueError:
        raise PacketRefused(PacketFault.NOT_JSON) from None


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        raise PacketRefused(PacketFault.REPEATED_KEY)
