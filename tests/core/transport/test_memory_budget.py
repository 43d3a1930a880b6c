"""Who gives way when memory runs short, as a table; and that the sum of charges is what is used."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.engine.engine import Footprint
from aqueduct_core.transport.memory_budget import MemoryBudget, Proof, Remedy

LIMIT = 8_000
HIGH, LOW = 6_000, 5_000

Budget = MemoryBudget[str]


class Holds(NamedTuple):
    size: int
    proof: Proof = Proof.ADMITTED
    waiting: int = 0
    held_back: bool = False


STRANGER, ADMITTED, LINGERS = Proof.STRANGER, Proof.ADMITTED, Proof.LINGERS

POLICY: dict[str, tuple[dict[str, Holds], tuple[str, Remedy] | None]] = {
    "enough for all": ({"a": Holds(6_000)}, None),
    "strangers before the admitted, however little they hold": (
        {"a": Holds(5_900), "b": Holds(101, STRANGER)},
        ("b", Remedy.CLOSE),
    ),
    "of strangers the one that holds most": (
        {"a": Holds(10, STRANGER), "b": Holds(6_000, STRANGER), "c": Holds(20, STRANGER)},
        ("b", Remedy.CLOSE),
    ),
    "of equals the oldest": (
        {"a": Holds(3_000), "b": Holds(2_000, STRANGER), "c": Holds(2_000, STRANGER)},
        ("b", Remedy.CLOSE),
    ),
    "what lingers before strangers": (
        {"a": Holds(6_000, STRANGER), "b": Holds(1, LINGERS)},
        ("b", Remedy.CLOSE),
    ),
    "a stranger that waits for us is a stranger": (
        {"a": Holds(6_100, STRANGER, waiting=6_000)},
        ("a", Remedy.CLOSE),
    ),
    "of the admitted the one that holds most of its own making": (
        {"a": Holds(2_500), "b": Holds(3_600), "c": Holds(100)},
        ("b", Remedy.CLOSE),
    ),
    "who waits for its acks is held back": (
        {"a": Holds(6_100, waiting=6_000)},
        ("a", Remedy.HOLD_BACK),
    ),
    "the largest first, whatever it holds": (
        {"a": Holds(3_600, waiting=3_600), "b": Holds(3_400)},
        ("a", Remedy.HOLD_BACK),
    ),
    "the next one, where the largest is held back already": (
        {"a": Holds(3_600, waiting=3_600, held_back=True), "b": Holds(3_400)},
        ("b", Remedy.CLOSE),
    ),
    "held back and below the limit: nobody": (
        {"a": Holds(8_000, waiting=7_000, held_back=True)},
        None,
    ),
    "held back and above the limit: closed": (
        {"a": Holds(8_001, waiting=7_000, held_back=True)},
        ("a", Remedy.CLOSE),
    ),
    "nobody below its part of the mark": (
        {"a": Holds(4_500, waiting=4_500, held_back=True), "b": Holds(1_700), "c": Holds(300)},
        None,
    ),
}


def charged(holds: dict[str, Holds]) -> Budget:
    budget: Budget = MemoryBudget(LIMIT)
    for name, each in holds.items():
        budget.charge(name, Footprint(each.size, each.waiting), each.proof)
        if each.held_back:
            budget.hold_back(name)
    return budget


@pytest.mark.parametrize("case", POLICY)
def test_who_gives_way(case: str) -> None:
    holds, expected = POLICY[case]
    budget = charged(holds)
    assert (budget.high, budget.low) == (HIGH, LOW)
    assert budget.used == sum(each.size for each in holds.values())
    assert budget.short is (budget.used > HIGH)
    assert budget.worst() == expected


def test_all_who_were_held_back_go_on_when_there_is_room_again() -> None:
    budget = charged({"a": Holds(6_500, waiting=6_000)})
    assert budget.worst() == ("a", Remedy.HOLD_BACK)
    budget.hold_back("a")
    assert budget.worst() is None
    for size, recovered in [(HIGH, False), (LOW + 1, False), (LOW, True)]:
        budget.charge("a", Footprint(size, size), ADMITTED)
        assert budget.recovered is recovered
    assert budget.resume() == ["a"]
    assert not budget.recovered
    budget.charge("a", Footprint(6_500, 6_000), ADMITTED)
    assert budget.worst() == ("a", Remedy.HOLD_BACK)


def test_who_was_held_back_goes_on_when_half_is_done_whatever_others_hold() -> None:
    """Else one that holds just less than the mark would keep others at rest for ever."""
    budget = charged({"hoard": Holds(5_800), "a": Holds(3_100, waiting=3_100)})
    budget.charge("hoard", Footprint(3_050), ADMITTED)
    assert budget.worst() == ("a", Remedy.HOLD_BACK)
    budget.hold_back("a")
    budget.charge("hoard", Footprint(5_500), ADMITTED)
    budget.charge("a", Footprint(1_600, 1_551), ADMITTED)
    assert not budget.recovered
    budget.charge("a", Footprint(1_600, 1_550), ADMITTED)
    assert budget.used > budget.low
    assert budget.recovered
    assert budget.resume() == ["a"]
    assert not budget.recovered


def test_in_vain_is_not_looked_again_before_something_has_changed() -> None:
    budget = charged({"a": Holds(6_500, waiting=6_000, held_back=True)})
    assert budget.worst() is None
    budget.charge("b", Footprint(1), STRANGER)
    assert budget.worst() == ("b", Remedy.CLOSE)
    budget.release("b")
    assert budget.worst() is None
    budget.charge("a", Footprint(LIMIT + 100, 6_000), ADMITTED)
    assert budget.worst() == ("a", Remedy.CLOSE)


NAMES = st.sampled_from("abcdefgh")
SIZES = st.integers(0, 3_000)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("charge"), NAMES, SIZES, st.integers(0, 100), st.sampled_from(Proof)),
        st.tuples(st.just("release"), NAMES),
        st.tuples(st.just("relieve")),
        st.tuples(st.just("resume")),
    ),
    max_size=60,
)


@given(STEPS)
def test_the_sum_of_charges_is_what_is_used(steps: list[tuple[object, ...]]) -> None:
    budget: Budget = MemoryBudget(LIMIT)
    held: dict[str, Footprint] = {}
    for step in steps:
        match step:
            case ("charge", str(name), int(size), int(part), Proof() as proof):
                held[name] = Footprint(size, size * part // 100)
                budget.charge(name, held[name], proof)
            case ("release", str(name)):
                held.pop(name, None)
                budget.release(name)
            case ("resume",) if budget.recovered:
                budget.resume()
            case ("relieve",):
                while (found := budget.worst()) is not None:
                    assert budget.short
                    name, remedy = found
                    assert name in held
                    if remedy is Remedy.CLOSE:
                        del held[name]
                        budget.release(name)
                    else:
                        budget.hold_back(name)
        assert budget.used == sum(each.size for each in held.values())
        assert len(budget) == len(held)
        assert all(budget.holds(name) == each.size for name, each in held.items())
    for name in list(held):
        budget.release(name)
    assert budget.used == 0
    assert not budget.short
    assert not budget.recovered
    assert budget.worst() is None


@given(st.lists(st.tuples(SIZES, st.integers(0, 100), st.sampled_from(Proof)), max_size=40))
def test_relief_ends_and_leaves_no_stranger_where_it_is_short(
    holds: list[tuple[int, int, Proof]],
) -> None:
    """Whatever is held: below the mark, or only admitted ones are left, the larger ones of which
    are held back; and never above the limit."""
    budget: MemoryBudget[int] = MemoryBudget(LIMIT)
    proofs: dict[int, Proof] = {}
    for name, (size, part, proof) in enumerate(holds):
        budget.charge(name, Footprint(size, size * part // 100), proof)
        proofs[name] = proof
    for _ in range(2 * len(holds) + 1):
        found = budget.worst()
        if found is None:
            break
        name, remedy = found
        if remedy is Remedy.CLOSE:
            budget.release(name)
            del proofs[name]
        else:
            budget.hold_back(name)
    assert budget.worst() is None
    assert budget.used <= LIMIT
    assert not budget.short or set(proofs.values()) == {ADMITTED}
