"""The level of a connection: a table of its steps, and both readings of flags."""

from __future__ import annotations

import pytest

from aqueduct_core.quicr.media.drop_level import DropLevel, FlagReading, priority_of
from tests.support.rules import rule

FLAGS = [
    # flags, priority by the lowest bit, priority by the highest bit
    (0x00, None, None),
    (0x01, 0, None),
    (0x02, None, None),
    (0x7F, 0x3F, None),
    (0x80, None, 0x80),
    (0x81, 0x40, 0x81),
    (0x83, 0x41, 0x83),
    (0xFD, 0x7E, 0xFD),
    (0xFF, None, None),
]


@pytest.mark.parametrize(("flags", "low", "high"), FLAGS)
@rule("Q-34", "Q-35", "Q-37")
def test_both_readings_of_flags(flags: int, low: int | None, high: int | None) -> None:
    assert priority_of(flags, "low") == low
    assert priority_of(flags, "high") == high


@rule("Q-37")
def test_flags_that_mean_the_same_to_both_are_in_the_same_order() -> None:
    both = [flags for flags in range(0xFF) if not flags or (flags & 1 and flags >= 0x80)]
    for reading in ("low", "high"):
        priorities = [priority_of(flags, reading) for flags in both]
        assert priorities[0] is None
        rest = [priority for priority in priorities[1:] if priority is not None]
        assert rest == sorted({*rest})
        assert len(rest) == len(both) - 1


def level(reading: FlagReading = "low", *seen: int) -> DropLevel:
    made = DropLevel(reading, threshold=0.1, interval=0.05)
    assert [made.drops(flags) for flags in seen] == [False] * len(seen)
    return made


STEPS = [
    # delay of the oldest fragment (None: nothing waits), then the level
    (0.05, None),
    (0.2, 0x42),
    (0.3, 0x41),
    (0.05, 0x41),
    (0.2, 0x40),
    (0.5, 0x40),
    (0.1, 0x40),
    (None, 0x41),
    (None, 0x42),
    (0.2, 0x41),
    (None, 0x42),
    (None, None),
    (None, None),
]


@rule("Q-34")
def test_the_level_moves_by_one_priority_an_interval() -> None:
    made = level("low", 0x81, 0x85, 0x83, 0x00)
    for step, (delay, expected) in enumerate(STEPS, 1):
        made.adjust(delay, step * 0.05)
        assert made.level == expected, step


@rule("Q-34")
def test_between_two_intervals_it_stays() -> None:
    made = level("low", 0x81, 0x83)
    assert made.adjust(1.0, 10.0)
    assert not made.adjust(1.0, 10.04)
    assert made.level == 0x41
    assert made.due(waits=False) == pytest.approx(10.05)
    made.adjust(None, 10.05)
    assert made.due(waits=False) is None
    assert made.due(waits=True) == pytest.approx(10.1)


@rule("Q-34")
def test_what_lies_at_the_level_or_above_is_dropped() -> None:
    made = level("low", 0x81, 0x83, 0x85)
    made.adjust(1.0, 1.0)
    made.adjust(1.0, 2.0)
    assert [flags for flags in (0x00, 0x80, 0x81, 0x83, 0x85, 0xFF) if made.drops(flags)] == [
        0x83,
        0x85,
    ]


@rule("Q-34")
def test_where_nothing_may_be_dropped_there_is_no_level() -> None:
    made = level("high", 0x00, 0x7F)
    assert made.adjust(9.0, 1.0)  # a publisher can send less all the same
    assert made.level is None


def test_it_says_when_a_publisher_should_hear_of_it() -> None:
    made = level("low", 0x81)
    told = [made.adjust(delay, step) for step, delay in enumerate((0.01, 0.5, 0.5, 0.05, 0.05), 1)]
    assert told == [False, True, True, True, False]
