"""The cache of a media: duplicates, lateness, start and final point, and what is given up."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from aqueduct_core.quicr.media.cache import (
    HOLES_PER_OBJECT,
    MOST_HOLES,
    MediaCache,
    ObjectTooLarge,
)
from aqueduct_core.quicr.media.cache_memory import CacheMemory
from aqueduct_core.quicr.media.cache_readers import ArrivalOrderReader, MediaOrderReader
from aqueduct_core.quicr.media.fragment import Fragment, hole
from aqueduct_core.quicr.media.position import BEGIN, Position
from tests.support.rules import rule


def cache_of(*positions: tuple[int, int], previous: dict[int, int] | None = None) -> MediaCache:
    cache = MediaCache(CacheMemory())
    put(cache, *positions, previous=previous)
    return cache


def put(
    cache: MediaCache,
    *positions: tuple[int, int],
    previous: dict[int, int] | None = None,
    now: float = 0.0,
) -> None:
    for group, number in positions:
        before = None if number else (previous or {}).get(group)
        data = f"{group}/{number}".encode()
        cache.add(Fragment(group, number, 0, data, True, 0, 0, before), now)


def read(reader: MediaOrderReader | ArrivalOrderReader) -> list[str]:
    """All that it gives now: payloads as text, holes as ``(group, object)``."""
    out = []
    while (waiting := reader.peek()) is not None:
        fragment = waiting.fragment
        out.append(str(fragment.position) if fragment.is_hole else fragment.data.decode())
        reader.advance()
    return out


def both(cache: MediaCache) -> tuple[list[str], list[str]]:
    return read(MediaOrderReader(cache, 0.0)), read(ArrivalOrderReader(cache, 0.0))


def texts(positions: Iterable[tuple[int, int]]) -> list[str]:
    return [f"{group}/{number}" for group, number in positions]


@rule("Q-12", "Q-28")
def test_duplicates_are_dropped() -> None:
    cache = cache_of((0, 0))
    assert not cache.add(Fragment(0, 0, 0, b"0/0", True), 1.0)
    assert cache.add(Fragment(0, 1, 0, b"0/", False), 1.0)
    assert cache.add(Fragment(0, 1, 1, b"/1", True), 1.0)
    assert both(cache) == (["0/0", "0/", "1"], ["0/0", "0/", "1"])


def test_an_object_that_has_gone_does_not_come_back() -> None:
    memory = CacheMemory()
    cache = MediaCache(memory)
    put(cache, (0, 0), (0, 1))
    memory.expire(500.0)
    assert cache.empty
    put(cache, (0, 0), (0, 1), (0, 2), now=500.0)
    assert cache.late == 2
    assert both(cache) == (["0/2"], ["0/2"])


@rule("Q-15")
def test_a_start_point_is_where_readers_begin() -> None:
    """Also where it is told behind what it is the start of."""
    cache = cache_of((5, 3), (5, 4))
    media, arrival = MediaOrderReader(cache, 0.0), ArrivalOrderReader(cache, 0.0)
    assert (read(media), read(arrival)) == ([], ["5/3", "5/4"])
    assert (media.start, arrival.start) == (BEGIN, BEGIN)
    cache.start_at(Position(5, 3), 1.0)
    assert cache.changed
    assert (media.start, arrival.start) == ((5, 3), (5, 3))
    assert read(media) == ["5/3", "5/4"]
    assert cache.given_up == 0


def test_a_start_point_behind_what_is_here_leaves_a_gap_that_is_told() -> None:
    """An upstream that was lost comes back, and has less than we wait for."""
    cache = cache_of((0, 0), (0, 1))
    media, arrival = MediaOrderReader(cache, 0.0), ArrivalOrderReader(cache, 0.0)
    assert read(media) == read(arrival) == ["0/0", "0/1"]
    cache.start_at(Position(2, 1), 1.0)
    put(cache, (2, 1))
    expected = ["(0, 2)", "(1, 0)", "(2, 0)", "2/1"]
    assert (read(media), read(arrival)) == (expected, expected)
    assert cache.given_up == 3
    assert arrival.start == BEGIN


def test_a_gap_behind_what_has_begun_tells_that_there_may_have_been_more() -> None:
    cache = cache_of((0, 0))
    for position in ((0, 2), (1, 1)):
        cache.add(Fragment(*position, 0, b"begun", False), 0.0)
    readers = [MediaOrderReader(cache, 0.0), ArrivalOrderReader(cache, 0.0)]
    cache.start_at(Position(2, 0), 1.0)
    gap = ["(0, 1)", "(0, 2)", "(0, 3)", "(1, 0)", "(1, 1)", "(1, 2)"]
    assert read(readers[0]) == ["0/0", *gap]
    assert read(readers[1]) == ["0/0", *gap]


@rule("Q-13", "Q-36")
def test_a_hole_that_did_not_know_how_many_were_before_it_is_told_again_when_it_does() -> None:
    cache = cache_of((0, 0))
    cache.add(hole(Position(1, 0)), 0.0)
    reader = ArrivalOrderReader(cache, 0.0)
    assert read(reader) == ["0/0", "(1, 0)"]
    cache.finish(Position(1, 1), 1.0)
    cache.cut_short(1.0)
    assert cache.complete
    told = []
    while (waiting := reader.peek()) is not None:
        told.append(waiting.fragment)
        reader.advance()
    assert told == [hole(Position(0, 1)), hole(Position(1, 0), 2)]
    assert read(MediaOrderReader(cache, 0.0)) == ["0/0", "(0, 1)", "(1, 0)"]


def test_a_gap_that_is_too_wide_begins_the_cache_anew() -> None:
    cache = cache_of((0, 0))
    readers = [MediaOrderReader(cache, 0.0), ArrivalOrderReader(cache, 0.0)]
    cache.start_at(Position(0, MOST_HOLES + 10), 1.0)
    put(cache, (0, MOST_HOLES + 10))
    assert all(reader.cut_off for reader in readers)
    assert all(reader.peek() is None and reader.final is None for reader in readers)
    assert both(cache) == ([f"0/{MOST_HOLES + 10}"],) * 2


def test_what_came_behind_such_a_gap_stays() -> None:
    """Its start point may come late (Q15)."""
    cache = cache_of((0, 0), (0, MOST_HOLES + 10), (0, MOST_HOLES + 12))
    cache.start_at(Position(0, MOST_HOLES + 10), 1.0)
    put(cache, (0, MOST_HOLES + 11))
    assert both(cache) == (
        [f"0/{MOST_HOLES + more}" for more in (10, 11, 12)],
        [f"0/{MOST_HOLES + more}" for more in (10, 12, 11)],
    )


@pytest.mark.parametrize("ends", ["cut short", "too many"])
def test_a_sender_who_scatters_its_objects_does_not_get_holes_without_end(
    ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few bytes of it would keep a relay busy for minutes, and fill the paths of its readers."""
    if ends == "too many":
        monkeypatch.setattr("aqueduct_core.quicr.media.progress.RANGES", 10)
    cache = cache_of()
    apart, objects = MOST_HOLES - 1, 40
    put(cache, *((0, apart * number) for number in range(1, objects + 1)))
    if ends == "cut short":
        cache.cut_short(1.0)
    assert 0 < cache.given_up <= MOST_HOLES + HOLES_PER_OBJECT * objects
    assert read(MediaOrderReader(cache, 2.0))[-1 if ends == "too many" else -2] == (
        f"0/{apart * (objects - 10 if ends == 'too many' else objects)}"
    )


def test_a_final_point_is_complete_when_all_before_it_was_here() -> None:
    cache = cache_of((0, 0), (1, 0), previous={1: 2})
    cache.finish(Position(1, 1), 0.0)
    assert not cache.complete
    reader, arrival = MediaOrderReader(cache, 0.0), ArrivalOrderReader(cache, 0.0)
    assert (read(reader), read(arrival)) == (["0/0"], ["0/0", "1/0"])
    assert (reader.final, arrival.final) == (None, None)
    put(cache, (0, 1))
    assert cache.complete
    assert (read(reader), read(arrival)) == (["0/1", "1/0"], ["0/1"])
    assert reader.final == arrival.final == (1, 1)


def test_a_media_without_objects_has_its_final_point_at_the_beginning() -> None:
    cache = cache_of()
    cache.finish(BEGIN, 0.0)
    assert cache.complete
    for reader in (MediaOrderReader(cache, 0.0), ArrivalOrderReader(cache, 0.0)):
        assert (reader.peek(), reader.final) == (None, BEGIN)


def test_what_lies_behind_the_final_point_is_not_taken() -> None:
    cache = cache_of((0, 0))
    cache.finish(Position(0, 1), 0.0)
    put(cache, (0, 1), (1, 0))
    assert cache.late == 2
    assert both(cache) == (["0/0"], ["0/0"])


def test_of_two_final_points_the_first_counts_and_none_lies_before_what_came() -> None:
    cache = cache_of((0, 0), (0, 1))
    cache.finish(Position(0, 1), 0.0)
    cache.finish(Position(9, 9), 0.0)
    assert cache.final == (0, 2)
    assert cache.complete


@rule("Q-30")
def test_what_is_cut_short_ends_behind_the_newest_object_and_has_holes() -> None:
    """Readers in the middle of an object cannot end it, and are cut off."""
    cache = cache_of((0, 0), (0, 2))
    cache.add(Fragment(0, 3, 0, b"part of ", False), 0.0)
    arrival = ArrivalOrderReader(cache, 0.0)
    assert read(arrival) == ["0/0", "0/2", "part of "]
    cache.cut_short(1.0)
    assert cache.complete
    assert cache.final == (0, 4)
    assert read(arrival) == ["(0, 1)", "(0, 3)"]
    assert read(MediaOrderReader(cache, 0.0)) == ["0/0", "(0, 1)", "0/2", "(0, 3)"]
    assert not arrival.cut_off
    whole = cache_of((0, 0), (1, 0), (1, 1), previous={1: 1})
    whole.cut_short(1.0)
    assert whole.final == (1, 3)
    assert both(whole) == (["0/0", "1/0", "1/1", "(1, 2)"],) * 2
    late = cache_of((0, 0))
    late.add(Fragment(0, 1, 0, b"part of ", False), 0.0)
    reader = MediaOrderReader(late, 0.0)
    assert read(reader) == ["0/0", "part of "]
    late.cut_short(1.0)
    assert reader.cut_off


def test_a_hole_takes_the_place_of_what_is_incomplete_and_of_nothing_else() -> None:
    cache = cache_of((0, 0))
    cache.add(Fragment(0, 1, 0, b"begun", False), 0.0)
    assert cache.add(hole(Position(0, 1)), 1.0)
    assert not cache.add(hole(Position(0, 0)), 1.0)
    assert not cache.add(Fragment(0, 1, 0, b"begun and ended", True), 2.0)
    assert both(cache) == (["0/0", "(0, 1)"], ["0/0", "(0, 1)"])


def test_what_a_scattering_sender_leaves_out_is_given_up_and_told() -> None:
    cache = cache_of()
    reader = MediaOrderReader(cache, 0.0)
    put(cache, *((0, 2 * number + 1) for number in range(2_000)))
    given = read(reader)
    assert given[:3] == ["(0, 0)", "0/1", "(0, 2)"]
    assert len([each for each in given if each.startswith("(")]) == cache.given_up > 900


@rule("K-4")
@pytest.mark.parametrize("told", [2, 3])
def test_a_group_that_is_counted_too_short_has_the_objects_that_are_here(told: int) -> None:
    """The prototype says one too few."""
    cache = cache_of((0, 0), (0, 1), (0, 2), (1, 0), previous={1: told})
    assert read(MediaOrderReader(cache, 0.0)) == ["0/0", "0/1", "0/2", "1/0"]


def test_an_object_that_is_too_large_drives_nothing_else_out() -> None:
    """Where that is known with its first bytes: the end of it came first."""
    cache = MediaCache(CacheMemory(1 << 16))
    cache.add(Fragment(0, 0, 0, b"small", True), 0.0)
    for _ in range(3):
        with pytest.raises(ObjectTooLarge):
            cache.add(Fragment(0, 1, 70_000, b"end", True), 0.0)
    assert cache.add(Fragment(0, 2, 0, b"small", True), 0.0)
    assert (cache.objects, cache.given_up) == (2, 1)
    assert not cache.add(hole(Position(0, 1)), 0.0)  # who says so posts no more than that
