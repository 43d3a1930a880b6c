"""Identity out of headers: that of the sink and of other producers, and forms that are refused."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.conventions.dedupe import ChannelKey, channel_key
from aqueduct_core.aqueduct.conventions.dedupe.identity import floor_of, sent_by
from aqueduct_core.aqueduct.conventions.dedupe.numbering import (
    MAX_BATCH,
    batch_floor,
    first_number,
    in_batch,
)
from aqueduct_core.aqueduct.conventions.headers import BadHeader

CONNECTION = ((b"producer", b"w"),)


def test_a_row_of_a_sink() -> None:
    start = first_number(3) + 17
    headers = (
        (b"name", b"c"),
        (b"sequence-start", b"%d" % start),
        (b"batch", b"3"),
        (b"partition", b"5"),
    )
    assert channel_key(CONNECTION, headers) == ChannelKey("w/5", "c", start, batch_floor(3))


def test_a_channel_of_another_producer() -> None:
    headers = ((b"name", b"c"), (b"sequence-start", b"9"))
    assert channel_key(CONNECTION, headers) == ChannelKey("w", "c", 9)


@pytest.mark.parametrize(
    ("connection", "channel"),
    [
        ((), ((b"name", b"c"), (b"sequence-start", b"9"))),
        (CONNECTION, ((b"sequence-start", b"9"),)),
        (CONNECTION, ((b"name", b"c"),)),
    ],
)
def test_no_identity(
    connection: tuple[tuple[bytes, bytes], ...], channel: tuple[tuple[bytes, bytes], ...]
) -> None:
    assert channel_key(connection, channel) is None


def test_values_that_break_their_form() -> None:
    with pytest.raises(BadHeader, match="partition"):
        sent_by("w", ((b"partition", b"-1"),))
    with pytest.raises(BadHeader, match="batch does not fit"):
        floor_of(((b"batch", b"4"),), first_number(3))
    with pytest.raises(BadHeader, match="batch"):
        floor_of(((b"batch", b"x"),), 0)


def test_numbers_of_batches_and_modes_are_apart() -> None:
    edges = [first_number(b, unordered=u) for b in (0, 1, 2, MAX_BATCH) for u in (False, True)]
    assert edges == sorted(set(edges))
    assert edges[-1] < 1 << 62
    assert all(in_batch(first_number(b, unordered=True), b) for b in (0, 1, MAX_BATCH))
    assert not in_batch(first_number(1) - 1, 1)
    with pytest.raises(ValueError, match="batch"):
        first_number(MAX_BATCH + 1)
