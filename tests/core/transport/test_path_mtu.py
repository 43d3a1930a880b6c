"""The search for the largest datagram of a path: its table, paths of every size, and what lies."""

from __future__ import annotations

import random
from itertools import product

import pytest

from aqueduct_core.transport import path_mtu
from aqueduct_core.transport.path_mtu import (
    CONFIRMED_FOR,
    MAX_PROBES,
    PLATEAUS,
    RAISE_AFTER,
    TABLE,
    PathEvent,
    PathMtuSearch,
    SearchState,
)

BASE, CEILING = 1_200, 9_000
SEARCHING, COMPLETE, CHECKING = SearchState
ACKED, LOST, TOO_LARGE, LOSS, SILENCE, DUE = PathEvent
LATER = 100.0


def searched(passes: int, ceiling: int = CEILING) -> PathMtuSearch:
    """A search that is complete, on a path that carries datagrams of ``passes`` bytes."""
    search = PathMtuSearch(BASE, ceiling)
    settle(search, passes)
    return search


def settle(search: PathMtuSearch, passes: int, now: float = 0.0) -> int:
    """Let every probe have its outcome, until no more are wanted; how many there were."""
    probes = 0
    while (size := search.wanted) is not None:
        number = search.sent()
        assert search.wanted is None
        search.handle(ACKED if size <= passes else LOST, now, number)
        probes += 1
    return probes


def in_state(state: SearchState) -> PathMtuSearch:
    """A search that has confirmed 1,472 bytes and is in that state, with a probe under way if it
    wants one."""
    search = searched(1_472)
    if state is SEARCHING:
        search.handle(DUE, LATER)
    elif state is CHECKING:
        search.handle(LOSS, LATER)
    assert search.state is state
    return search


WALK: dict[tuple[SearchState, PathEvent], tuple[SearchState, int, int | None]] = {
    # the state afterwards, the size, and the next probe
    (SEARCHING, ACKED): (SEARCHING, 8_972, 9_000),
    (SEARCHING, LOST): (SEARCHING, 1_472, 8_972),
    (SEARCHING, TOO_LARGE): (SEARCHING, 1_472, 8_848),
    (SEARCHING, LOSS): (CHECKING, 1_472, 1_472),
    (SEARCHING, SILENCE): (CHECKING, 1_200, 1_472),
    (SEARCHING, DUE): (SEARCHING, 1_472, None),
    (COMPLETE, ACKED): (COMPLETE, 1_472, None),
    (COMPLETE, LOST): (COMPLETE, 1_472, None),
    (COMPLETE, TOO_LARGE): (COMPLETE, 1_472, None),
    (COMPLETE, LOSS): (CHECKING, 1_472, 1_472),
    (COMPLETE, SILENCE): (CHECKING, 1_200, 1_472),
    (COMPLETE, DUE): (SEARCHING, 1_472, 8_972),
    (CHECKING, ACKED): (COMPLETE, 1_472, None),
    (CHECKING, LOST): (CHECKING, 1_472, 1_472),
    (CHECKING, TOO_LARGE): (CHECKING, 1_472, None),
    (CHECKING, LOSS): (CHECKING, 1_472, None),
    (CHECKING, SILENCE): (CHECKING, 1_200, None),
    (CHECKING, DUE): (CHECKING, 1_472, None),
}


@pytest.mark.parametrize(("state", "event"), list(product(SearchState, PathEvent)))
def test_every_event_in_every_state(state: SearchState, event: PathEvent) -> None:
    search = in_state(state)
    number = search.sent() if search.wanted is not None else 99
    value = {ACKED: number, LOST: number, TOO_LARGE: 8_952}.get(event, 0)
    before = search.size
    changed = search.handle(event, LATER + 1, value)
    assert (search.state, search.size, search.wanted) == WALK[state, event]
    assert changed is (search.size != before)
    if (state, event) not in TABLE:
        assert search.size == before
        assert search.state is state


@pytest.mark.parametrize("passes", [1_200, 1_251, *PLATEAUS, 1_500, 4_000, 8_999, 9_000, 65_000])
def test_the_largest_usual_size_is_found_that_passes(passes: int) -> None:
    search = PathMtuSearch(BASE, CEILING)
    probes = settle(search, passes)
    assert search.size == max(size for size in (BASE, *PLATEAUS, CEILING) if size <= passes)
    assert probes <= 4 * MAX_PROBES
    assert search.state is COMPLETE
    assert search.wake_at == (None if search.size == CEILING else RAISE_AFTER)


@pytest.mark.parametrize("ceiling", [1_200, 1_201, 1_452, 1_460, 9_000])
def test_nothing_is_sent_above_the_ceiling(ceiling: int) -> None:
    search = PathMtuSearch(BASE, ceiling)
    settle(search, 65_000)
    assert search.size == ceiling
    assert search.wake_at is None


def test_one_probe_that_gets_lost_proves_nothing() -> None:
    search = PathMtuSearch(BASE, CEILING)
    first = search.wanted
    for _ in range(MAX_PROBES - 1):
        search.handle(LOST, 0.0, search.sent())
        assert search.wanted == first
    assert search.handle(ACKED, 0.0, search.sent())
    assert search.size == first


def test_an_outcome_that_comes_late_counts_for_nothing() -> None:
    search = PathMtuSearch(BASE, CEILING)
    late = search.sent()
    search.handle(LOST, 0.0, late)
    assert not search.handle(ACKED, 0.0, late)
    search.sent()
    assert not search.handle(ACKED, 0.0, late)
    assert search.size == BASE


def test_the_interface_is_believed_at_once() -> None:
    search = PathMtuSearch(BASE, CEILING)
    refused = 0
    while (size := search.wanted) is not None:
        number = search.sent()
        if size > 1_472:
            refused += 1
            search.handle(TOO_LARGE, 0.0, size)
        else:
            search.handle(ACKED, 0.0, number)
    assert search.size == 1_472
    assert refused == 2
    search.handle(TOO_LARGE, 0.0, 1_452)
    assert (search.size, search.black_holes) == (BASE, 1)
    settle(search, 1_451)
    assert search.size == 1_444


def test_less_than_quic_needs_is_never_believed() -> None:
    search = searched(1_472)
    assert not search.handle(TOO_LARGE, 0.0, BASE)
    assert search.size == 1_472


def test_a_path_that_shrinks_is_found_out_and_searched_anew() -> None:
    search = searched(9_000)
    search.handle(LOSS, LATER)
    assert (search.wanted, search.size) == (9_000, 9_000)
    settle(search, 1_452, LATER)
    assert (search.size, search.black_holes) == (1_452, 1)
    assert search.wake_at == LATER + RAISE_AFTER


def test_a_path_that_grows_is_found_out_by_the_raise_timer() -> None:
    search = searched(1_452)
    assert search.wake_at == RAISE_AFTER
    search.handle(DUE, RAISE_AFTER)
    settle(search, 9_000, RAISE_AFTER)
    assert search.size == 9_000


def test_silence_makes_datagrams_small_until_the_size_is_confirmed_again() -> None:
    search = searched(9_000)
    assert search.handle(SILENCE, LATER)
    assert (search.size, search.wanted) == (BASE, 9_000)
    number = search.sent()
    search.handle(SILENCE, LATER)
    assert search.wanted is None
    assert search.handle(ACKED, LATER, number)
    assert (search.size, search.black_holes) == (9_000, 0)


def test_a_path_that_loses_a_packet_now_and_then_is_not_probed_for_each() -> None:
    search = searched(9_000)
    search.handle(LOSS, CONFIRMED_FOR / 2)
    assert search.wanted is None
    search.handle(LOSS, CONFIRMED_FOR)
    assert search.wanted == 9_000


@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_the_size_is_one_that_was_confirmed(seed: int) -> None:
    rng = random.Random(seed)
    search = PathMtuSearch(BASE, CEILING)
    confirmed, now, under_way = {BASE}, 0.0, (0, 0)
    for _ in range(400):
        now += rng.choice([0.0, 0.01, 2.0])
        if search.wanted is not None and rng.random() < 0.7:
            under_way = search.wanted, search.sent()
        event = rng.choice(list(PathEvent))
        size, number = under_way
        if event is ACKED and size:
            confirmed.add(size)
        value = rng.choice([1_000, 1_472, 5_000, 9_000]) if event is TOO_LARGE else number
        before = search.size
        assert search.handle(event, now, value) is (search.size != before)
        assert search.size in confirmed
        assert BASE <= search.size <= CEILING
        assert (search.wanted is None) or BASE < search.wanted <= CEILING
        if search.state is COMPLETE and search.size < CEILING:
            assert search.wake_at is not None


def test_plateaus_rise() -> None:
    assert list(PLATEAUS) == sorted(set(path_mtu.PLATEAUS))
