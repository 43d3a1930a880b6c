"""Bounded reading of regions, varbytes, varranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.primitives.cursor import (
    Cursor,
    encode_varbytes,
    encode_varranges,
    varranges,
)
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.primitives.varint import Malformed
from tests.support.rules import rule


@rule("AQ-BYTES-1")
@pytest.mark.parametrize(
    ("text", "value"),
    [pytest.param("00", b"", id="T19"), pytest.param("026869", b"hi", id="T20")],
)
def test_varbytes(text: str, value: bytes) -> None:
    cursor = Cursor(bytes.fromhex(text))
    assert cursor.varbytes() == value
    assert cursor.exhausted
    assert encode_varbytes(value).hex() == text


@rule("AQ-BYTES-1")
def test_varbytes_past_the_region() -> None:
    """T21, inside a region that is all there."""
    with pytest.raises(Malformed):
        Cursor(bytes.fromhex("0568")).varbytes()


@rule("AQ-VARINT-4")
def test_a_varint_past_the_region() -> None:
    with pytest.raises(Malformed):
        Cursor(bytes.fromhex("8001"), 0, 1).varint()


@rule("AQ-BYTES-1")
def test_varbytes_past_a_region_with_more_behind_it() -> None:
    with pytest.raises(Malformed):
        Cursor(bytes.fromhex("0002ffff"), 1, 3).varbytes()
    with pytest.raises(Malformed):
        Cursor(bytes.fromhex("0202ffffff")).region().varbytes()


def test_a_region_inside_a_region() -> None:
    outer = Cursor(bytes.fromhex("03026869" + "7f"))
    inner = outer.region()
    assert inner.varbytes() == b"hi"
    assert inner.exhausted
    assert outer.varint() == 0x7F


@rule("AQ-RANGES-1")
def test_varranges() -> None:
    assert varranges(Cursor(bytes.fromhex("03000502"))) == [(5, 7)]
    assert varranges(Cursor(bytes.fromhex("00"))) == []
    assert varranges(Cursor(bytes.fromhex("03020300"))) == [(0, 2)]
    with pytest.raises(Malformed):
        varranges(Cursor(bytes.fromhex("03020001")))


@rule("AQ-RANGES-1")
@given(st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(1, 1 << 20)), max_size=20))
def test_varranges_there_and_back(pieces: list[tuple[int, int]]) -> None:
    ranges = list(RangeSet((first, first + length) for first, length in pieces))
    assert varranges(Cursor(encode_varranges(ranges))) == ranges
