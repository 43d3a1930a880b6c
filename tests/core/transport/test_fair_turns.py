"""Time is shared out by what connections use, not by how many datagrams they send."""

from __future__ import annotations

import pytest

from aqueduct_core.transport.fair_turns import (
    COMPANY,
    DATAGRAM_BYTES,
    DEAR,
    DEAR_PART,
    LONGEST_TURN,
    ROUND,
    SLACK,
    WAITING,
    WAITING_BYTES,
    FairTurns,
)

Turns = FairTurns[str, int]


def run(turns: Turns, costs: dict[str, float], seconds: float) -> dict[str, tuple[int, float]]:
    """Take turns for that long, a datagram costing what its connection's cost; datagrams and time
    of each."""
    done: dict[str, tuple[int, float]] = dict.fromkeys(costs, (0, 0.0))
    total = 0.0
    while total < seconds and turns:
        took = a_round(turns, costs, done, now=total)
        total += took
        if not took:
            break
    return done


def a_round(
    turns: Turns,
    costs: dict[str, float],
    done: dict[str, tuple[int, float]],
    *,
    now: float,
    others: bool = False,
) -> float:
    """One round; the seconds that it took."""
    begun = now
    turns.begin(now)
    while (turn := turns.next(others=others)) is not None:
        who, batch = turn
        took = len(batch) * costs[who]
        turns.spent(who, len(batch), took)
        count, time = done[who]
        done[who] = count + len(batch), time + took
        now += took
    return now - begun


def fill(turns: Turns, who: str, count: int) -> int:
    return sum(turns.add(who, number) for number in range(count))


def test_datagrams_of_each_come_in_their_order() -> None:
    turns: Turns = FairTurns()
    fill(turns, "a", 500)
    fill(turns, "b", 300)
    seen: dict[str, list[int]] = {"a": [], "b": []}
    while turns:
        turns.begin(0.0)
        while (turn := turns.next()) is not None:
            seen[turn[0]] += turn[1]
            turns.spent(turn[0], len(turn[1]), 1e-5 * len(turn[1]))
    assert seen == {"a": list(range(500)), "b": list(range(300))}
    assert not turns


def test_who_costs_much_has_no_more_time_than_others() -> None:
    turns: Turns = FairTurns()
    costs = {"dear": 0.8 * DEAR, "good": 5e-5, "other": 5e-5}
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
        turns.begin(0.0)
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
    turns.begin(0.0)
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


SHARES = [
    # share, who waits, strangers wait, the part of a round that "a" has, about
    (0.5, "a", False, 1.0),
    (0.5, "a", True, 0.5),
    (0.5, "ab", False, 0.5),
    (0.25, "a", False, 1.0),
    (0.25, "a", True, 0.25),
    (0.25, "ab", False, 0.25),
    (0.25, "abcdefgh", False, 0.125),
    (1.0, "a", True, 1.0),
    (1.0, "ab", False, 0.5),
    (0.1, "ab", True, 0.1),
]


@pytest.mark.parametrize(("share", "waiting", "others", "part"), SHARES)
def test_one_connection_has_its_share_of_a_round_while_others_wait(
    share: float, waiting: str, others: bool, part: float
) -> None:
    turns: Turns = FairTurns(share)
    costs = dict.fromkeys(waiting, 2e-5)
    rounds = 20
    done: dict[str, tuple[int, float]] = dict.fromkeys(costs, (0, 0.0))
    for _ in range(rounds):
        for who in waiting:
            fill(turns, who, 900)
        a_round(turns, costs, done, others=others, now=0.0)
    whole = ROUND if waiting == "a" else ROUND / 2
    assert done["a"][1] / rounds == pytest.approx(part * whole, rel=0.25)


def test_who_has_had_its_share_waits_for_the_next_round_and_loses_nothing() -> None:
    turns: Turns = FairTurns(0.25)
    fill(turns, "a", 600)
    seen: list[int] = []
    rounds = 0
    while turns:
        rounds += 1
        turns.begin(0.0)
        while (turn := turns.next(others=True)) is not None:
            seen += turn[1]
            turns.spent("a", len(turn[1]), 2e-5 * len(turn[1]))
    assert seen == list(range(600))
    assert rounds == pytest.approx(600 * 2e-5 / (0.25 * ROUND), abs=1)


def test_a_resting_connection_that_is_forgotten_has_no_turn() -> None:
    turns: Turns = FairTurns(0.1)
    fill(turns, "a", 600)
    turns.begin(0.0)
    while (turn := turns.next(others=True)) is not None:
        turns.spent("a", len(turn[1]), 1.0)
    assert turns
    turns.forget("a")
    turns.begin(0.0)
    assert turns.next() is None
    assert not turns


def test_bytes_that_wait_are_bounded_and_counted() -> None:
    turns: Turns = FairTurns()
    size = 65_000
    taken = sum(turns.add("flood", number, size) for number in range(1_000))
    assert taken == -(-WAITING_BYTES // size)
    assert turns.memory("flood") > taken * size
    assert turns.add("good", 0, 1_200)
    assert not turns.add("flood", 0, size)
    while (turn := turns.next()) is not None:
        turns.spent(turn[0], len(turn[1]), 0.0)
    assert (turns.memory("flood"), turns._bytes) == (0, 0)


def beside(share: float, cost: float, seconds: float) -> tuple[float, float]:
    """A flood of datagrams that cost so much, and one of little each 10 ms: the part of the time
    that the flood had, and the longest that one of the others waited, both from when a datagram's
    cost is known."""
    turns: FairTurns[str, float] = FairTurns(share)
    now = used = longest = came = begun = 0.0
    flood = 0
    while now < seconds:
        while flood < 50:
            flood += turns.add("flood", now)
        while came <= now:
            turns.add("other", came)
            came += 0.01
        turns.begin(now)
        before = now
        while (turn := turns.next()) is not None:
            who, batch = turn
            took = len(batch) * (cost if who == "flood" else 1e-5)
            turns.spent(who, len(batch), took)
            now += took
            if who == "flood":
                used, begun = (used + took, begun) if begun else (0.0, now)
                flood -= len(batch)
            else:
                longest = max([longest, *(now - each for each in batch if each > begun > 0)])
        if now == before and not turns:
            due = turns.due
            now = came if due is None else min(due, came)
    return used / (now - begun), longest


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("cost", [2 * DEAR, 10e-3, 40e-3])
def test_who_sends_what_costs_much_has_no_more_than_its_share_of_the_clock(
    share: float, cost: float
) -> None:
    part, longest = beside(share, cost, 4.0)
    assert part == pytest.approx(DEAR_PART * share, rel=0.1)
    assert longest <= 2 * max(cost, LONGEST_TURN)


def test_who_sends_what_costs_little_has_all_the_time_that_others_leave() -> None:
    part, longest = beside(0.25, DEAR / 2, 4.0)
    assert part > 0.95
    assert longest <= ROUND


def test_nobody_rests_who_has_been_alone_for_a_while() -> None:
    turns: Turns = FairTurns(0.25)
    costs = {"dear": 10e-3, "other": 1e-5}
    turns.add("other", 0)
    fill(turns, "dear", 500)
    done = dict.fromkeys(costs, (0, 0.0))
    a_round(turns, costs, done, now=0.0)
    assert turns.due is not None
    assert not turns
    now = COMPANY + 1.0
    for _ in range(100):
        took = a_round(turns, costs, done, now=now)
        assert took > 0
        now += took
    assert turns
    assert turns.due is None


def test_one_that_rests_and_is_forgotten_is_not_waited_for() -> None:
    turns: Turns = FairTurns(0.25)
    costs = {"dear": 10e-3, "other": 1e-5}
    for now in (0.0, 0.1):
        turns.add("other", 0)
        fill(turns, "dear", 5)
        a_round(turns, costs, dict.fromkeys(costs, (0, 0.0)), now=now)
    assert turns.due is not None
    turns.forget("dear")
    assert turns.due is None
    assert not turns


def test_one_whose_datagrams_come_one_by_one_is_not_dear() -> None:
    """Each has a turn, and a deadline for its ack another."""
    turns: Turns = FairTurns(0.5)
    waits = []
    now = 0.0
    for number in range(200):
        fill(turns, "flood", 5)
        turns.add("good", number)
        at = now
        for _ in range(2):
            turns.begin(now)
            while (turn := turns.next()) is not None:
                who, batch = turn
                took = len(batch) * 5e-3 if who == "flood" else 0.4e-3
                now += took
                turns.spent(who, len(batch) if batch[0] >= 0 else 0, took)
                if who == "good":
                    waits.append(now - at)
                    at = now
                    if batch[0] >= 0:
                        turns.add("good", -1)
        now = max(now, 0.01 * number)
    assert turns._turns["good"].cost < DEAR < turns._turns["flood"].cost
    assert len(waits) > 350
    assert max(waits[20:]) < 12e-3


def test_one_turn_that_took_long_is_not_held_against_it_for_long() -> None:
    """A collection of garbage, say: it comes in the turn of one, and is the fault of others."""
    turns: Turns = FairTurns(0.5)
    floods = [f"flood {n}" for n in range(50)]
    now = longest = 0.0
    asked: float | None = None
    for step in range(4_000):
        for who in floods:
            if not turns.memory(who):
                turns.add(who, 0)
        if asked is None:
            turns.add("good", 0)
            asked = now
        turns.begin(now)
        while (turn := turns.next()) is not None:
            who, batch = turn
            took = 5e-3 * len(batch) if who != "good" else 0.3e-3 if step != 500 else 0.5
            now += took
            turns.spent(who, len(batch), took)
            if who == "good":
                longest = max(longest, now - asked)
                asked = None
        now += 1e-3
        longest = max(longest, now - (asked or now))
    assert longest < 1.0


def test_strangers_have_little_time_together_while_others_are_at_work() -> None:
    turns: Turns = FairTurns(0.5, lambda who: who != "good")
    strangers = [f"stranger {n}" for n in range(100)]
    now = used = longest = 0.0
    waits: float | None = None
    while now < 4.0:
        for who in strangers:
            fill(turns, who, 10 - turns.memory(who) // DATAGRAM_BYTES)
        if waits is None:
            waits = now
            turns.add("good", 0)
        turns.begin(now)
        before = now
        while (turn := turns.next()) is not None:
            who, batch = turn
            took = len(batch) * 1e-4
            now += took
            turns.spent(who, len(batch), took)
            if who == "good":
                longest, waits = max(longest, now - waits), None
            else:
                used += took
        now += 1e-3 * (now == before)
    assert used / now == pytest.approx(0.5 * DEAR_PART, rel=0.3)
    assert longest < 2 * ROUND


def test_strangers_leave_about_half_of_their_time_to_who_is_admitted_and_costs_much() -> None:
    """However many they are."""
    turns: Turns = FairTurns(0.5, lambda who: who.startswith("stranger"))
    strangers = [f"stranger {n}" for n in range(100)]
    used = {"known": 0.0, "stranger": 0.0, "good": 0.0}
    now = 0.0
    while now < 4.0:
        for who in [*strangers, "known"]:
            fill(turns, who, 10 - turns.memory(who) // DATAGRAM_BYTES)
        turns.add("good", 0)
        turns.begin(now)
        before = now
        while (turn := turns.next()) is not None:
            who, batch = turn
            took = len(batch) * (1e-4 if who == "good" else 4 * DEAR)
            now += took
            turns.spent(who, len(batch), took)
            used[who.partition(" ")[0]] += took
        now += 1e-3 * (now == before)
    assert used["known"] > used["stranger"] / 2
    assert used["known"] + used["stranger"] < 0.5 * now


def test_a_newcomer_goes_before_strangers_who_have_had_turns() -> None:
    turns: Turns = FairTurns(0.5, lambda who: who != "good")
    strangers = [f"stranger {n}" for n in range(100)]
    now = 0.0
    came, served = 1.0, 0.0
    while not served and now < 10.0:
        for who in strangers:
            fill(turns, who, 10 - turns.memory(who) // DATAGRAM_BYTES)
        turns.add("good", 0)
        if now >= came and not turns.memory("newcomer"):
            turns.add("newcomer", 0)
        turns.begin(now)
        before = now
        while (turn := turns.next()) is not None:
            took = len(turn[1]) * 1e-3
            now += took
            turns.spent(turn[0], len(turn[1]), took)
            if turn[0] == "newcomer":
                served = now
        now += 1e-3 * (now == before)
    assert served - came < 0.05


def test_of_those_that_are_gone_nothing_is_kept_however_many_there_were() -> None:
    """Strangers who come, send and go, while others come before them again and again."""
    turns: Turns = FairTurns(0.5, lambda who: who.startswith("stranger"))
    now = 0.0
    for number in range(2_000):
        who = f"stranger {number}"
        fill(turns, who, 5)
        turns.add("good", 0)
        turns.begin(now)
        while (turn := turns.next()) is not None:
            turns.spent(turn[0], len(turn[1]), 2e-3)
            now += 2e-3
        turns.forget(who)
    entries = [*turns._cheap, *turns._dear, *turns._strange]
    assert len(entries) <= 2 * len(turns._turns) + SLACK
    assert len(turns._turns) == 1
    turns.add("good", 0)
    turns.begin(now + 1.0)
    turn = turns.next()
    assert turn is not None
    assert turn[0] == "good"
