"""Readers of a cache, in media order and in the order of arrival."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from aqueduct_core.quicr.media import cache as module
from aqueduct_core.quicr.media.cache import MediaCache
from aqueduct_core.quicr.media.cache_memory import CacheMemory
from aqueduct_core.quicr.media.cache_readers import ArrivalOrderReader, MediaOrderReader
from aqueduct_core.quicr.media.fragment import Fragment, hole
from aqueduct_core.quicr.media.position import BEGIN, Position
from tests.core.quicr.media.test_cache import put, read
from tests.support.rules import rule

Reader = MediaOrderReader | ArrivalOrderReader


class Taken:
    """What a reader was given: bytes by position, and holes."""

    def __init__(self, reader: Reader, *, ordered: bool) -> None:
        self.reader = reader
        self.data: dict[Position, bytearray] = {}
        self.ends: dict[Position, int] = {}
        self.counts: Counter[Position] = Counter()
        self.holes: list[Position] = []
        self.fragments: list[Fragment] = []
        self._ordered = ordered

    def take(self, most: int = 1_000_000) -> None:
        for _ in range(most):
            waiting = self.reader.peek()
            if waiting is None:
                return
            fragment = waiting.fragment
            assert self.reader.peek() is waiting
            assert self.reader.final is None
            if self._ordered:
                self._check_order(fragment)
            self.fragments.append(fragment)
            self.reader.advance()
            if fragment.is_hole:
                self.holes.append(fragment.position)
                continue
            data = self.data.setdefault(fragment.position, bytearray())
            data.extend(bytes(max(0, fragment.stop - len(data))))
            data[fragment.offset : fragment.stop] = fragment.data
            self.counts[fragment.position] += len(fragment.data)
            if fragment.last:
                self.ends[fragment.position] = fragment.stop

    def whole(self) -> dict[Position, bytes]:
        return {p: bytes(d) for p, d in self.data.items() if self.ends.get(p) == self.counts[p]}

    def _check_order(self, fragment: Fragment) -> None:
        """Q11."""
        if not self.fragments:
            return
        last = self.fragments[-1]
        if not last.last:
            assert (*fragment.position, fragment.offset) == (*last.position, last.stop)
        else:
            assert fragment.offset == 0
            assert fragment.position in (last.position.following, Position(last.group + 1, 0))


def pieces(rng: random.Random, groups: list[int]) -> tuple[list[Fragment], dict[Position, bytes]]:
    """A media in fragments that were split at random."""
    out: list[Fragment] = []
    objects: dict[Position, bytes] = {}
    for group, count in enumerate(groups):
        for number in range(count):
            payload = rng.randbytes(rng.randint(1, 40))
            objects[Position(group, number)] = payload
            cuts = {0, *(rng.randrange(len(payload)) for _ in range(rng.randrange(4)))}
            starts = sorted(cuts)
            for start, stop in zip(starts, [*starts[1:], len(payload)], strict=True):
                before = (groups[group - 1] if group else 0) if not number and not start else None
                last = stop == len(payload)
                out.append(
                    Fragment(group, number, start, payload[start:stop], last, 0x81, 3, before)
                )
    return out, objects


def scattered(rng: random.Random, fragments: list[Fragment]) -> list[Fragment]:
    """The same as datagrams may bring them: late by a few, and twice."""
    order = [(at + rng.random() * 15, fragment) for at, fragment in enumerate(fragments)]
    order += [(at + rng.random() * 30, f) for at, f in enumerate(fragments) if rng.random() < 0.2]
    return [fragment for _, fragment in sorted(order, key=lambda entry: entry[0])]


@rule("Q-12", "Q-27", "Q-28")
@pytest.mark.parametrize("seed", range(60))
def test_every_reader_has_every_object_whenever_it_came(seed: int) -> None:
    """In any order of arrival, with repeats, as fast or slow as it reads."""
    rng = random.Random(seed)
    fragments, objects = pieces(rng, [rng.randint(1, 6) for _ in range(rng.randint(1, 6))])
    cache = MediaCache(CacheMemory())
    readers: list[Taken] = []
    arrivals = scattered(rng, fragments)
    for at, fragment in enumerate(arrivals):
        if rng.random() < 0.1 or at == len(arrivals) // 2:
            readers.append(Taken(MediaOrderReader(cache, 0.0), ordered=True))
            readers.append(Taken(ArrivalOrderReader(cache, 0.0), ordered=False))
        cache.add(fragment, float(at))
        for taken in readers:
            if rng.random() < 0.3:
                taken.take(rng.randint(1, 10))
    cache.finish(max(objects).following, 99.0)
    assert cache.complete
    for taken in readers:
        taken.take()
        assert taken.whole() == objects
        assert taken.holes == []
        assert taken.reader.final == max(objects).following
        assert taken.reader.start == BEGIN
        assert sum(len(f.data) for f in taken.fragments) == sum(map(len, objects.values()))


@pytest.mark.parametrize("seed", range(60))
def test_what_went_before_a_reader_had_it_is_a_hole_and_nothing_is_left_out(seed: int) -> None:
    """A cache that is far too small: each reader has each object whole, or as a hole, or was cut
    off in the middle of one."""
    rng = random.Random(seed)
    fragments, objects = pieces(rng, [rng.randint(1, 6) for _ in range(12)])
    memory = CacheMemory(most=30_000)
    cache = MediaCache(memory)
    readers = [
        Taken(MediaOrderReader(cache, 0.0), ordered=True),
        Taken(ArrivalOrderReader(cache, 0.0), ordered=False),
    ]
    for at, fragment in enumerate(scattered(rng, fragments)):
        cache.add(fragment, float(at))
        for taken in readers:
            if rng.random() < 0.1:
                taken.take(rng.randint(1, 10))
    cache.finish(max(objects).following, 99.0)
    cache.cut_short(100.0)
    assert memory.evicted
    for taken in readers:
        taken.take()
        if taken.reader.cut_off:
            assert isinstance(taken.reader, MediaOrderReader)
            assert taken.reader.final is None
            continue
        whole = taken.whole()
        assert taken.reader.final == max(objects).following
        assert set(whole) | set(taken.holes) == set(objects)
        assert not set(whole) & set(taken.holes)
        assert all(objects[position] == data for position, data in whole.items())
        assert len(taken.holes) == len(set(taken.holes))


def test_late_joiners_begin_with_what_is_there() -> None:
    memory = CacheMemory()
    cache = MediaCache(memory)
    put(cache, (0, 0), (0, 1), now=0.0)
    put(cache, (0, 2), (1, 0), now=60.0, previous={1: 3})
    memory.expire(120.0)
    media, arrival = MediaOrderReader(cache, 120.0), ArrivalOrderReader(cache, 120.0)
    assert (media.start, arrival.start) == ((0, 2), (0, 2))
    assert read(media) == read(arrival) == ["0/2", "1/0"]
    memory.expire(180.0)
    assert MediaOrderReader(cache, 180.0).start == ArrivalOrderReader(cache, 180.0).start == (1, 1)


def test_what_was_there_before_a_reader_is_history() -> None:
    cache = MediaCache(CacheMemory())
    put(cache, (0, 0), now=5.0)
    readers = [MediaOrderReader(cache, 6.0), ArrivalOrderReader(cache, 6.0)]
    put(cache, (0, 1), now=7.0)
    for reader in readers:
        seen = []
        while (waiting := reader.peek()) is not None:
            seen.append((waiting.since, waiting.live))
            reader.advance()
        assert seen == [(5.0, False), (7.0, True)]


def test_a_reader_that_is_behind_what_has_expired_gets_holes() -> None:
    memory = CacheMemory()
    cache = MediaCache(memory)
    readers: list[Reader] = [MediaOrderReader(cache, 0.0), ArrivalOrderReader(cache, 0.0)]
    put(cache, (0, 0), (0, 1), (1, 0), previous={1: 2}, now=0.0)
    for reader in readers:
        assert reader.peek() is not None
        reader.advance()
    put(cache, (1, 1), now=100.0)
    memory.expire(150.0)
    for reader in readers:
        assert read(reader) == ["(0, 1)", "(1, 0)", "1/1"]
        assert reader.missed == 2
        assert not reader.cut_off


@rule("Q-36")
def test_a_hole_of_a_groups_first_object_counts_the_group_before() -> None:
    memory = CacheMemory()
    cache = MediaCache(memory)
    readers: list[Reader] = [MediaOrderReader(cache, 0.0), ArrivalOrderReader(cache, 0.0)]
    put(cache, (0, 0), (0, 1), (1, 0), previous={1: 2})
    for reader in readers:
        for _ in range(2):
            reader.peek()
            reader.advance()
    memory.expire(150.0)
    for reader in readers:
        waiting = reader.peek()
        assert waiting is not None
        assert waiting.fragment == hole(Position(1, 0), 2)


def test_a_reader_in_the_middle_of_what_goes_is_cut_off() -> None:
    memory = CacheMemory()
    cache = MediaCache(memory)
    reader = MediaOrderReader(cache, 0.0)
    cache.add(Fragment(0, 0, 0, b"begin", False), 0.0)
    cache.add(Fragment(0, 0, 5, b" and end", True), 0.0)
    assert reader.peek() is not None
    reader.advance()
    memory.expire(200.0)
    assert reader.cut_off
    assert cache.changed
    assert reader.peek() is None


def test_what_was_peeked_stays_until_it_is_advanced() -> None:
    memory = CacheMemory()
    cache = MediaCache(memory)
    readers: list[Reader] = [MediaOrderReader(cache, 0.0), ArrivalOrderReader(cache, 0.0)]
    put(cache, (0, 0), (0, 1))
    held = [reader.peek() for reader in readers]
    memory.expire(200.0)
    for reader, waiting in zip(readers, held, strict=True):
        assert reader.peek() is waiting
        assert read(reader) == ["0/0", "(0, 1)"]


def test_a_reader_that_is_too_far_behind_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PASSED", 10)
    memory = CacheMemory()
    cache = MediaCache(memory)
    slow, slower = ArrivalOrderReader(cache, 0.0), ArrivalOrderReader(cache, 0.0)
    put(cache, *((0, number) for number in range(20)))
    for _ in range(12):
        slow.peek()
        slow.advance()
    memory.expire(200.0)
    assert slower.cut_off
    assert not slow.cut_off
    assert read(slow) == [f"(0, {number})" for number in range(12, 20)]


def test_one_hole_stands_for_a_group_of_which_nothing_is_known_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_SIZES", 2)
    memory = CacheMemory()
    cache = MediaCache(memory)
    reader = MediaOrderReader(cache, 0.0)
    counts = dict.fromkeys(range(1, 6), 3)
    put(cache, *((g, n) for g in range(5) for n in range(3)), previous=counts)
    reader.peek()
    reader.advance()
    memory.expire(200.0)
    put(cache, (5, 0), previous=counts, now=200.0)
    expected = ["(1, 0)", "(2, 0)"] + [f"({group}, {n})" for group in (3, 4) for n in range(3)]
    assert read(reader) == [*expected, "5/0"]


def test_a_closed_reader_is_not_waited_for() -> None:
    cache = MediaCache(CacheMemory())
    reader = ArrivalOrderReader(cache, 0.0)
    reader.close()
    reader.close()
    assert cache.readers == []
