"""Target: packets of Telehash, beside the plainest decoder.

Invariant: arbitrary bytes are a packet of a channel, or refused by a named fault; never another
exception. The plain decoder, whose JSON is the standard library's, takes and refuses the same, and
what was taken is written in a form that is read as the same.
"""

from __future__ import annotations

import json
from typing import Any

from aqueduct_core.telehash.faults import PacketFault
from aqueduct_core.telehash.wire import channel_packets
from aqueduct_core.telehash.wire.channel_packets import ChannelPacket
from aqueduct_core.telehash.wire.packets import MAX_DEPTH, PacketRefused

HIGHEST = 0xFFFF_FFFF
LONGEST_NUMBER = 300
"""Digits; what is longer is not compared: readers of JSON differ in what they take."""


class NotTaken(Exception):
    """By the plain decoder."""


def run(data: bytes) -> None:
    try:
        expected = _plain(data)
    except NotTaken:
        expected = None
    found = _found(data)
    if isinstance(found, PacketFault):
        assert expected is None or _unlike(data), f"refused: {found}"
        return
    assert expected is not None, f"taken: {found}"
    assert _comparable(found) == expected
    assert found.size == len(data)
    _again(found)


def _found(data: bytes) -> ChannelPacket | PacketFault:
    try:
        return channel_packets.decode(data)
    except PacketRefused as refused:
        return refused.fault


def _again(packet: ChannelPacket) -> None:
    if packet.err is not None:
        again = channel_packets.decode(channel_packets.encode_err(packet.channel, packet.err))
        assert (again.channel, again.err) == (packet.channel, packet.err)
        return
    js = None if packet.js is None else json.loads(packet.js)
    if js is not None and not isinstance(js, dict):
        return  # ours are objects
    fields = channel_packets.content_fields(type=packet.type, own=True, js=js, end=packet.end)
    acks = channel_packets.ack_fields(packet.ack, packet.miss or [])
    data = channel_packets.encode_content(packet.channel, packet.seq, acks, fields, packet.body)
    found = channel_packets.decode(data)
    if packet.seq is None:
        acks = b""
    for name in ("channel", "seq", "end", "type", "body"):
        assert getattr(found, name) == getattr(packet, name), name
    if acks:
        assert (found.ack, found.miss or []) == (packet.ack, packet.miss or [])


def _comparable(packet: ChannelPacket) -> dict[str, Any]:
    fields = packet._asdict()
    del fields["ignored"], fields["size"]
    fields["js"] = None if packet.js is None else json.loads(packet.js)
    return fields


def _unlike(data: bytes) -> bool:
    """Whether it has something in which readers of JSON differ: half of a pair of UTF-16, or a
    number that does not fit."""
    head = data[2 : 2 + int.from_bytes(data[:2])].lower()
    digits = max((len(each) for each in _runs(head)), default=0)
    return b"\\ud" in head or b"e" in head or digits > LONGEST_NUMBER


def _runs(head: bytes) -> list[bytes]:
    return bytes(byte if 48 <= byte < 58 else 32 for byte in head).split()


def _plain(data: bytes) -> dict[str, Any]:
    size = int.from_bytes(data[:2])
    if len(data) < 2 or size < 2 or size > len(data) - 2:
        raise NotTaken
    try:
        head = json.loads(
            data[2 : 2 + size].decode("utf-8"), object_pairs_hook=_once, parse_constant=_constant
        )
    except (ValueError, RecursionError):
        raise NotTaken from None
    if not isinstance(head, dict) or _depth(head) > MAX_DEPTH:
        raise NotTaken
    channel = head.pop("c", None)
    seq, ack, miss = head.pop("seq", None), head.pop("ack", None), head.pop("miss", None)
    end, err, type = head.pop("end", None), head.pop("err", None), head.pop("type", None)
    own = head.get("_")
    body = data[2 + size :]
    for good in (
        _number(channel) and channel > 0,
        seq is None or _number(seq),
        ack is None or _number(ack),
        end is None or end == "true" or isinstance(end, bool),
        err is None or isinstance(err, str),
        type is None or (isinstance(type, str) and type != ""),
    ):
        if not good:
            raise NotTaken
    if not (isinstance(miss, list) and len(miss) <= 100 and all(map(_number, miss))):
        miss = None
    hidden = isinstance(own, dict) and list(own.items()) == [("end", True)] and own["end"] is True
    if own is None:
        head.pop("_", None)
    js = own if own is not None else (head or None)
    return {
        "channel": channel,
        "seq": seq,
        "ack": ack,
        "miss": miss,
        "end": end in (True, "true") or (hidden and seq is not None and not body),
        "err": err,
        "type": type,
        "js": js,
        "body": body,
    }


def _number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= HIGHEST


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise NotTaken
    return dict(pairs)


def _constant(text: str) -> None:
    raise NotTaken


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, inner), default=0)  # type: ignore[arg-type]
