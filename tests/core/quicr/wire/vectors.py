"""Bytes of QUICR with their meaning: most are those that the prototype sends (commit 548d5bd), or
that its own tests have for its encodings."""

from __future__ import annotations

from typing import NamedTuple

from aqueduct_core.quicr.media.fragment import HOLE, Fragment
from aqueduct_core.quicr.media.position import Position
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

FIRST = bytes(210)
LATER = bytes(1203)
THIRTEEN = b"thirteenbytes"
EXAMPLE = b"example.com/media"


class MessageVector(NamedTuple):
    """A message and its body, without the length before it."""

    name: str
    body: bytes
    message: ControlMessage

    @property
    def data(self) -> bytes:
        return len(self.body).to_bytes(2) + self.body


class DatagramVector(NamedTuple):
    name: str
    header: bytes
    fragment: Fragment
    datagram_id: int = 0

    @property
    def data(self) -> bytes:
        return self.header + self.fragment.data


def _message(name: str, body: str, message: ControlMessage, rest: bytes = b"") -> MessageVector:
    return MessageVector(name, bytes.fromhex(body) + rest, message)


def _taken(name: str, data: str, message: ControlMessage, rest: bytes = b"") -> MessageVector:
    """As it was taken from the wire, with its length."""
    whole = bytes.fromhex(data) + rest
    vector = MessageVector(name, whole[2:], message)
    assert vector.data == whole, f"the length of {name}"
    return vector


MESSAGES = (
    _taken("request", "0009 01 07 70796d65646961", RequestMessage(b"pymedia", None)),
    _taken("request-datagram", "000a 02 07 70796d65646961 00", RequestMessage(b"pymedia", 0)),
    _taken("fin", "0003 03 02 02", FinMessage(Position(2, 2))),
    _taken(
        "fragment", "00d9 05 00 00 01 82 40d2", Fragment(0, 0, 0, FIRST, True, 0x82), rest=FIRST
    ),
    _taken(
        "fragment-last-of-large",
        "04bd 05 02 00 80004583 81 44b3",
        Fragment(2, 0, 8897, LATER, True, 0x81),
        rest=LATER,
    ),
    _taken("hole", "0006 05 00 01 01 ff 00", Fragment(0, 1, 0, b"", True, HOLE)),
    _taken("post", "0007 06 04 72705f73 00", PostMessage(b"rp_s", False)),
    _taken("post-datagram", "0007 06 04 72705f64 01", PostMessage(b"rp_d", True)),
    _taken("accept", "0002 07 00", AcceptMessage(None)),
    _taken("accept-datagram", "0003 07 01 00", AcceptMessage(0)),
    _taken("start-point", "0003 08 00 07", StartPointMessage(Position(0, 7))),
    _taken("subscribe", "0004 09 02 7079", SubscribeMessage(b"py")),
    _taken("subscribe-all", "0002 09 00", SubscribeMessage(b"")),
    _taken("notify", "000b 0a 09 766964656f74657374", NotifyMessage(b"videotest")),
    _message(
        "request-datagram-1234",
        f"02 11 {EXAMPLE.hex()} 44d2",
        RequestMessage(EXAMPLE, 1234),
    ),
    _message("fin-123456", "03 11 8001e240", FinMessage(Position(17, 123456))),
    _message(
        "fragment-123456",
        "05 00 8001e240 49a5 17 0d",
        Fragment(0, 123456, 1234, THIRTEEN, True, 0x17),
        rest=THIRTEEN,
    ),
    _message("start-point-123456", "08 49a5 8001e240", StartPointMessage(Position(2469, 123456))),
    _message("accept-datagram-17", "07 01 11", AcceptMessage(17)),
)
"""Each has the form in which we send it, too."""

OTHER_FORMS = (
    _message("long-type", "4008 00 07", StartPointMessage(Position(0, 7))),
    _message("long-type-of-fragment", "4005 00 01 01 ff 00", Fragment(0, 1, 0, b"", True, HOLE)),
    _message("ids-of-8-bytes", "03 c000000000000002 c000000000000002", FinMessage(Position(2, 2))),
    _message(
        "fragment-in-8-bytes",
        "05 c000000000000000 c000000000000001 c000000000000002 80 c000000000000001 78",
        Fragment(0, 1, 1, b"x", False, 0x80),
    ),
    _message("highest-ids", "08 ffffffff c00000003fffffff".replace("ff" * 4, "bfffffff"),
             StartPointMessage(Position((1 << 30) - 1, (1 << 30) - 1))),
    _message("post-datagram-2", "06 01 78 02", PostMessage(b"x", True)),
    _message("post-datagram-3", "06 01 78 03", PostMessage(b"x", True)),
    _message("hole-of-other-flags", "05 00 01 01 00 00", Fragment(0, 1, 0, b"", True)),
    _message("end-alone", "05 00 01 0b 82 00", Fragment(0, 1, 5, b"", True, 0x82)),
)  # fmt: skip
"""Read, and never written so."""

DATAGRAMS = (
    DatagramVector(
        "first-group", bytes.fromhex("00000001008200"), Fragment(0, 0, 0, b"abc", True, 0x82, 0, 0)
    ),
    DatagramVector(
        "second-object", bytes.fromhex("000001010082"), Fragment(0, 1, 0, b"abc", True, 0x82)
    ),
    DatagramVector(
        "next-group", bytes.fromhex("00010001008202"), Fragment(1, 0, 0, b"abc", True, 0x82, 0, 2)
    ),
    DatagramVector(
        "middle", bytes.fromhex("00020042a80081"), Fragment(2, 0, 340, b"abc", False, 0x81)
    ),
    DatagramVector(
        "far", bytes.fromhex("0002008000430e0081"), Fragment(2, 0, 8583, b"abc", False, 0x81)
    ),
    DatagramVector(
        "repeat", bytes.fromhex("00000053082a00"), Fragment(0, 0, 2436, b"abc", False, 0, 42)
    ),
    DatagramVector(
        "repeat-later",
        bytes.fromhex("0000005308404300"),
        Fragment(0, 0, 2436, b"abc", False, 0, 67),
    ),
    DatagramVector("hole", bytes.fromhex("0000010100ff"), Fragment(0, 1, 0, b"", True, HOLE)),
    DatagramVector(
        "unknown-previous",
        bytes.fromhex("4063 01 00 01 00 82 ffffffffffffffff"),
        Fragment(1, 0, 0, b"abc", True, 0x82),
        99,
    ),
)
