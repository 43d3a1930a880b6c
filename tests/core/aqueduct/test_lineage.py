"""Accessible, pending and lost channels."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.lineage import Lineage, Lost
from tests.support.lineage import is_pending
from tests.support.rules import rule


def rooted() -> Lineage:
    lineage = Lineage()
    lineage.sender_made(0)
    return lineage


@rule("AQ-LOST-1", "AQ-LOST-2")
def test_an_ack_further_down_waits_for_the_carrier_above() -> None:
    lineage = rooted()
    lineage.attached(0, True, 0, [(8, True)])
    lineage.attached(8, True, 0, [(16, True)])
    lineage.acked(8, True, [(0, 1)])
    assert is_pending(lineage, 8)
    assert is_pending(lineage, 16)
    lineage.acked(0, True, [(0, 1)])
    assert not is_pending(lineage, 8)
    assert not is_pending(lineage, 16)
    assert lineage.links == 0
    assert lineage.carriers == 0


@rule("AQ-LOST-3")
def test_loss_takes_acked_children_too() -> None:
    lineage = rooted()
    lineage.attached(0, True, 0, [(8, True)])
    lineage.attached(8, True, 0, [(16, True)])
    lineage.attached(8, False, 0, [(2, False)])
    lineage.acked(8, True, [(0, 1)])
    assert lineage.nacked(0, True, [(0, 1)]) == [
        Lost(8, False),
        Lost(2, False),
        Lost(16, False),
    ]
    assert lineage.links == 0
    assert len(lineage) == 1


@rule("AQ-LOST-5")
def test_a_record_outlives_its_machine() -> None:
    lineage = rooted()
    lineage.attached(0, True, 0, [(8, True), (2, False)])
    lineage.attached(8, True, 0, [(16, True)])
    lineage.attached(8, True, 1, [(24, True)])
    lineage.acked(8, True, [(0, 1)])
    assert lineage.ended(8, routed=True) == [Lost(24, False)]
    assert lineage.ended(2, routed=True) == []
    assert lineage.nacked(0, True, [(0, 1)]) == [
        Lost(8, True),
        Lost(2, True),
        Lost(16, False),
    ]


@rule("AQ-LOST-5", "AQ-LOST-2")
def test_a_record_whose_machine_ended_is_dropped_when_accessible() -> None:
    lineage = rooted()
    lineage.attached(0, True, 0, [(8, True), (2, False)])
    lineage.attached(8, True, 0, [(16, True)])
    lineage.acked(8, True, [(0, 1)])
    assert lineage.ended(8, routed=True) == []
    lineage.acked(0, True, [(0, 1)])
    assert len(lineage) == 2  # 0 and 16, whose machines live
    assert not is_pending(lineage, 16)


@rule("AQ-LOST-7")
@pytest.mark.parametrize("end", ["lost", "accessible"])
def test_a_chain_of_a_hundred_thousand(end: str) -> None:
    lineage = rooted()
    depth = 100_000
    for i in range(depth):
        lineage.attached(8 * i, True, 0, [(8 * i + 8, True)])
    for i in range(1, depth):
        lineage.acked(8 * i, True, [(0, 1)])
    if end == "lost":
        assert len(lineage.nacked(0, True, [(0, 1)])) == depth
        assert len(lineage) == 1
    else:
        lineage.acked(0, True, [(0, 1)])
        assert not is_pending(lineage, 8 * depth)
    assert lineage.links == 0


@rule("AQ-ACK-13")
def test_a_long_range_over_few_carriers() -> None:
    lineage = rooted()
    lineage.attached(0, True, 5, [(8, True)])
    lineage.attached(0, False, 5, [(16, True)])
    lineage.acked(0, True, [(0, 1 << 61)])
    assert not is_pending(lineage, 8)
    assert is_pending(lineage, 16)


@rule("AQ-ACK-2")
def test_a_range_ends_before_its_stop() -> None:
    lineage = rooted()
    lineage.attached(0, True, 5, [(8, True)])
    lineage.attached(0, True, 6, [(16, True)])
    lineage.acked(0, True, [(0, 6)])
    assert not is_pending(lineage, 8)
    assert is_pending(lineage, 16)


@rule("AQ-LOST-5")
def test_what_is_counted_is_what_is_open() -> None:
    lineage = rooted()
    lineage.attached(0, True, 0, [(8, True), (16, True)])
    lineage.sender_made(1)
    assert lineage.links == 2
    lineage.sender_made(10, accessible=False)
    assert lineage.links == 3
    for number in range(2):
        lineage.attached(8, True, number, [(24 + 8 * number, True)])
        lineage.attached(16, True, number, [(40 + 8 * number, True)])
    assert (lineage.links, lineage.carriers) == (7, 5)
    lineage.ended(16, routed=False)
    assert (lineage.links, lineage.carriers) == (5, 3)
    lineage.nacked(0, True, [(0, 1)])
    assert (lineage.links, lineage.carriers) == (1, 0)
    lineage.make_accessible(10)
    assert lineage.links == 0


@pytest.mark.parametrize("acked", [True, False])
def test_a_channel_that_two_messages_carry_is_settled_once(acked: bool) -> None:
    """A peer may attach one again whose first claim is no longer known (AQ-LIFE-10)."""
    lineage = rooted()
    lineage.attached(0, True, 0, [(8, True)])
    lineage.attached(0, True, 1, [(16, True), (8, True), (24, True)])
    if acked:
        lineage.acked(0, True, [(0, 2)])
        assert not any(is_pending(lineage, channel) for channel in (8, 16, 24))
    else:
        assert [lost.channel for lost in lineage.nacked(0, True, [(0, 2)])] == [8, 16, 24]


def test_a_carrier_that_changed_its_number() -> None:
    lineage = rooted()
    lineage.attached(0, False, 0, [(8, True)])
    lineage.renumbered(0, 0, 7)
    lineage.renumbered(0, 3, 4)
    assert lineage.nacked(0, False, [(0, 1)]) == []
    assert lineage.nacked(0, True, [(7, 8)]) == [Lost(8, False)]


def test_unknown_parents_have_nothing_to_settle() -> None:
    lineage = rooted()
    lineage.acked(8, True, [(0, 1)])
    assert lineage.nacked(8, True, [(0, 1)]) == []
    assert lineage.ended(8, routed=True) == []
    assert lineage.ended(0, routed=True) == []
    assert len(lineage) == 0
