"""Time is shared out by what connections use, not by how many datagrams they send."""

from __future__ import annotations

import pytest

from aqueduct_core.transport.fair_turns import LONGEST_TURN, WAITING, FairTurns

Turns = FairTurns[str, int]


def run(turns: Turns, costs: dict[str, float], seconds: float) -> dict[str, tuple[int, float]]:
    """Take turns for that long, a datagram costing what its connection's cost; datagrams and time
    of each."""
    done: dict[str, tuple[int, float]] = dict.fromkeys(costs, (0, 0.0))
    total = 0.0
    while total < seconds and (turn := turns.next()) is not None:
        who, batch = turn
        took = len(batch) * costs[who]
        turns.spent(who, len(batch), took)
        count, time = done[who]
        done[who] = count + len(batch), time + took
        total += took
    return done


def fill(turns: Turns, who: str, count: int) -> int:
    return sum(turns.add(who, number) for number in range(count))


def test_datagrams_of_each_come_in_their_order() -> None:
    turns: Turns = FairTurns()
    fill(turns, "a", 500)
    fill(turns, "b", 300)
    seen: dict[str, list[int]] = {"a": [], "b": []}
    while (turn := turns.next()) is not None:
        seen[turn[0]] += turn[1]
        turns.spent(turn[0], len(turn[1]), 1e-5 * len(turn[1]))
    assert seen == {"a": list(range(500)), "b": list(range(300))}
    assert not turns


def test_who_costs_much_has_no_more_time_than_others() -> None:
    turns: Turns = FairTurns()
    costs = {"dear": 1e-3, "good": 5e-5, "other": 5e-5}
    for who in costs:
        fill(turns, who, 2_000)
    done = run(turns, costs, 0.3)
    assert done["dear"][1] == pytest.approx(0.1, abs=0.02)
    assert done["good"][0] == pytest.approx(2_000, rel=0.2)
    assert abs(done["good"][0] - done["other"][0]) < 200


def test_a_turn_is_short_however_much_a_datagram_costs() -> None:
    turns: Turns = FairTurns()
    fill(turns, "dear", 1_000)
    longest = 0.0
    for _ in range(50):
        turn = turns.next()
        assert turn is not None
        took = 2e-3 * len(turn[1])
        turns.spent("dear", len(turn[1]), took)
        longest = took
    assert longest <= LONGEST_TURN


def test_who_comes_late_waits_for_one_turn_and_has_nothing_saved_up() -> None:
    turns: Turns = FairTurns()
    fill(turns, "flood", 2_000)
    run(turns, {"flood": 1e-4}, 0.1)
    fill(turns, "flood", 1_000)
    turns.add("late", 0)
    first, second = [turns.next() for _ in range(2)]
    assert first is not None
    assert second is not None
    assert "late" in (first[0], second[0])
    turns.spent("flood", 1, 1e-4)
    turns.spent("late", 1, 1e-4)
    fill(turns, "late", 2_000)
    done = run(turns, {"flood": 1e-4, "late": 1e-4}, 0.05)
    assert abs(done["flood"][1] - done["late"][1]) < 0.02


def test_alone_it_has_all_the_time() -> None:
    turns: Turns = FairTurns()
    fill(turns, "only", 2_000)
    assert run(turns, {"only": 1e-5}, 10.0)["only"][0] == 2_000


def test_what_is_beyond_the_bound_is_dropped_of_those_who_have_most() -> None:
    turns: Turns = FairTurns()
    assert fill(turns, "flood", WAITING + 500) == WAITING
    assert fill(turns, "good", 1_000) == 1_000
    assert fill(turns, "flood", 10) == 0
    assert fill(turns, "greedy", WAITING) == WAITING // 3
    assert turns._waiting < 2 * WAITING
    for who in ("flood", "good", "greedy"):
        turns.forget(who)
    assert (turns._waiting, turns._active) == (0, 0)
    assert turns.next() is None


def test_what_waits_for_one_that_is_gone_goes_with_it() -> None:
    turns: Turns = FairTurns()
    fill(turns, "gone", 10)
    fill(turns, "good", 1)
    turns.forget("gone")
    assert turns.next() == ("good", [0])
    turns.spent("good", 1, 1e-5)
    assert turns.next() is None
    turns.spent("gone", 1, 1.0)
    assert not turns
