"""Varints: T01–T18."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.primitives import varint
from aqueduct_core.primitives.varint import Malformed, NeedMore
from tests.support.rules import rule

BOTH_WAYS = [
    ("T01", "00", 0),
    ("T02", "7f", 127),
    ("T03", "8001", 128),
    ("T04", "ac02", 300),
    ("T05", "ff7f", 16_383),
    ("T06", "808001", 16_384),
    ("T07", "ffffffff0f", (1 << 32) - 1),
    ("T08", "ffffffffffffff7f", (1 << 56) - 1),
    ("T09", "808080808080808001", 1 << 56),
    ("T10", "ffffffffffffffff7f", (1 << 63) - 1),
]
DECODE_ONLY = [
    ("T11", "80808080808080808001", 1 << 63),
    ("T12", "ffffffffffffffffff01", (1 << 64) - 1),
]
INCOMPLETE = [("T13", "ff" * 9), ("T16", "80")]
BAD = [
    ("T14", "8000"),
    ("T15", "ff00"),
    ("T17", "80808080808080808002"),
    ("T18", "8080808080808080808001"),
]


@rule("AQ-VARINT-1")
@pytest.mark.parametrize(
    ("text", "value"), [v[1:] for v in BOTH_WAYS], ids=[v[0] for v in BOTH_WAYS]
)
def test_both_ways(text: str, value: int) -> None:
    data = bytes.fromhex(text)
    assert varint.encode(value) == data
    assert varint.decode(data + b"\xff", 0, len(data)) == (value, len(data))
    assert varint.decode(b"\xff" + data, 1, len(data) + 1) == (value, len(data) + 1)
    for cut in range(len(data)):
        with pytest.raises(NeedMore) as more:
            varint.decode(data, 0, cut)
        assert more.value.upto == cut + 1


@rule("AQ-VARINT-3")
@pytest.mark.parametrize(
    ("text", "value"), [v[1:] for v in DECODE_ONLY], ids=[v[0] for v in DECODE_ONLY]
)
def test_read_and_never_written(text: str, value: int) -> None:
    data = bytes.fromhex(text)
    assert varint.decode(data, 0, len(data)) == (value, len(data))
    with pytest.raises(ValueError, match="2\\^63"):
        varint.encode(value)


@rule("AQ-VARINT-4")
@pytest.mark.parametrize("text", [v[1] for v in INCOMPLETE], ids=[v[0] for v in INCOMPLETE])
def test_incomplete(text: str) -> None:
    data = bytes.fromhex(text)
    with pytest.raises(NeedMore):
        varint.decode(data, 0, len(data))


@rule("AQ-VARINT-2")
@pytest.mark.parametrize("text", [v[1] for v in BAD], ids=[v[0] for v in BAD])
def test_bad(text: str) -> None:
    data = bytes.fromhex(text)
    with pytest.raises(Malformed):
        varint.decode(data, 0, len(data))


@rule("AQ-VARINT-3")
def test_below_zero() -> None:
    with pytest.raises(ValueError, match="2\\^63"):
        varint.encode(-1)


@rule("AQ-VARINT-1")
@given(st.integers(0, (1 << 63) - 1))
def test_there_and_back(value: int) -> None:
    data = varint.encode(value)
    assert varint.decode(data, 0, len(data)) == (value, len(data))


@given(st.binary(max_size=12))
def test_any_bytes(data: bytes) -> None:
    try:
        value, stop = varint.decode(data, 0, len(data))
    except (NeedMore, Malformed):
        return
    assert value < 1 << 64
    if value < 1 << 63:
        assert varint.encode(value) == data[:stop]
