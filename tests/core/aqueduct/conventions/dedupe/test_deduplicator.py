"""What was seen once is not new again: across attempts, batches, restarts, within its bounds."""

from __future__ import annotations

import json

import pytest

from aqueduct_core.aqueduct.conventions.dedupe import ChannelKey, Deduplicator
from aqueduct_core.aqueduct.conventions.dedupe.numbering import batch_floor, first_number


def key(batch: int = 0, row: int = 0, *, partition: int = 0, channel: str = "c") -> ChannelKey:
    return ChannelKey(f"writer/{partition}", channel, first_number(batch) + row, batch_floor(batch))


def test_each_row_is_new_once_whatever_the_attempts() -> None:
    deduplicator = Deduplicator()
    assert deduplicator.fresh(key(), 0, 5) == [(0, 5)]
    assert deduplicator.fresh(key(), 0, 8) == [(5, 8)]
    # A channel that was closed and opened again begins at another row.
    assert deduplicator.fresh(key(row=6), 0, 4) == [(2, 4)]
    assert deduplicator.is_new(key(row=10), 0)
    assert not deduplicator.is_new(key(row=10), 0)


def test_tracks_are_apart() -> None:
    deduplicator = Deduplicator()
    for other in (key(), key(partition=1), key(channel="d")):
        assert deduplicator.is_new(other, 0)
    assert deduplicator.is_new(None, 0)
    assert deduplicator.is_new(None, 0)
    assert deduplicator.tracks == 3


def test_batch_after_batch_is_one_range() -> None:
    deduplicator = Deduplicator()
    for batch in range(1_000):
        assert deduplicator.fresh(key(batch), 0, 10) == [(0, 10)]
        assert deduplicator.fresh(key(batch), 0, 10) == []
    [(_, _, edges)] = deduplicator.snapshot()
    assert edges == [0, first_number(999) + 10]
    assert deduplicator.forgotten == 0


def test_an_attempt_of_an_earlier_batch_is_late() -> None:
    deduplicator = Deduplicator()
    deduplicator.fresh(key(7), 0, 1)
    # Batch 7 began, so batch 6 is done: what a forgotten attempt of it still sends is a repeat,
    # even a row that this receiver has not seen (another attempt delivered it elsewhere).
    assert deduplicator.fresh(key(6), 0, 3) == []


def test_bounds_forget_the_oldest() -> None:
    deduplicator = Deduplicator(max_tracks=2, max_ranges=2)
    for number in (0, 2, 4):
        deduplicator.fresh(ChannelKey("p", "a", 0), number, number + 1)
    assert deduplicator.forgotten == 1
    assert deduplicator.is_new(ChannelKey("p", "a", 0), 0)
    for channel in "bc":
        deduplicator.is_new(ChannelKey("p", channel, 0), 0)
    assert deduplicator.tracks == 2
    assert deduplicator.is_new(ChannelKey("p", "a", 0), 4)
    with pytest.raises(ValueError, match="0 tracks"):
        Deduplicator(max_tracks=0)


def test_a_snapshot_goes_through_json() -> None:
    deduplicator = Deduplicator()
    deduplicator.fresh(key(3), 0, 4)
    deduplicator.fresh(key(3), 6, 7)
    again = Deduplicator.of(json.loads(json.dumps(deduplicator.snapshot())))
    assert again.fresh(key(3), 0, 8) == [(4, 6), (7, 8)]
