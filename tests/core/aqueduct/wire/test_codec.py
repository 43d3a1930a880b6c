"""Encoders against decoders, and vectors of header data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.faults import Code, PeerFault
from aqueduct_core.aqueduct.wire import codec
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.frames import (
    AckNackUnreliable,
    AckReliable,
    ConnectionHeaders,
    Dequeued,
    FinishSender,
    MessageFrame,
    RouteTo,
    SentUnreliable,
)
from aqueduct_core.engine.message_batch import Attachment, Headers
from aqueduct_core.primitives.cursor import Cursor
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.primitives.varint import Malformed, NeedMore
from tests.support.rules import rule

CONFIG = Config()
NUMBERS = st.integers(0, (1 << 62) - 1)
HEADERS = st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=5).map(tuple)
ATTACHMENTS = st.lists(
    st.builds(lambda i, h: Attachment(8 + i * 2, h), st.integers(0, 1 << 40), HEADERS),
    max_size=4,
    unique_by=lambda attachment: attachment.channel,
).map(tuple)


@rule("AQ-HDRDATA-1", "AQ-HDRDATA-2", "AQ-HDRDATA-3")
@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        pytest.param("00", (), id="T22"),
        pytest.param("04016b0176", ((b"k", b"v"),), id="T23"),
        pytest.param("08016b0131016b0132", ((b"k", b"1"), (b"k", b"2")), id="T24"),
        pytest.param("02016b", None, id="T25"),
        pytest.param("02056b", None, id="T26"),
        pytest.param("020000", ((b"", b""),), id="T27"),
    ],
)
def test_header_data(text: str, pairs: Headers | None) -> None:
    region = Cursor(bytes.fromhex(text)).region()
    if pairs is None:
        with pytest.raises(Malformed):
            codec.decode_headers(region, CONFIG)
    else:
        assert codec.decode_headers(region, CONFIG) == pairs
        assert codec.encode_headers(pairs).hex() == text


@rule("AQ-HDRDATA-1")
@given(HEADERS)
def test_headers_there_and_back(headers: Headers) -> None:
    data = codec.encode_connection_headers(headers)
    assert codec.decode_connection_headers(data, 1, len(data), CONFIG) == (
        ConnectionHeaders(headers),
        len(data),
    )


def test_too_many_pairs() -> None:
    data = codec.encode_headers(((b"", b""),) * 257)
    with pytest.raises(PeerFault) as caught:
        codec.decode_headers(Cursor(data).region(), CONFIG)
    assert caught.value.code is Code.RESOURCE_LIMIT


@rule("AQ-FRAME-5")
@given(NUMBERS, HEADERS, ATTACHMENTS, st.binary(max_size=300), st.binary(max_size=5))
def test_message_there_and_back(
    number: int,
    headers: Headers,
    attachments: tuple[Attachment, ...],
    payload: bytes,
    tail: bytes,
) -> None:
    data = codec.encode_message(number, headers, attachments, payload)
    expected = MessageFrame(number, headers, attachments, payload, len(data))
    whole = data + tail
    assert codec.decode_message(whole, 0, len(whole), CONFIG, Side.CLIENT) == (expected, len(data))
    for cut in range(1, len(data)):
        with pytest.raises(NeedMore) as more:
            codec.decode_message(data, 0, cut, CONFIG, Side.CLIENT)
        assert cut < more.value.upto <= len(data)


@rule("AQ-FRAME-4", "AQ-FRAME-6", "AQ-FRAME-7", "AQ-FRAME-13")
@given(NUMBERS)
def test_counts_there_and_back(number: int) -> None:
    for encode, decode, kind in (
        (codec.encode_route_to, codec.decode_route_to, RouteTo),
        (codec.encode_sent_unreliable, codec.decode_sent_unreliable, SentUnreliable),
        (codec.encode_finish_sender, codec.decode_finish_sender, FinishSender),
        (codec.encode_dequeued, codec.decode_dequeued, Dequeued),
    ):
        data = encode(number)
        assert decode(data, 1, len(data)) == (kind(number), len(data))


@rule("AQ-ACK-2", "AQ-FRAME-9")
@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(1, 1 << 20)), min_size=1, max_size=20)
)
def test_acks_there_and_back(pieces: list[tuple[int, int]]) -> None:
    ranges = RangeSet((first, first + length) for first, length in pieces)
    data = codec.encode_ack_reliable(ranges)
    assert codec.decode_ack_reliable(data, 1, len(data), CONFIG) == (
        AckReliable(tuple(ranges)),
        len(data),
    )


@rule("AQ-ACK-7", "AQ-FRAME-10")
@given(st.integers(0, 1 << 20), st.lists(st.integers(1, 1 << 20), min_size=1, max_size=20))
def test_answers_there_and_back(first: int, rest: list[int]) -> None:
    data = codec.encode_ack_nack([first, *rest])
    assert codec.decode_ack_nack(data, 1, len(data), CONFIG) == (
        AckNackUnreliable((first, *rest)),
        len(data),
    )


def test_worked_encodings() -> None:
    assert codec.encode_ack_reliable([(0, 3), (5, 6), (9, 11)]).hex() == "0806000302010302"
    assert codec.encode_ack_reliable([(3, 5), (6, 7)]).hex() == "080403020101"
    assert codec.encode_ack_nack([1, 1, 1]).hex() == "0903010101"
    assert codec.encode_ack_nack([200]).hex() == "0902c801"
    assert codec.encode_sent_unreliable(200).hex() == "05c801"
    assert codec.encode_finish_sender(300).hex() == "06ac02"
    assert len(codec.VERSION) == 28


def test_too_many_attachments() -> None:
    config = Config(max_attachments=2)
    data = codec.encode_message(0, (), [Attachment(c, ()) for c in (8, 16, 24)], b"")
    with pytest.raises(PeerFault) as caught:
        codec.decode_message(data, 0, len(data), config, Side.CLIENT)
    assert caught.value.code is Code.RESOURCE_LIMIT


@rule("AQ-VER-4")
@pytest.mark.parametrize("before", [0, 3])
def test_a_version_that_is_cut_anywhere_is_waited_for(before: int) -> None:
    data = bytes(before) + codec.VERSION + b"more"
    whole = before + len(codec.VERSION)
    for end in range(before + 1, whole):
        with pytest.raises(NeedMore) as more:
            codec.check_version(data, before, end)
        assert more.value.upto == end + 1
        with pytest.raises(NeedMore):
            codec.check_version(data[:end], before, end)
    assert codec.check_version(data, before, len(data)) == whole


def test_headers_of_attachments_have_the_limit_of_headers() -> None:
    headers = ((b"k", b"v"),)
    attachments = (Attachment(8, ()), Attachment(10, headers), Attachment(12, headers))
    data = codec.encode_message(0, (), attachments, b"x")
    size = codec.headers_size(headers)
    config = Config(max_headers_bytes=size)
    message, _ = codec.decode_message(data, 0, len(data), config, Side.CLIENT)
    assert message.attachments == attachments
    with pytest.raises(PeerFault) as fault:
        codec.decode_message(data, 0, len(data), Config(max_headers_bytes=size - 1), Side.CLIENT)
    assert fault.value.code == Code.RESOURCE_LIMIT
