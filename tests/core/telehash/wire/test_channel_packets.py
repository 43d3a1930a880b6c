"""Fields of packets of channels, in both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.telehash.faults import PacketFault
from aqueduct_core.telehash.wire import channel_packets, packets
from aqueduct_core.telehash.wire.channel_packets import ChannelPacket, content_fields, decode
from aqueduct_core.telehash.wire.packets import PacketRefused
from tests.core.telehash.raw import packet
from tests.core.telehash.wire.vectors import OTHER_FORMS, VECTORS, PacketVector, head_of
from tests.support.rules import rule

ALL = {each.name: each for each in (*VECTORS, *OTHER_FORMS)}


@rule("P-1", "P-3", "P-4", "P-5", "P-6", "T-1", "T-3", "T-8", "T-11")
@pytest.mark.parametrize("name", ALL)
def test_what_peers_send_is_read(name: str) -> None:
    assert decode(ALL[name].data) == ALL[name].packet


@rule("P-1", "P-5", "P-6", "T-3", "T-8", "T-11")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda each: each.name)
def test_what_we_send_for_the_same_is_the_same_json(vector: PacketVector) -> None:
    data = written(vector.packet)
    assert head_of(data) == head_of(vector.data)
    assert decode(data) == vector.packet


def written(packet: ChannelPacket) -> bytes:
    acks = channel_packets.ack_fields(packet.ack, packet.miss or [])
    if packet.err is not None:
        return channel_packets.encode_err(packet.channel, packet.err)
    if packet.seq is None and not packet.has_content:
        return channel_packets.encode_ack(packet.channel, acks)
    fields = channel_packets.content_fields(
        type=packet.type,
        own=True,
        js=None if packet.js is None else json.loads(packet.js),
        end=packet.end,
    )
    return channel_packets.encode_content(packet.channel, packet.seq, acks, fields, packet.body)


@pytest.mark.parametrize("name", ALL)
def test_a_packet_that_is_cut_anywhere_is_refused_or_has_less_body(name: str) -> None:
    data, expected = ALL[name].data, ALL[name].packet
    head = 2 + int.from_bytes(data[:2])
    for stop in range(len(data)):
        if stop < head:
            with pytest.raises(PacketRefused) as refused:
                decode(data[:stop])
            fault = PacketFault.TOO_SHORT if stop < 2 else PacketFault.HEAD_TOO_LONG
            assert refused.value.fault is fault
        elif name != "content that says end":
            body = data[head:stop]
            assert decode(data[:stop]) == expected._replace(body=body, size=stop)


@pytest.mark.parametrize("name", ALL)
def test_what_is_behind_the_head_is_body(name: str) -> None:
    found = decode(ALL[name].data + b"tail")
    assert found.body == ALL[name].packet.body + b"tail"


BAD: dict[str, tuple[dict[str, Any] | str, PacketFault]] = {
    "no c": ({"seq": 0}, PacketFault.NO_CHANNEL),
    "an array": ("[1,2]", PacketFault.NO_CHANNEL),
    "c 0": ({"c": 0}, PacketFault.BAD_CHANNEL),
    "c of text": ({"c": "1"}, PacketFault.BAD_CHANNEL),
    "c negative": ({"c": -1}, PacketFault.BAD_CHANNEL),
    "c true": ({"c": True}, PacketFault.BAD_CHANNEL),
    "c 1.5": ({"c": 1.5}, PacketFault.BAD_CHANNEL),
    "c null": ({"c": None}, PacketFault.BAD_CHANNEL),
    "c 2^32": ({"c": 1 << 32}, PacketFault.BAD_CHANNEL),
    "seq of text": ({"c": 1, "seq": "0"}, PacketFault.BAD_SEQ),
    "seq negative": ({"c": 1, "seq": -1}, PacketFault.BAD_SEQ),
    "seq true": ({"c": 1, "seq": True}, PacketFault.BAD_SEQ),
    "seq 1.5": ({"c": 1, "seq": 1.5}, PacketFault.BAD_SEQ),
    "seq 1.0": ({"c": 1, "seq": 1.0}, PacketFault.BAD_SEQ),
    "seq 2^32": ({"c": 1, "seq": 1 << 32}, PacketFault.BAD_SEQ),
    "seq 2^64": ({"c": 1, "seq": 1 << 64}, PacketFault.BAD_SEQ),
    "ack of text": ({"c": 1, "ack": "0"}, PacketFault.BAD_ACK),
    "ack negative": ({"c": 1, "ack": -1}, PacketFault.BAD_ACK),
    "ack true": ({"c": 1, "ack": True}, PacketFault.BAD_ACK),
    "ack 2^32": ({"c": 1, "ack": 1 << 32}, PacketFault.BAD_ACK),
    "end 1": ({"c": 1, "end": 1}, PacketFault.BAD_END),
    "end of other text": ({"c": 1, "end": "yes"}, PacketFault.BAD_END),
    "err true": ({"c": 1, "err": True}, PacketFault.BAD_ERR),
    "type 1": ({"c": 1, "type": 1}, PacketFault.BAD_TYPE),
    "no type": ({"c": 1, "type": ""}, PacketFault.BAD_TYPE),
}


@rule("P-3", "P-4", "P-5", "P-6", "T-3")
@pytest.mark.parametrize("name", BAD)
def test_a_field_that_is_not_what_it_may_be(name: str) -> None:
    head, fault = BAD[name]
    with pytest.raises(PacketRefused) as refused:
        decode(packet(head))
    assert refused.value.fault is fault
    known = fault not in (PacketFault.NO_CHANNEL, PacketFault.BAD_CHANNEL)
    assert refused.value.channel == (1 if known else None)


@rule("T-12")
@pytest.mark.parametrize(
    ("miss", "fault"),
    [
        (list(range(101)), PacketFault.MISS_TOO_LONG),
        (["1"], PacketFault.BAD_MISS),
        ([1, True], PacketFault.BAD_MISS),
        ([1.5], PacketFault.BAD_MISS),
        ([-1], PacketFault.BAD_MISS),
        ([1 << 32], PacketFault.BAD_MISS),
        ([[1]], PacketFault.BAD_MISS),
        ("1", PacketFault.BAD_MISS),
        ({"1": 1}, PacketFault.BAD_MISS),
    ],
)
def test_a_miss_that_is_none_is_ignored_and_the_packet_counts(
    miss: object, fault: PacketFault
) -> None:
    found = decode(packet({"c": 1, "seq": 4, "ack": 2, "miss": miss}, b"x"))
    assert found[:4] == (1, 4, 2, None)
    assert found.ignored is fault


@rule("T-12")
def test_a_miss_of_a_hundred_counts() -> None:
    assert decode(packet({"c": 1, "ack": 2, "miss": [*range(100)]})).miss == [*range(100)]


def test_json_of_other_types_has_keys_of_its_own() -> None:
    fields = channel_packets.content_fields(type="seek", own=False, js={"seek": "ab"}, end=False)
    assert decode(channel_packets.encode_content(1, None, b"", fields, b"")).js == b'{"seek":"ab"}'
    with pytest.raises(ValueError, match="'seq' has a meaning"):
        channel_packets.content_fields(type="seek", own=False, js={"seq": 1}, end=False)


@pytest.mark.parametrize("js", [{"a": object()}, {"a": "\ud800"}, {(1, 2): 1}])
def test_what_is_not_to_be_written_as_json(js: Any) -> None:
    with pytest.raises(ValueError, match="not to be written"):
        channel_packets.content_fields(type=None, own=True, js=js, end=False)


NUMBERS = st.integers(0, 0xFFFF_FFFF)
JSON = st.dictionaries(
    st.text(), st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
                            lambda inner: st.lists(inner, max_size=3)), max_size=4,
)  # fmt: skip


@given(
    st.integers(1, 0xFFFF_FFFF),
    NUMBERS,
    st.none() | NUMBERS,
    st.lists(NUMBERS, max_size=100),
    st.booleans(),
    st.none() | st.text(min_size=1),
    st.none() | JSON,
    st.binary(max_size=50),
)
def test_what_is_written_is_read_and_no_longer_than_was_said(
    channel: int,
    seq: int,
    ack: int | None,
    miss: list[int],
    end: bool,
    type: str | None,
    js: dict[str, Any] | None,
    body: bytes,
) -> None:
    fields = channel_packets.content_fields(type=type, own=True, js=js, end=end)
    acks = channel_packets.ack_fields(ack, miss)
    data = channel_packets.encode_content(channel, seq, acks, fields, body)
    found = decode(data)
    assert found[:4] == (channel, seq, ack, miss or None)
    assert (found.type, found.body, found.size) == (type, body, len(data))
    assert found.end is (end or (js == {"end": True} and not body))
    assert (found.js and json.loads(found.js)) == js
    size = channel_packets.content_size(channel, fields, body, reliable=True)
    short = channel_packets.encode_content(
        channel, seq, channel_packets.ack_fields(ack, []), fields, body
    )
    assert len(short) <= size <= len(short) + 9 + channel_packets.ACK_BYTES
    assert packets.decode(data).body == body


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_a_number_that_json_has_not_is_refused_and_is_no_null(number: float, own: bool) -> None:
    for js in ({"a": number}, {"a": [{"b": None, "c": (1.5, number)}]}):
        with pytest.raises(ValueError, match="a number that JSON cannot have"):
            content_fields(type="_a", own=own, js=js, end=False)
    assert b'"a":null' in content_fields(type="_a", own=own, js={"a": None, "b": 1.5}, end=False)
