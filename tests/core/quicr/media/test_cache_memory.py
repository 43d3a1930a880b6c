"""The memory of all caches: what it counts is what they take, and the oldest goes first."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from aqueduct_core.quicr.media.cache import MediaCache
from aqueduct_core.quicr.media.cache_memory import CacheMemory
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position
from tests.support.rules import rule


def whole(group: int, number: int, size: int = 100) -> Fragment:
    return Fragment(group, number, 0, bytes(size), True, 0, 0, None if number else 0)


def kept(cache: MediaCache, objects: int = 100) -> list[int]:
    return [n for n in range(objects) if cache.object_at(Position(0, n)) is not None]


@rule("Q-29")
def test_objects_stay_two_minutes() -> None:
    memory = CacheMemory()
    one, other = MediaCache(memory), MediaCache(memory)
    one.add(whole(0, 0), 10.0)
    other.add(whole(0, 0), 20.0)
    assert memory.wake_at == 130.0
    memory.expire(129.9)
    assert kept(one) == [0]
    memory.expire(130.0)
    assert (kept(one), kept(other)) == ([], [0])
    assert memory.wake_at == 140.0
    memory.expire(200.0)
    assert (memory.size, memory.expired, memory.wake_at) == (0, 2, None)


def test_an_object_stays_as_long_as_something_of_it_comes() -> None:
    memory = CacheMemory()
    cache = MediaCache(memory)
    for at in range(3):
        cache.add(Fragment(0, 0, at * 10, bytes(10), at == 2), at * 60.0)
    memory.expire(179.0)
    assert kept(cache) == [0]
    memory.expire(240.0)
    assert kept(cache) == []


def test_the_oldest_go_first_of_all_caches_where_there_is_no_memory() -> None:
    memory = CacheMemory(most=50_000)
    one, other = MediaCache(memory), MediaCache(memory)
    for number in range(10):
        one.add(whole(0, number, 1_000), float(number))
    for number in range(15):
        other.add(whole(0, number, 1_000), 10.0 + number)
    assert memory.size <= 50_000
    assert kept(one) == [5, 6, 7, 8, 9]
    assert kept(other) == list(range(15))
    assert memory.evicted == 5


def test_what_is_released_is_not_counted_any_more() -> None:
    memory = CacheMemory()
    one, other = MediaCache(memory), MediaCache(memory)
    for cache in (one, other):
        cache.add(whole(0, 0, 5_000), 0.0)
    one.discard()
    size = memory.size
    other.discard()
    assert size > 5_000
    assert memory.size == 0


@pytest.mark.parametrize("hostile", ["whole", "incomplete", "groups"])
def test_any_number_of_objects_stays_below_the_bound(hostile: str) -> None:
    """Some fragments of each; what is counted is at least what it takes."""
    memory = CacheMemory(most=4 << 20)
    cache = MediaCache(memory)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(20_000):
            data = bytes(50)
            if hostile == "groups":
                cache.add(Fragment(number, 0, 0, data, True, 0, 0, min(number, 1)), 0.0)
            else:
                cache.add(Fragment(0, 2 * number, 0, data, hostile == "whole"), 0.0)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert memory.size <= 4 << 20
    assert taken < 5 << 20
    if hostile == "incomplete":
        assert cache.given_up > 16_000
