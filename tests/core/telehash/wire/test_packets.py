"""A packet: two bytes of length, a head, a body."""

from __future__ import annotations

import json
import time

import pytest

from aqueduct_core.telehash.faults import PacketFault
from aqueduct_core.telehash.wire.packets import MAX_DEPTH, Packet, PacketRefused, decode, encode
from tests.support.rules import rule

HEADS = {
    "nothing": (b"\0\0body", Packet(None, b"body")),
    "a byte": (b"\0\x01\xffbody", Packet(0xFF, b"body")),
    "a byte that is a digit": (b"\0\x017", Packet(ord("7"), b"")),
    "an object": (b"\0\x02{}b", Packet({}, b"b")),
    "an array": (b"\0\x07[1,[2]]b", Packet([1, [2]], b"b")),
    "nothing at all": (b"\0\0", Packet(None, b"")),
    "a body that looks like a head": (b'\0\x07{"c":1}{"c":2}', Packet({"c": 1}, b'{"c":2}')),
}


@rule("P-1")
@pytest.mark.parametrize("name", HEADS)
def test_heads_that_there_are(name: str) -> None:
    data, packet = HEADS[name]
    assert decode(data) == packet


def deep(depth: int, inner: str = "1") -> str:
    return "[" * depth + inner + "]" * depth


BAD = {
    "no byte": (b"", PacketFault.TOO_SHORT),
    "one byte": (b"\0", PacketFault.TOO_SHORT),
    "a head longer than the packet": (b"\0\x03{}", PacketFault.HEAD_TOO_LONG),
    "a length without a head": (b"\xff\xff", PacketFault.HEAD_TOO_LONG),
    "no UTF-8": (b'\0\x0a{"c":"\xff\xfe"}', PacketFault.NOT_UTF8),
    "a half of a pair in UTF-8": (b'\0\x0b{"c":"\xed\xa0\x80"}', PacketFault.NOT_UTF8),
    "cut JSON": (b'\0\x03{"c', PacketFault.NOT_JSON),
    "text": (b'\0\x03"c"', PacketFault.NOT_JSON),
    "a number": (b"\0\x0212", PacketFault.NOT_JSON),
    "NaN": (b'\0\x09{"c":NaN}', PacketFault.NOT_JSON),
    "a number out of range": (b'\0\x0b{"c":1e999}', PacketFault.NOT_JSON),
    "two values": (b"\0\x04{}{}", PacketFault.NOT_JSON),
    "a mark of byte order": (b"\0\x05\xef\xbb\xbf{}", PacketFault.NOT_JSON),
}


@rule("P-1")
@pytest.mark.parametrize("name", BAD)
def test_what_is_no_packet(name: str) -> None:
    data, fault = BAD[name]
    with pytest.raises(PacketRefused) as refused:
        decode(data)
    assert refused.value.fault is fault


@pytest.mark.parametrize(
    "head",
    [
        '{"c":1,"c":2}',
        '{"c":1,"\\u0063":2}',
        '{"c":1,"_":{"a":1,"a":1}}',
        '{"c":1,"_":{"a":[{"b":1,"b":2}]}}',
        '[{"a":1,"a":1}]',
        '{"c":1,"x":":","c":1}',
    ],
)
def test_a_key_that_is_there_twice_wherever(head: str) -> None:
    with pytest.raises(PacketRefused) as refused:
        decode(encode(head.encode(), b""))
    assert refused.value.fault is PacketFault.REPEATED_KEY


def test_the_same_key_at_two_places_is_no_repeat() -> None:
    head = {"c": 1, "_": {"c": 1, "a": [{"c": 1}, {"c": 1}]}}
    assert decode(encode(json.dumps(head).encode(), b"")).head == head


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 10_000])
@pytest.mark.parametrize("form", ['{"c":1,"_":%s}', '{"c":1,"_":{"a":%s}}', "[%s]"])
def test_a_head_that_is_nested_too_deeply(depth: int, form: str) -> None:
    with pytest.raises(PacketRefused) as refused:
        decode(encode((form % deep(depth)).encode(), b""))
    assert refused.value.fault is PacketFault.TOO_DEEP


def test_a_head_that_ends_while_it_nests() -> None:
    with pytest.raises(PacketRefused) as refused:
        decode(encode(b"[" * 10_000, b""))
    assert refused.value.fault in (PacketFault.TOO_DEEP, PacketFault.NOT_JSON)


def test_a_head_as_deep_as_may_be() -> None:
    head = decode(encode(deep(MAX_DEPTH).encode(), b"")).head
    assert json.dumps(head) == deep(MAX_DEPTH)


def costly(size: int) -> list[bytes]:
    """Heads of so many bytes that are as much work as may be."""
    keys = ",".join(f'"{number}":1' for number in range(size // 9))
    return [
        b"[" + b"{}," * (size // 3) + b"{}]",
        b"[" + b"9" * 300 + (b"," + b"9" * 300) * (size // 301) + b"]",
        b'{"a":"' + b":" * size + b'"}',
        b"{%b}" % keys.encode(),
    ]


def test_reading_costs_in_proportion_to_the_length() -> None:
    def seconds(head: bytes) -> float:
        best = 1.0
        for _ in range(3):
            began = time.process_time()
            try:
                decode(encode(head, b""))
            except PacketRefused:
                pass
            best = min(best, time.process_time() - began)
        return best

    for head in costly(60_000):
        assert seconds(head) < 0.2
