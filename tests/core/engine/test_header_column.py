"""Header data as a column: the same pairs and the same bytes as message by message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.aqueduct.wire.codec import encode_headers, headers_size
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Headers, ReceivedHeaders
from tests.support.rules import rule

PARTS = st.one_of(st.binary(max_size=4), st.sampled_from([b"v" * 127, b"v" * 128, b"v" * 20_000]))
HEADERS = st.lists(st.tuples(PARTS, PARTS), max_size=3).map(tuple)
COLUMNS = st.lists(HEADERS, max_size=6)


@rule("AQ-HDRDATA-1")
@given(COLUMNS)
def test_it_is_its_pairs_and_their_bytes(each: list[Headers]) -> None:
    column = HeaderColumn.of(each)
    assert len(column) == len(each)
    assert list(column) == each
    assert column.regions == [encode_headers(pairs) for pairs in each]
    assert list(column.indexes()) == [i for i, pairs in enumerate(each) if pairs]
    assert bool(column) == any(each)
    assert column.longest == max(map(headers_size, each), default=0)
    assert column.longest_added == max(map(len, column.regions), default=1) - 1
    assert column.most_pairs == max(map(len, each), default=0)
    assert column.keys == {key for pairs in each for key, _ in pairs}


@given(COLUMNS, st.integers(0, 6), st.integers(0, 6))
def test_parts_and_choices(each: list[Headers], first: int, stop: int) -> None:
    column = HeaderColumn.of(each)
    for _ in range(2):  # before the bytes are made, and after
        assert column.part(first, stop) == HeaderColumn.of(each[first:stop])
        assert column.part(first, stop).regions == list(map(encode_headers, each[first:stop]))
        assert len(column.regions) == len(each)
    backwards = list(reversed(range(len(each))))
    assert list(column.take(backwards)) == each[::-1]
    assert column.part(0, len(each)) is column


@given(st.lists(st.tuples(HEADERS, HEADERS), max_size=6))
def test_one_column_behind_another(both: list[tuple[Headers, Headers]]) -> None:
    left, right = (HeaderColumn.of(pair[side] for pair in both) for side in (0, 1))
    column = left.plus(right)
    assert list(column) == [(*before, *after) for before, after in both]
    assert column.most_pairs >= max((len(pairs) for pairs in column), default=0)
    assert column.keys == left.keys | right.keys


@given(HEADERS, st.binary(max_size=3), st.lists(PARTS, max_size=5))
def test_one_key_with_a_value_for_each(before: Headers, key: bytes, values: list[bytes]) -> None:
    column = HeaderColumn.rising(before, key, values)
    assert list(column) == [(*before, (key, value)) for value in values]
    assert column.regions == [encode_headers((*before, (key, value))) for value in values]
    assert (column.most_pairs, column.received) == (len(before) + 1, False)


@pytest.mark.parametrize("kind", [tuple, ReceivedHeaders])
def test_what_came_from_a_peer_may_have_any_key(kind: type[Headers]) -> None:
    column = HeaderColumn.of([(), kind([(b"\xff", b"")])])
    assert column.received is (kind is ReceivedHeaders)
    assert isinstance(column[1], kind)


def test_equality_and_text_are_of_the_pairs() -> None:
    column = HeaderColumn.of([((b"key", b"secret"),)])
    assert column == HeaderColumn.rising((), b"key", [b"secret"])
    assert column != HeaderColumn.of([()])
    assert column != 3
    assert "key" in repr(column)
    assert "secret" not in repr(column)
