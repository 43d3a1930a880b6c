"""Packets as real peers send them (telehash-js 0.1.41, telehash-c 60a217c), with their meaning."""

from __future__ import annotations

import json
from typing import NamedTuple

from aqueduct_core.telehash.wire.channel_packets import ChannelPacket


class PacketVector(NamedTuple):
    name: str
    data: bytes
    packet: ChannelPacket


def _vector(name: str, data: str, packet: ChannelPacket) -> PacketVector:
    return PacketVector(name, bytes.fromhex(data), packet._replace(size=len(data) // 2))


def _json(name: str, head: str, body: bytes, packet: ChannelPacket) -> PacketVector:
    data = len(head).to_bytes(2) + head.encode() + body
    return PacketVector(name, data, packet._replace(size=len(data)))


VECTORS = (
    _vector(
        "open",
        "00377b2263223a312c22736571223a302c2274797065223a225f68656c6c6f222c225f223a7b22637573746f6d"
        "223a2276616c756573227d7d6869",
        ChannelPacket(1, 0, type="_hello", js=b'{"custom":"values"}', body=b"hi"),
    ),
    _vector("ack JS", "000f7b2261636b223a302c2263223a317d", ChannelPacket(1, ack=0)),
    _vector("ack C", "000f7b2263223a312c2261636b223a307d", ChannelPacket(1, ack=0)),
    _vector("data", "000f7b2263223a312c22736571223a317d78", ChannelPacket(1, 1, body=b"x")),
    _vector(
        "miss JS",
        "001c7b2261636b223a302c226d697373223a5b312c335d2c2263223a317d",
        ChannelPacket(1, ack=0, miss=[1, 3]),
    ),
    _json(
        "miss C",
        '{"c":1,"ack":2,"miss":[3,5,6,7,8,9,10,11,12]}',
        b"",
        ChannelPacket(1, ack=2, miss=[3, 5, 6, 7, 8, 9, 10, 11, 12]),
    ),
    _vector(
        "end",
        "001a7b2263223a312c22736571223a312c22656e64223a747275657d6c617374",
        ChannelPacket(1, 1, end=True, body=b"last"),
    ),
    _vector(
        "err JS",
        "00177b22657272223a2262656361757365222c2263223a317d",
        ChannelPacket(1, err="because"),
    ),
    _vector(
        "resend",
        "00237b225f223a7b2269223a327d2c22736571223a322c2263223a312c2261636b223a307d6e32",
        ChannelPacket(1, 2, 0, js=b'{"i":2}', body=b"n2"),
    ),
)
"""Each row of what was taken from the wire."""

OTHER_FORMS = (
    _json("end as text", '{"c":1,"seq":1,"end":"true"}', b"", ChannelPacket(1, 1, end=True)),
    _json("no end", '{"c":1,"seq":1,"end":false}', b"", ChannelPacket(1, 1)),
    _json(
        "end of JS",
        '{"_":{"end":true},"seq":3,"c":1}',
        b"",
        ChannelPacket(1, 3, end=True, js=b'{"end":true}'),
    ),
    _json("content that says end", '{"_":{"end":true},"seq":3,"c":1}', b"more",
          ChannelPacket(1, 3, js=b'{"end":true}', body=b"more")),
    _json("empty miss", '{"ack":4,"miss":[],"c":1}', b"", ChannelPacket(1, ack=4, miss=[])),
    _json("miss alone", '{"c":1,"miss":[0]}', b"", ChannelPacket(1, miss=[0])),
    _json("no JSON of ours", '{"c":1,"seq":1,"_":null}', b"", ChannelPacket(1, 1)),
    _json("JSON that is no object", '{"c":1,"seq":1,"_":[1, 2]}', b"",
          ChannelPacket(1, 1, js=b"[1,2]")),
    _json("other keys", '{"c":1,"type":"seek","seek":"ab","see":[]}', b"",
          ChannelPacket(1, type="seek", js=b'{"seek":"ab","see":[]}')),
    _json("a colon in text", '{"c":1,"seq":1,"_":{"a:b":"c:d"}}', b"",
          ChannelPacket(1, 1, js=b'{"a:b":"c:d"}')),
    _json("white space", '{ "c" : 1 , "seq" : 1 }\n', b"", ChannelPacket(1, 1)),
    _json("highest", '{"c":4294967295,"seq":4294967295,"ack":4294967295}', b"",
          ChannelPacket(4294967295, 4294967295, 4294967295)),
)  # fmt: skip
"""What may come as well."""


def head_of(data: bytes) -> object:
    return json.loads(data[2 : 2 + int.from_bytes(data[:2])])
