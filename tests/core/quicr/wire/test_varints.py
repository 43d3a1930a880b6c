"""Varints of QUIC."""

from __future__ import annotations

import pytest
from aioquic.buffer import Buffer
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.primitives.varint import NeedMore
from aqueduct_core.quicr.wire import varints

EXAMPLES = [
    ("c2197c5eff14e88c", 151_288_809_941_952_652),
    ("9d7f3e7d", 494_878_333),
    ("7bbd", 15_293),
    ("25", 37),
]
"""Of RFC 9000, appendix A.1."""
EDGES = [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, (1 << 62) - 1]


@pytest.mark.parametrize(("text", "value"), EXAMPLES)
def test_the_examples_of_the_rfc(text: str, value: int) -> None:
    data = bytes.fromhex(text)
    assert varints.encode(value) == data
    assert varints.decode(data, 0, len(data)) == (value, len(data))


def test_a_longer_form_is_the_same_value() -> None:
    for text in ("25", "4025", "80000025", "c000000000000025"):
        data = bytes.fromhex(text)
        assert varints.decode(data, 0, len(data)) == (37, len(data))


@given(st.integers(0, (1 << 62) - 1) | st.sampled_from(EDGES), st.binary(max_size=3))
def test_the_shortest_form_comes_back(value: int, around: bytes) -> None:
    encoded = varints.encode(value)
    reference = Buffer(capacity=8)
    reference.push_uint_var(value)
    assert encoded == reference.data
    data = around + encoded + around
    stop = len(around) + len(encoded)
    assert varints.decode(data, len(around), len(data)) == (value, stop)
    for end in range(len(around), stop):
        with pytest.raises(NeedMore) as cut:
            varints.decode(data, len(around), end)
        assert end < cut.value.upto <= stop


@pytest.mark.parametrize("value", [-1, 1 << 62])
def test_what_has_no_form_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match=f"not {value}"):
        varints.encode(value)
