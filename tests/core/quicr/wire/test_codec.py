"""Messages of control streams: the bytes of the prototype, any cut of them, and every fault."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.quicr.faults import ProtocolFault
from aqueduct_core.quicr.media.fragment import MAX_OBJECT, Fragment
from aqueduct_core.quicr.media.position import MAX_ID, Position
from aqueduct_core.quicr.wire import codec
from aqueduct_core.quicr.wire.codec import LONGEST_DATA, MessageReader
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
from tests.core.quicr.wire.vectors import MESSAGES, OTHER_FORMS, MessageVector
from tests.support.rules import rule

FIN = bytes.fromhex("0003030202")
NUMBERS = st.integers(0, MAX_ID)
POSITIONS = st.builds(Position, NUMBERS, NUMBERS)
URLS = st.binary(max_size=60)
FRAGMENTS = st.builds(
    Fragment,
    NUMBERS,
    NUMBERS,
    st.integers(0, 1000),
    st.binary(min_size=1, max_size=300),
    st.booleans(),
    st.integers(0, 255),
    st.just(0),
    st.none(),
)
CONTROL_MESSAGES = (
    st.builds(RequestMessage, URLS, st.none() | NUMBERS)
    | st.builds(FinMessage, POSITIONS | st.builds(Position, NUMBERS, st.just(MAX_ID + 1)))
    | FRAGMENTS
    | st.builds(PostMessage, URLS, st.booleans())
    | st.builds(AcceptMessage, st.none() | NUMBERS)
    | st.builds(StartPointMessage, POSITIONS)
    | st.builds(SubscribeMessage, URLS)
    | st.builds(NotifyMessage, URLS)
)


def reader() -> MessageReader:
    return MessageReader(max_url=64)


def read(*pieces: bytes) -> list[ControlMessage]:
    """What came of all pieces; after each of them everything that is whole is read."""
    messages = reader()
    found: list[ControlMessage] = []
    for piece in pieces:
        messages.feed(piece)
        found += messages.read()
    assert messages.pending == 0
    return found


def framed(body: str) -> bytes:
    data = bytes.fromhex(body)
    return len(data).to_bytes(2) + data


named = pytest.mark.parametrize("vector", [*MESSAGES, *OTHER_FORMS], ids=lambda each: each.name)


@rule("Q-3")
@named
def test_a_message_is_read_however_it_is_cut(vector: MessageVector) -> None:
    """Whole, byte by byte, in two pieces of every size, and with more behind it."""
    data, fin = vector.data, FinMessage(Position(2, 2))
    assert read(data) == [vector.message]
    assert read(*(data[i : i + 1] for i in range(len(data)))) == [vector.message]
    for cut in range(1, len(data)):
        assert read(data[:cut], data[cut:] + FIN) == [vector.message, fin]
    messages = reader()
    for tail in range(1, len(FIN)):
        messages.feed(data + FIN[:tail])
        assert messages.read() == [vector.message]
        assert messages.pending == tail
        messages.feed(FIN[tail:])
        assert messages.read() == [fin]


@pytest.mark.parametrize("vector", MESSAGES, ids=lambda each: each.name)
def test_a_message_is_written_as_the_prototype_writes_it(vector: MessageVector) -> None:
    assert codec.encode(vector.message) == vector.data


@rule("Q-3")
@given(st.lists(CONTROL_MESSAGES, max_size=12), st.data())
def test_what_is_written_is_read(messages: list[ControlMessage], data: st.DataObject) -> None:
    """In any pieces."""
    wire = b"".join(map(codec.encode, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=8)))
    edges = [0, *cuts, len(wire)]
    assert read(*(wire[a:b] for a, b in pairwise(edges))) == messages


def test_the_largest_fragment_fits_whatever_its_fields_are() -> None:
    stop = MAX_OBJECT - LONGEST_DATA
    fragment = Fragment(MAX_ID, MAX_ID, stop, bytes(LONGEST_DATA), True, 0x81)
    data = codec.encode_fragment(fragment)
    assert len(data) == 2 + 0xFFFF
    assert read(data) == [fragment]
    with pytest.raises(ValueError, match=f"{LONGEST_DATA + 1} bytes of data"):
        codec.encode(fragment._replace(data=bytes(LONGEST_DATA + 1)))


@rule("Q-36", "Q-38")
def test_a_hole_is_one_whatever_its_flags_are() -> None:
    for vector in OTHER_FORMS:
        if vector.name == "hole-of-other-flags":
            (fragment,) = read(vector.data)
            assert isinstance(fragment, Fragment)
            assert fragment.is_hole


def test_bytes_of_a_large_message_are_joined_once() -> None:
    """And what was read is let go: what waits is what is kept."""
    fragment = Fragment(0, 0, 0, bytes(LONGEST_DATA), True)
    data = codec.encode_fragment(fragment)
    messages = reader()
    messages.feed(FIN * 1000 + data[:1])
    assert len(messages.read()) == 1000
    joined = []
    for i in range(1, len(data) - 1, 100):
        messages.feed(data[i : min(i + 100, len(data) - 1)])
        joined.append(len(messages._queue.data))
        assert messages.read() == []
    assert set(joined) <= {1, 101}  # its length came with the second piece
    assert messages.pending == len(data) - 1
    messages.feed(data[-1:])
    assert messages.read() == [fragment]
    assert sys.getsizeof(messages._queue.data) < 100


FAULTS = {
    "no bytes": ("0000", "a message of no bytes"),
    "type 0": (framed("00"), "a message of type 0: types are 1, 2, 3, 5, 6, 7, 8, 9, 10"),
    "type 4": (framed("0400000000"), r"a message of type 4 \(REQUEST_REPAIR\): types are"),
    "type 11": (framed("0b0000"), "a message of type 11: types are"),
    "type of 8 bytes": (framed("ffffffffffffffff"), "a message of type 4611686018427387903"),
    "type cut": (framed("40"), "a message ends inside its type: its length is wrong"),
    "request without URL": (framed("01"), "REQUEST_STREAM ends inside its length of URL"),
    "URL cut": (framed("01037078"), "REQUEST_STREAM says 3 bytes of URL, and has 2"),
    "URL too long": (
        framed("094041" + "78" * 65),
        "SUBSCRIBE has a URL of 65 bytes: 64 are allowed",
    ),
    "URL of 2^62": (
        framed("09ffffffffffffffff"),
        "SUBSCRIBE has a URL of 4611686018427387903 bytes: 64 are allowed",
    ),
    "request with more": (framed("01017800"), "REQUEST_STREAM has 1 bytes behind its last field"),
    "request without id": (framed("020178"), "REQUEST_DATAGRAM ends inside its datagram_stream_id"),
    "request with high id": (
        framed("020178c000000040000000"),
        "REQUEST_DATAGRAM has datagram_stream_id 1073741824: 1073741823 is the highest",
    ),
    "fin cut": (framed("0302"), "FIN ends inside its object"),
    "fin with more": (framed("030202ffff"), "FIN has 2 bytes behind its last field"),
    "fin of high group": (framed("03c00000004000000002"), "FIN has group 1073741824"),
    "fin of high object": (framed("0302ffffffffffffffff"), "FIN has object 4611686018427387903"),
    "post 4": (framed("06017804"), "POST has datagram_capable 4: 3 is the highest"),
    "post cut": (framed("060178"), "POST ends inside its datagram_capable"),
    "accept 2": (framed("070211"), "ACCEPT has use_datagram 2: 1 is the highest"),
    "accept cut": (framed("07"), "ACCEPT ends inside its use_datagram"),
    "accept without id": (framed("0701"), "ACCEPT ends inside its datagram_stream_id"),
    "accept with id and no datagrams": (framed("070011"), "ACCEPT has 1 bytes behind its last"),
    "accept with high id": (framed("0701c000000040000000"), "ACCEPT has datagram_stream_id 1073"),
    "start point cut": (framed("0800"), "START_POINT ends inside its object"),
    "start point with more": (framed("0800070000"), "START_POINT has 2 bytes behind its last"),
    "start point of high object": (framed("0800c000000040000000"), "START_POINT has object 1073"),
    "notify cut": (framed("0a0576"), "NOTIFY says 5 bytes of URL, and has 1"),
    "fragment of a type": (framed("05"), "FRAGMENT ends inside its fields: its length is wrong"),
    "fragment without flags": (framed("05000101"), "FRAGMENT ends inside its fields"),
    "fragment without length": (framed("05000101ff"), "FRAGMENT ends inside its fields"),
    "fragment without data": (
        framed("050001010002ff"),
        "FRAGMENT says 2 bytes of data, and has 1: a length is wrong",
    ),
    "fragment with more": (framed("050001010000ff"), "FRAGMENT says 0 bytes of data, and has 1"),
    "fragment of high group": (
        framed("05c000000040000000010100017a"),
        r"FRAGMENT of \(1073741824, 1\): groups and objects go to 1073741823",
    ),
    "fragment of high object": (
        framed("0501ffffffffffffffff0100017a"),
        r"FRAGMENT of \(1, 4611686018427387903\)",
    ),
}


@rule("Q-4")
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_not_allowed_is_told_by_name(name: str) -> None:
    """Whatever is behind it, which must not be taken for a part of it, and however it comes."""
    data, text = FAULTS[name]
    data = bytes.fromhex(data) if isinstance(data, str) else data
    for behind in (b"", FIN * 4):
        with pytest.raises(ProtocolFault, match=text):
            read(data + behind)
    messages = reader()
    for byte in data[:-1]:
        messages.feed(bytes((byte,)))
        assert messages.read() == []
    messages.feed(data[-1:])
    with pytest.raises(ProtocolFault, match=text):
        messages.read()
