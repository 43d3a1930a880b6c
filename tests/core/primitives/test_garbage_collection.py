"""The collector of a process that others fill."""

from __future__ import annotations

import gc

import pytest

from aqueduct_core.primitives.garbage_collection import rare_collections


def all_looked_through() -> int:
    """How often the collector has looked through all objects."""
    return int(gc.get_stats()[2]["collections"])


def test_many_objects_that_last_bring_about_no_look_through_all() -> None:
    with rare_collections():
        before = all_looked_through()
        held = [[number] for number in range(1_000_000)]
        assert all_looked_through() == before
        assert len(held) == 1_000_000


def test_what_was_there_is_not_looked_at_until_the_end() -> None:
    frozen, threshold = gc.get_freeze_count(), gc.get_threshold()
    with rare_collections():
        assert gc.get_freeze_count() > frozen
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == threshold


def test_a_failure_ends_it_too() -> None:
    threshold = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), rare_collections():
        _ = 1 // 0
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == threshold


def test_the_young_are_looked_at_as_often_as_before() -> None:
    young, middle, _ = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold()[:2] == (young, middle)
        assert gc.isenabled()
