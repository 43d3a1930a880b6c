"""The collector of a process that others fill."""

from __future__ import annotations

import gc
import weakref

import pytest

from aqueduct_core.primitives.garbage_collection import freeze_once, rare_collections


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


def test_what_is_there_at_the_first_call_is_frozen_and_later_calls_do_nothing() -> None:
    freeze_once.cache_clear()
    try:
        freeze_once()
        frozen = gc.get_freeze_count()
        assert frozen > 0
        held = [[number] for number in range(1_000)]
        freeze_once()
        assert gc.get_freeze_count() <= frozen
        assert len(held) == 1_000
    finally:
        gc.unfreeze()
        freeze_once.cache_clear()


def test_cycles_of_before_are_freed() -> None:
    class Node:
        other: Node | None = None

    one, other = Node(), Node()
    one.other, other.other = other, one
    gone = weakref.ref(one)
    del one, other
    freeze_once.cache_clear()
    try:
        freeze_once()
        assert gone() is None
    finally:
        gc.unfreeze()
        freeze_once.cache_clear()
