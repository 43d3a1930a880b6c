"""Fragments in datagrams: the bytes of the prototype, and every fault."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.quicr.faults import ProtocolFault
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import MAX_ID
from aqueduct_core.quicr.wire import datagrams
from aqueduct_core.quicr.wire.datagrams import HEADER_OVERHEAD, LONGEST_DELAY
from tests.core.quicr.wire.vectors import DATAGRAMS, DatagramVector
from tests.support.rules import rule

NUMBERS = st.integers(0, MAX_ID)


@st.composite
def fragments(draw: st.DrawFn) -> Fragment:
    object, offset = draw(st.integers(0, 2) | NUMBERS), draw(st.integers(0, 2) | st.just(90_000))
    group = draw(NUMBERS)
    previous = None
    if not object and not offset:
        previous = draw(st.none() | NUMBERS) if group else 0
    data, last = draw(st.binary(max_size=40)), draw(st.booleans())
    flags, delay = draw(st.integers(0, 255)), draw(NUMBERS)
    return Fragment(group, object, offset, data, last, flags, delay, previous)


def decode(data: bytes) -> tuple[int, Fragment]:
    return datagrams.decode(data)


named = pytest.mark.parametrize("vector", DATAGRAMS, ids=lambda each: each.name)


@named
def test_a_datagram_is_what_the_prototype_means(vector: DatagramVector) -> None:
    assert decode(vector.data) == (vector.datagram_id, vector.fragment)
    assert datagrams.encode_header(vector.datagram_id, vector.fragment) == vector.header


@rule("Q-4")
@named
def test_a_datagram_that_ends_in_its_header_is_told(vector: DatagramVector) -> None:
    for stop in range(len(vector.header)):
        with pytest.raises(ProtocolFault, match=f"a datagram of {stop} bytes ends inside its"):
            decode(vector.data[:stop])


@given(NUMBERS, fragments())
def test_what_is_written_is_read(datagram_id: int, fragment: Fragment) -> None:
    header = datagrams.encode_header(datagram_id, fragment)
    assert len(header) <= HEADER_OVERHEAD
    assert decode(header + fragment.data) == (datagram_id, fragment)


def test_the_first_group_has_none_before_it() -> None:
    """Also where who sends it does not know that: a reader would wait for them."""
    fragment = Fragment(0, 0, 0, b"abc", True)
    assert datagrams.encode_header(0, fragment) == bytes.fromhex("00000001000000")


@rule("K-4")
@pytest.mark.parametrize("count", ["ffffffffffffffff", "c000000040000000"])
def test_more_objects_than_a_group_can_have_are_unknown(count: str) -> None:
    """The prototype sends 2^62-1 where it does not know."""
    _, fragment = decode(bytes.fromhex("0001000100" + "82" + count) + b"abc")
    assert fragment == Fragment(1, 0, 0, b"abc", True, 0x82)


def test_what_has_waited_for_days_is_said_to_have_waited_long() -> None:
    fragment = Fragment(0, 1, 0, b"abc", True, 0, LONGEST_DELAY + 1)
    capped = fragment._replace(queue_delay=LONGEST_DELAY)
    assert decode(datagrams.encode_header(0, fragment) + b"abc") == (0, capped)
    assert decode(bytes.fromhex("00000101ffffffffffffffff00") + b"abc") == (0, capped)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("c000000040000000 00 01 01 00 00", "datagram_stream_id 1073741824: 1073741823 is the"),
        ("00 c000000040000000 01 01 00 00", r"a datagram of \(1073741824, 1\): groups and"),
        ("00 00 c000000040000000 01 00 00", r"a datagram of \(0, 1073741824\)"),
    ],
)
def test_what_is_not_allowed_is_told_by_name(data: str, text: str) -> None:
    with pytest.raises(ProtocolFault, match=text):
        decode(bytes.fromhex(data))
