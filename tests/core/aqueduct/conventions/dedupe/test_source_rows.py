"""Rows known by their place in a source: what headers say of channels and messages."""

from __future__ import annotations

import numpy as np
import pytest

from aqueduct_core.aqueduct.conventions.dedupe import ChannelKey, channel_key, message_number
from aqueduct_core.aqueduct.conventions.dedupe.source_rows import RowNumbers, source_of
from aqueduct_core.aqueduct.conventions.headers import BadHeader
from aqueduct_core.engine.message_batch import Headers, MessageBatch
from aqueduct_core.primitives.ranges import stretches


def batch(first: int, *offsets: int | None, more: Headers = ()) -> MessageBatch:
    """A message for each offset; None: it says nothing."""
    headers = {
        i: ((b"source-offset", b"%d" % offset), *more)
        for i, offset in enumerate(offsets)
        if offset is not None
    }
    count = len(offsets)
    return MessageBatch(8, True, first, count, b"", np.zeros(count + 1, np.int64), count, headers)


def test_a_message_that_says_nothing_is_the_next_row() -> None:
    rows = RowNumbers()
    kept, numbers = rows.take(batch(0, 40, None, None, 7, None, 2**62 - 1))
    assert numbers.tolist() == [40, 41, 42, 7, 8, 2**62 - 1]
    assert kept.headers == {}
    assert rows.take(batch(6, 90, None))[1].tolist() == [90, 91]
    assert rows.take(batch(8, None, None, 3))[1].tolist() == [92, 93, 3]
    assert rows.take(batch(11, None))[1].tolist() == [4]


def test_other_headers_stay() -> None:
    kept, _ = RowNumbers().take(batch(0, 40, None, 41, more=((b"k", b"v"),)))
    assert kept.headers == {0: ((b"k", b"v"),), 2: ((b"k", b"v"),)}


def test_a_header_of_the_row_with_this_key_is_no_offset() -> None:
    own = (b"source-offset", b"7")
    kept, numbers = RowNumbers().take(batch(0, 40, None, 41, more=(own,)))
    assert numbers.tolist() == [40, 41, 41]
    assert kept.headers == {0: (own,), 2: (own,)}
    channel = ((b"source", b"spool/3"),)
    assert message_number(channel, 5, ((b"source-offset", b"77"), own)) == 77


@pytest.mark.parametrize("value", [b"", b"-1", b"x", b"%d" % 2**62])
def test_offsets_that_are_none(value: bytes) -> None:
    broken = batch(0, 1)
    broken.headers[0] = ((b"source-offset", value),)  # type: ignore[index]
    with pytest.raises(BadHeader, match="source-offset"):
        RowNumbers().take(broken)


def test_the_first_message_says_its_offset() -> None:
    with pytest.raises(BadHeader, match="source-offset"):
        RowNumbers().take(batch(0, None, 5))


def test_stretches_rise_by_one() -> None:
    assert list(stretches(np.array([5, 6, 7, 9, 9, 3]))) == [(0, 3), (3, 4), (4, 5), (5, 6)]
    assert list(stretches(np.array([5]))) == [(0, 1)]


def test_the_key_of_a_channel_is_its_source() -> None:
    connection = ((b"producer", b"w"),)
    channel = ((b"name", b"c"), (b"source", b"spool/3"))
    assert channel_key(connection, channel) == ChannelKey("w/spool/3", "c", 0)
    assert message_number(channel, 5, ((b"source-offset", b"77"),)) == 77
    assert message_number(channel[:1], 5, ()) == 5
    with pytest.raises(BadHeader, match="source-offset"):
        message_number(channel, 5, ())
    for bad in (b"", b"a" * 161, b"a\0", "ä".encode()):
        with pytest.raises(BadHeader, match="source"):
            source_of(((b"source", bad),))
