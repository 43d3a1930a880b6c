"""What fuzzing starts from: the vectors T01–T103, the conversations S01–S18, valid values.

Made by code rather than kept as files, so that they follow when a target's steps change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from aqueduct_core.aqueduct.conventions.positions import ChannelPosition, to_payload
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.codec import VERSION
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.spool.format.segment import Index
from tests.core.aqueduct.vectors import VECTORS
from tests.core.quicr.wire.vectors import DATAGRAMS, MESSAGES, OTHER_FORMS
from tests.core.telehash.wire import vectors as telehash
from tests.fuzz import (
    codec_target,
    engine_target,
    media_target,
    operations_target,
    parsers_target,
    quicr_engine_target,
    quicr_relay_target,
    ranges_target,
    reassembly_target,
    telehash_engine_target,
)

# T01–T37: varints, varbytes, header data, channel identifiers; then varranges (AQ-RANGES-1).
_PRIMITIVES = (
    "00 7f 8001 ac02 ff7f 808001 ffffffff0f ffffffffffffff7f 808080808080808001 "
    "ffffffffffffffff7f 80808080808080808001 ffffffffffffffffff01 ffffffffffffffffff 8000 ff00 "
    "80 80808080808080808002 8080808080808080808001 00 026869 0568 00 04016b0176 "
    "08016b0131016b0132 02016b 02056b 020000 00 08 01 02 03 04 06 2f 8001 f8ffffffffffffff7f "
    "03000502"
)

# What the peer of the engine puts on the wire in S01–S18, by side of the engine. ``>`` goes on
# with the stream before, ``d:`` is a datagram, ``.`` the end of the stream, ``!`` a reset, ``~n``
# the n-th length of waiting.
_SERVER_HEARS = {
    "S02": "030004000000026869 ~2",
    "S03": "030004000002080001 d:0308040000000161 d:0308040200000163 03080503 ~4 >0502 ~4",
    "S04": "030804000000016d ~2 03000400000208000178 ~2",
    "S05": "030104000000017a ~2",
    "S06": "03000400000001610401000001620602. ~2",
    "S08": "0300040000000161040100000162 ! 030007. ~2",
    "S10": "0300040300040800020000 ~2",
    "S11": "03000400000208000178 03080605 03080501 ~2",
    "S12": "03080b 030804000000016d ~2",
    "S13": "0301 0301 0301 0301 ~2",
    "S14": "030004000000056869 ! 030004000000026869 ~2",
    "S16": "V030004000000026869 V0200. ~2",
    "S18": "03000400000206000171 ~2",
}
_CLIENT_HEARS = {
    "S02": "030008020001",
    "S06": "0300080200020a.",
    "S07": "030808020001 03000a",
    "S15": "03000c07",
    "S17": "0300080200020a.",
    "S18": "03060400000001720601. ~2",
}


def seeds(target: str) -> Iterator[tuple[str, bytes]]:
    """The name of each input and the input."""
    yield from _SEEDS[target]()


def _codec() -> Iterator[tuple[str, bytes]]:
    for i, text in enumerate(_PRIMITIVES.split()):
        for kind in range(5):
            yield f"T{i + 1:02}-{kind}", bytes([kind]) + bytes.fromhex(text)
    frames = {4: (5, 6), 8: (8,), 9: (9,), 5: (10,), 6: (11,), 12: (12,), 2: (1,)}
    for vector in VECTORS:
        data = vector.data.removeprefix(VERSION)
        body = data[2:] if data[:1] == b"\x03" else data
        for decoder in frames.get(body[0] if body else 0, ()):
            yield f"{vector.id}-{decoder}", bytes([decoder]) + body[1:]
    yield "T38", bytes([codec_target.DECODERS.index(codec_target._version)]) + VERSION
    block = b"".join(b"\x04" + bytes([number]) + b"\x00\x00\x01m" for number in range(20))
    yield "block", bytes([codec_target.DECODERS.index(codec_target._block)]) + block


def _grammar() -> Iterator[tuple[str, bytes]]:
    for vector in VECTORS:
        flags = vector.sender | vector.datagram << 1 | vector.early << 2 | (not vector.waits) << 4
        for suffix, cuts in (("whole", b"\x00"), ("bytes", b"\x01\x00"), ("pairs", b"\x01\x01")):
            yield f"{vector.id}-{suffix}", bytes([flags]) + cuts + vector.data


def _step(steps: tuple[Callable[..., Any], ...], name: str) -> bytes:
    return bytes([next(i for i, step in enumerate(steps) if step.__name__ == name)])


def _engine_step(name: str) -> bytes:
    return _step(engine_target._STEPS, name)


_HANDSHAKE = 64


def _engine() -> Iterator[tuple[str, bytes]]:
    for vector in VECTORS:
        side = vector.sender.other
        start = bytes([side | (0 if vector.early else _HANDSHAKE), 0])[: 1 if vector.early else 2]
        if vector.datagram:
            body = _engine_step("datagram") + _block(vector.data) + b"\x00"
        else:
            body = _heard(vector.data, end=not vector.waits)
        yield vector.id, start + body
    for side, told in ((Side.SERVER, _SERVER_HEARS), (Side.CLIENT, _CLIENT_HEARS)):
        for flow, headers in ((0, 0), (3, 3)):
            for name, script in told.items():
                start = bytes([side | flow << 4 | _HANDSHAKE, headers])
                sends = b"" if side is Side.SERVER else _client_sends()
                yield f"{name}-{side.name}-{flow}", start + sends + _script(script)


def _block(data: bytes) -> bytes:
    return bytes([len(data)]) + data


def _heard(data: bytes, *, end: bool, again: bool = False) -> bytes:
    """A step of the engine target: bytes on a new stream, or on the last one (place 0)."""
    return _engine_step("raw_bytes") + _block(data) + bytes([end, 0 if again else 7])


def _client_sends() -> bytes:
    """Two messages in order, the first with an attachment that the client sends on."""
    return _engine_step("send") + b"\x44\x01\x00" + _engine_step("send") + b"\x00\x01\x00"


def _script(text: str) -> bytes:
    out = b""
    for word in text.split():
        if word == "!":
            out += _engine_step("reset") + b"\x00\x01"
        elif word[0] == "~":
            out += _engine_step("time") + bytes([int(word[1:])])
        elif word[:2] == "d:":
            out += _engine_step("datagram") + _block(bytes.fromhex(word[2:])) + b"\x00"
        else:
            text = word.strip(">.").replace("V", VERSION.hex())
            out += _heard(bytes.fromhex(text), end=word[-1] == ".", again=word[0] == ">")
    return out


# Steps of the operations target: a name and its parameters.
_CONVERSATIONS: dict[str, list[tuple[str, str]]] = {
    "S01": [("wait", "03")],
    "S02": [("send", "00000001"), ("wait", "03")],
    "S03": [("send", "00000408"), *[("send", "00000402")] * 4, ("wait", "05"), ("wait", "05")],
    "S06": [("send", "00000001")] * 2 + [("end_half", "000000"), ("wait", "03")],
    "S08": [("send", "00000001")] * 2 + [("end_half", "000001"), ("wait", "03")],
    "S09": [("send", "00000007")] * 3 + [("wait", "05")],
    "S10": [("send", "0000c001"), ("wait", "03"), ("drop", "01"), ("wait", "03")],
    "S17": [("send", "00000001")] * 2 + [("wait", "01"), ("end_half", "010002"), ("wait", "03")],
    "S18": [("send", "0000a001"), ("wait", "03"), ("send", "01010001"), ("wait", "03")],
    "many": [("send_many", "000027"), ("wait", "03"), ("send_many", "000027"), ("wait", "03")],
}


def _operations() -> Iterator[tuple[str, bytes]]:
    for name, conversation in _CONVERSATIONS.items():
        body = b"".join(
            _step(operations_target._STEPS, step) + bytes.fromhex(parameters)
            for step, parameters in conversation
        )
        for flags in (0x10, 0x12, 0x1E, 0x73):
            yield f"{name}-{flags:02x}", bytes([flags, 1]) + body


def _parsers() -> Iterator[tuple[str, bytes]]:
    offset = (
        b'{"v":1,"spool":{"0":{"id":"5f1c","at":"127.0.0.1:7001","epoch":3,"to":[120,98]}},'
        b'"launch":1,"tick":4}'
    )
    cut = offset.replace(b'"v":1', b'"v":2').replace(b"]}}", b'],"cut":{"1":[40,29]}}}')
    error = b'{"class":"DataLoss","subclass":"RANGE_GONE","what":"a","remedy":"b"}'
    segment, places = parsers_target.segment()
    deep = b"[" * 100_000
    inputs: dict[str, tuple[Callable[..., None], bytes]] = {
        "headers": (parsers_target._headers, b"\x02\x01\x00\x02me\x02\x02\x01\x33"),
        "ticket": (parsers_target._ticket, Ticket("spool", 1, 2, 3).to_bytes()),
        "ticket-null": (parsers_target._ticket, b'["rows","s",null,0,1]'),
        "ticket-infinite": (parsers_target._ticket, b'["rows","s",0,0,1e999]'),
        "ticket-deep": (parsers_target._ticket, deep),
        "error": (parsers_target._error, error),
        "error-list": (parsers_target._error, b'{"class":"DataLoss","subclass":[]}'),
        "error-deep": (parsers_target._error, deep),
        "offset": (parsers_target._offset, offset),
        "offset-cut": (parsers_target._offset, cut),
        "offset-infinite": (parsers_target._offset, offset.replace(b"4}", b"1e999}")),
        "index": (parsers_target._index, b"\x01" + Index(2).pack()),
        "index-zeros": (parsers_target._index, b"\x00" + b"\x00" * 8),
        "record": (parsers_target._record, segment[places[0][0] : places[0][1]]),
        "segment": (parsers_target._segment, b""),
        "position": (
            parsers_target._position,
            to_payload(ChannelPosition("c", 9, 3, True, ((0, 9),))),
        ),
        "position-deep": (parsers_target._position, deep),
        "segment-flips": (parsers_target._segment, b"\x02\x01\x00\x05\x03\x00\x07"),
    }  # fmt: skip
    for name, (parser, data) in inputs.items():
        yield name, bytes([parsers_target.PARSERS.index(parser)]) + data


def _reassembly() -> Iterator[tuple[str, bytes]]:
    here = reassembly_target.REACH
    pieces: dict[str, list[tuple[int, int]]] = {
        "in-order": [(here, 4), (here, 4), (here, 4)],
        "behind-a-hole": [(here + 4, 4), (here + 8, 4), (here, 4)],
        "backwards": [(here + 8, 4), (here + 4, 4), (here, 4)],
        "single-bytes": [(here + at, 1) for at in (9, 7, 5, 3, 8, 6, 4, 2, 1, 0)],
        "over-holes": [(here + 2, 2), (here + 6, 2), (here + 10, 2), (here + 1, 15), (here, 1)],
        "again": [(here, 8), (here - 4, 8), (here - 8, 4), (here, 0)],
        "too-many": [(here + at, 1) for at in range(2, 40, 2)],
    }
    for name, of in pieces.items():
        for joined in range(len(reassembly_target.JOINED)):
            steps = [bytes([start, size, number & 1]) for number, (start, size) in enumerate(of)]
            yield f"{name}-{joined}", bytes([7, joined]) + b"".join(steps)


def _ranges() -> Iterator[tuple[str, bytes]]:
    steps = {
        "apart": "020a04 021404 021e04",
        "touching": "020a05 020f05 020505",
        "over-all": "020a02 021402 020819",
        "hole": "02050f 010a04 000a04",
        "from-the-front": "020504 021404 000000",
    }
    for kind in range(len(ranges_target.KINDS)):
        for name, text in steps.items():
            yield f"{name}-{kind}", bytes([kind]) + bytes.fromhex(text)


def _quicr_codec() -> Iterator[tuple[str, bytes]]:
    for vector in (*MESSAGES, *OTHER_FORMS):
        yield vector.name, b"\x03" + vector.data
    yield "all", b"\x07" + b"".join(each.data for each in OTHER_FORMS)
    for datagram in DATAGRAMS:
        yield f"datagram-{datagram.name}", b"\x00" + datagram.data


def _quicr_engine() -> Iterator[tuple[str, bytes]]:
    """Both sides, each message of the peer on the stream of a transaction."""
    for flags in (0x39, 0x38, 0x18, 0x3D, 0x3C):
        for kind in range(3):
            begin = _quicr_step("ask") + bytes((0, kind, 1))
            for vector in (*MESSAGES, *OTHER_FORMS):
                data = vector.data[:255]
                name = f"{vector.name}-{flags:02x}-{kind}"
                yield (
                    name,
                    bytes((flags,)) + begin + _quicr_step("raw_bytes") + b"\x00" + _block(data),
                )


def _quicr_relay() -> Iterator[tuple[str, bytes]]:
    """A media is posted and read, each way; what comes of the upstream is anything."""
    post, request, accept = (
        _relay_step("message") + bytes((peer, kind, 0, datagram, 0, 0, 0, 0))
        for peer, kind, datagram in ((0, 1, 1), (1, 0, 0), (3, 7, 0))
    )
    media = _relay_step("media") + bytes((0, 0, 0, 4, 12, 0))
    for flags in range(8):
        yield f"post-{flags}", bytes((flags,)) + post + request + media + accept
        yield f"request-{flags}", bytes((flags,)) + request + post + media + _relay_step("time")


def _relay_step(name: str) -> bytes:
    return _step(quicr_relay_target._STEPS, name)


def _quicr_step(name: str) -> bytes:
    return _step(quicr_engine_target._STEPS, name)


def _media() -> Iterator[tuple[str, bytes]]:
    kinds = {each.__name__: number for number, each in enumerate(media_target.KINDS)}
    steps = {
        "_progress": ("0000 030000 030001 020103 030100", "0203 040204 010300 040300 000301"),
        "_assembler": ("00 00003c02 00003d02 00003e03", "03 01013c12 01010502 01013c1f 010105"),
        "_reception": (
            "0303 00 0000 13 1e00003105 1e00013105 1e00033105 07 1e00023105 180004",
            "0303 01 0000 13 1e00023105 1e01003139 07 180101 14 0100",
        ),
    }  # fmt: skip
    for kind, texts in steps.items():
        for number, text in enumerate(texts):
            yield f"{kind[1:]}-{number}", bytes([kinds[kind]]) + bytes.fromhex(text)


def _telehash_codec() -> Iterator[tuple[str, bytes]]:
    for vector in (*telehash.VECTORS, *telehash.OTHER_FORMS):
        yield vector.name, vector.data
    for name, head in (
        ("repeat", b'{"c":1,"c":2}'),
        ("deep", b'{"c":1,"_":' + b"[" * 70 + b"]" * 70 + b"}"),
        ("array", b'[{"c":1}]'),
        ("text", b'{"c":"1","seq":"0"}'),
        ("fractions", b'{"c":1,"seq":1.0,"_":[1e5,-0.5]}'),
        ("escapes", b'{"\\u0063":1,"type":"\\ud83d\\ude00"}'),
        ("bad utf-8", b'{"c":1,"_":"\xff"}'),
    ):
        yield name, len(head).to_bytes(2) + head + b"body"


def _telehash_engine() -> Iterator[tuple[str, bytes]]:
    """A channel of each side with content both ways, its end, and time; each packet of a peer."""
    step = partial(_step, telehash_engine_target._STEPS)
    end = b"\x01"
    for odd in (0, 1):
        begin = bytes((odd, 0))
        number = 1 if odd else 0  # a channel of the peer, less one
        opening = step("packet") + bytes((number, 33, 0, 3, 0)) + end
        content = step("packet") + bytes((number, 9, 1, 0)) + end
        process = step("process") + bytes((number, 0, 3)) + end
        time = step("time") + b"\x04" + end
        ours = step("open") + bytes((1, 2, 0)) + end + step("send") + bytes((0, 1, 255)) + end
        yield f"theirs-{odd}", begin + opening + content + process + time
        yield f"ours-{odd}", begin + ours + time + time
        yield f"both-{odd}", begin + opening + ours + content + process + time
        for vector in (*telehash.VECTORS, *telehash.OTHER_FORMS):
            data = step("raw") + _block(vector.data) + end
            yield f"{vector.name}-{odd}", begin + opening + ours + data + time


_SEEDS: dict[str, Callable[[], Iterator[tuple[str, bytes]]]] = {
    "codec": _codec,
    "grammar": _grammar,
    "engine": _engine,
    "operations": _operations,
    "parsers": _parsers,
    "reassembly": _reassembly,
    "ranges": _ranges,
    "quicr_codec": _quicr_codec,
    "quicr_engine": _quicr_engine,
    "quicr_relay": _quicr_relay,
    "media": _media,
    "telehash_codec": _telehash_codec,
    "telehash_engine": _telehash_engine,
}
