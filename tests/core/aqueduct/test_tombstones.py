"""Tombstones: ranges with holes, evicted from below."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.tombstones import ChannelSet, Tombstones
from aqueduct_core.aqueduct.wire.chanid import Side, make
from aqueduct_core.primitives.ranges import RangeSet
from tests.support.rules import rule


def channel(index: int, sender: Side = Side.CLIENT, oneshot: bool = False) -> int:
    return make(Side.CLIENT, sender, oneshot, index)


@rule("AQ-LIFE-17")
def test_holes_stay_open() -> None:
    tombstones = Tombstones(100, 1.0)
    tombstones.add(channel(1), 0)
    tombstones.add(channel(3), 0)
    assert channel(1) in tombstones
    assert channel(2) not in tombstones
    assert channel(3) in tombstones
    assert channel(1, Side.SERVER) not in tombstones
    assert channel(1, oneshot=True) not in tombstones


@rule("AQ-LIFE-17")
@pytest.mark.parametrize("now", [1.0, 2.0])
def test_the_lowest_old_ranges_go_first(now: float) -> None:
    tombstones = Tombstones(3, 1.0)
    for i in range(4):
        tombstones.add(channel(2 * i + 1), 0.0)
    assert all(channel(2 * i + 1) in tombstones for i in range(4))  # all are young
    tombstones.add(channel(11), now)
    assert [channel(2 * i + 1) in tombstones for i in range(4)] == [False, False, True, True]
    assert channel(11) in tombstones
    tombstones.add(channel(13), now + 0.5)
    assert [channel(2 * i + 1) in tombstones for i in range(4)] == [False, False, False, True]


@rule("AQ-LIFE-23")
def test_the_entrypoint_is_never_evicted() -> None:
    tombstones = Tombstones(1, 1.0)
    tombstones.add(0, 0.0)
    for i in range(2, 20, 2):
        tombstones.add(channel(i), float(i))
    assert 0 in tombstones


def test_a_long_life_is_one_range() -> None:
    channels = ChannelSet()
    for index in range(10_000):
        ranges = channels.add(channel(index))
    assert len(ranges) == 1


@rule("AQ-LIFE-17")
@pytest.mark.parametrize("age", [0.0, 1e9])
def test_what_goes_goes_in_batches(age: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk over all ranges is for an eighth of them, and there is none where all are young."""
    walks = 0
    evict = Tombstones._evict

    def counted(tombstones: Tombstones, ranges: RangeSet, kind: int) -> None:
        nonlocal walks
        walks += 1
        evict(tombstones, ranges, kind)
        assert age or len(tombstones._channels._kind(kind)) == 700

    monkeypatch.setattr(Tombstones, "_evict", counted)
    tombstones = Tombstones(800, age)
    for i in range(8_000):
        tombstones.add(channel(2 * i + 1), float(i))
    assert walks <= (8_000 - 800) // 100 + 1 if not age else walks == 1
    left = [channel(2 * i + 1) in tombstones for i in range(8_000)]
    assert all(left) if age else 700 <= sum(left) <= 800
    assert left == sorted(left)  # the lowest have gone
