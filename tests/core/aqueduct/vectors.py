"""Test vectors T38–T103: bytes of one frame sequence and what they mean.

``V`` in the bytes stands for the VERSION frame. ``early``: the reader has not sent ACK_VERSION.
``frames`` are what must be read; ``code`` is the error that must end it; ``waits``: the sequence
is not complete, which is an error only where no more can come.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.codec import VERSION

C, S = Side.CLIENT, Side.SERVER


class Vector(NamedTuple):
    id: str
    what: str
    sender: Side
    text: str
    frames: tuple[Any, ...] = ()
    code: Code | None = None
    early: bool = False
    datagram: bool = False
    waits: bool = False

    @property
    def data(self) -> bytes:
        return bytes.fromhex(self.text.replace("V", VERSION.hex()))


def message(number: int, payload: bytes, headers: Any = (), attached: Any = ()) -> tuple[Any, ...]:
    return ("MessageFrame", number, headers, attached, payload)


VERSION_FRAME = ("Version",)
ACK_VERSION = ("AckVersion",)
HEADERS = ("ConnectionHeaders", ())


def route(channel: int) -> tuple[Any, ...]:
    return ("RouteTo", channel)


VECTORS = [
    Vector("T38", "VERSION alone", C, "V", (VERSION_FRAME,), early=True),
    Vector("T39", "client opening stream", C, "V0200", (VERSION_FRAME, HEADERS), early=True),
    Vector(
        "T40",
        "client opening stream with one header",
        C,
        "V020d0b63626f722d62336236353000",
        (VERSION_FRAME, ("ConnectionHeaders", ((b"cbor-b3b650", b""),))),
        early=True,
    ),
    Vector(
        "T41",
        "server reply",
        S,
        "V010200",
        (VERSION_FRAME, ACK_VERSION, HEADERS),
        early=True,
    ),
    Vector("T42", "ACK_VERSION alone", C, "01", (ACK_VERSION,)),
    Vector("T43", "first sequence without VERSION", C, "0200", code=Code.VERSION, early=True),
    Vector(
        "T44",
        "bad magic",
        C,
        "ef505fa6600f408f41515545445543540b302e302e302d41465445520200",
        code=Code.VERSION,
        early=True,
    ),
    Vector(
        "T45",
        "version 0.0.1-AFTER",
        C,
        "ef505fa6600f408e41515545445543540b302e302e312d41465445520200",
        code=Code.VERSION,
        early=True,
    ),
    Vector("T46", "VERSION cut", C, "ef505fa6600f408e4151", early=True, waits=True),
    Vector("T47", "empty before ACK_VERSION", C, "", code=Code.VERSION, early=True),
    Vector("T48", "empty later", C, ""),
    Vector("T49", "entrypoint message", C, "030004000000026869", (route(0), message(0, b"hi"))),
    Vector(
        "T50",
        "the same with VERSION",
        C,
        "V030004000000026869",
        (VERSION_FRAME, route(0), message(0, b"hi")),
        early=True,
    ),
    Vector(
        "T51",
        "two messages and finish",
        C,
        "03000400000001610401000001620602",
        (route(0), message(0, b"a"), message(1, b"b"), ("FinishSender", 2)),
    ),
    Vector(
        "T52",
        "message header",
        C,
        "03000400040174013100026869",
        (route(0), message(0, b"hi", ((b"t", b"1"),))),
    ),
    Vector(
        "T53",
        "two attachments",
        C,
        "03000401000808000204016b01760178",
        (route(0), message(1, b"x", (), ((8, ()), (2, ((b"k", b"v"),))))),
    ),
    Vector("T54", "attachment of the wrong side", C, "03000401000201000178", code=Code.CONTEXT),
    Vector("T55", "attachment twice", C, "030004010004080008000178", code=Code.CONTEXT),
    Vector("T56", "entrypoint attached", C, "03000401000200000178", code=Code.CONTEXT),
    Vector("T57", "attachments cut", C, "030004010001080178", code=Code.ENCODING),
    Vector("T58", "MESSAGE unrouted", C, "04000000026869", code=Code.PROTOCOL),
    Vector("T59", "second ROUTE_TO", C, "0300030804000000026869", code=Code.PROTOCOL),
    Vector("T60", "VERSION after ROUTE_TO", C, "0300V", code=Code.PROTOCOL),
    Vector("T61", "headers after ROUTE_TO", C, "03000200", code=Code.PROTOCOL),
    Vector("T62", "unknown tag 13", C, "03000d", code=Code.ENCODING),
    Vector("T63", "unknown tag 0", C, "00", code=Code.ENCODING),
    Vector("T64", "MESSAGE from the receiver", S, "030004000000026869", code=Code.CONTEXT),
    Vector("T65", "ack 0", S, "030008020001", (route(0), ("AckReliable", ((0, 1),)))),
    Vector("T66", "ack 0-4", S, "030008020005", (route(0), ("AckReliable", ((0, 5),)))),
    Vector("T67", "ack 2-3", S, "030008020202", (route(0), ("AckReliable", ((2, 4),)))),
    Vector(
        "T68",
        "ack three ranges",
        S,
        "03000806000302010302",
        (route(0), ("AckReliable", ((0, 3), (5, 6), (9, 11)))),
    ),
    Vector("T69", "ack 300", S, "03000803ac0201", (route(0), ("AckReliable", ((300, 301),)))),
    Vector("T70", "ack nothing", S, "03000800", code=Code.ENCODING),
    Vector("T71", "ack odd count", S, "0300080100", code=Code.ENCODING),
    Vector("T72", "ack zero length", S, "030008020000", code=Code.ENCODING),
    Vector("T73", "ack zero gap", S, "0300080400010001", code=Code.ENCODING),
    Vector("T74", "ack from the sender", C, "030008020001", code=Code.CONTEXT),
    Vector("T75", "ack 3", S, "0300090103", (route(0), ("AckNackUnreliable", (3,)))),
    Vector("T76", "nack 2", S, "030009020002", (route(0), ("AckNackUnreliable", (0, 2)))),
    Vector(
        "T77",
        "ack, nack, ack",
        S,
        "03000903010101",
        (route(0), ("AckNackUnreliable", (1, 1, 1))),
    ),
    Vector("T78", "ack-nack nothing", S, "03000900", code=Code.ENCODING),
    Vector("T79", "ack-nack lone zero", S, "0300090100", code=Code.ENCODING),
    Vector("T80", "ack-nack later zero", S, "030009020100", code=Code.ENCODING),
    Vector("T81", "ranges cut", S, "030008020080", code=Code.ENCODING),
    Vector(
        "T82",
        "declare 3, finish 0",
        C,
        "030805030600",
        (route(8), ("SentUnreliable", 3), ("FinishSender", 0)),
    ),
    Vector("T83", "cancel", C, "030807", (route(8), ("CancelSender",))),
    Vector(
        "T84",
        "acks and close",
        S,
        "030808020002090202010a",
        (
            route(8),
            ("AckReliable", ((0, 2),)),
            ("AckNackUnreliable", (2, 1)),
            ("CloseReceiver",),
        ),
    ),
    Vector("T85", "forget by the creator", C, "03080b", (route(8), ("ForgetChannel",))),
    Vector("T86", "forget by the other side", S, "03080b", code=Code.CONTEXT),
    Vector("T87", "forget unrouted", C, "0b08", code=Code.PROTOCOL),
    Vector("T88", "dequeued", S, "03000c64", (route(0), ("Dequeued", 100))),
    Vector("T89", "dequeued by the sender", C, "03000c64", code=Code.CONTEXT),
    Vector("T90", "ROUTE_TO alone", S, "0308", (route(8),)),
    Vector(
        "T91",
        "datagram message",
        C,
        "0308040000000175",
        (route(8), message(0, b"u")),
        datagram=True,
    ),
    Vector(
        "T92",
        "datagram with VERSION",
        C,
        "V0308040000000175",
        (VERSION_FRAME, route(8), message(0, b"u")),
        early=True,
        datagram=True,
    ),
    Vector("T93", "declare in a datagram", C, "03080501", code=Code.PROTOCOL, datagram=True),
    Vector(
        "T94", "headers in a datagram", C, "V0200", code=Code.PROTOCOL, early=True, datagram=True
    ),
    Vector(
        "T95",
        "datagram cut",
        C,
        "030804000000047575",
        (route(8),),
        code=Code.ENCODING,
        datagram=True,
        waits=True,
    ),
    Vector("T96", "stream message cut", C, "030804000000047575", (route(8),), waits=True),
    Vector(
        "T97",
        "all in one stream",
        S,
        "V010200030008020001",
        (VERSION_FRAME, ACK_VERSION, HEADERS, route(0), ("AckReliable", ((0, 1),))),
        early=True,
    ),
    Vector(
        "T98",
        "flow control header",
        C,
        "V021b13666c6f772d636f6e74726f6c2d35613363313906808004808040",
        (
            VERSION_FRAME,
            ("ConnectionHeaders", ((b"flow-control-5a3c19", b"\x80\x80\x04\x80\x80@"),)),
        ),
        early=True,
    ),
    Vector(
        "T99",
        "reply channel of the server",
        S,
        "030204000002010000",
        (route(2), message(0, b"", (), ((1, ()),))),
    ),
    Vector(
        "T100",
        "preferred server reply",
        S,
        "V020001",
        (VERSION_FRAME, HEADERS, ACK_VERSION),
        early=True,
    ),
    Vector(
        "T101",
        "oneshot message and finish",
        C,
        "03040400000001720601",
        (route(4), message(0, b"r"), ("FinishSender", 1)),
    ),
    Vector(
        "T102",
        "sender made by the server",
        C,
        "030104000000026f6b0601",
        (route(1), message(0, b"ok"), ("FinishSender", 1)),
    ),
    Vector(
        "T103",
        "two-byte counts",
        C,
        "030805c80106ac02",
        (route(8), ("SentUnreliable", 200), ("FinishSender", 300)),
    ),
]
