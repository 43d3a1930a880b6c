from __future__ import annotations

from aqueduct_core.intake.aqueduct.rows import AqueductSource
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.intake.storage.overflow_queue import ALL_ITEMS, LISTENER_ITEMS, OverflowQueue
from aqueduct_core.intake.storage.pending import PendingBatch, PendingEvent
from tests.core.intake.bench import Peer
from tests.core.intake.runs import run

NOW = 1_800_000_000_000_000


def offer(peer: Peer, channel: int = 8, payload: bytes = b"x") -> PendingBatch:
    return PendingBatch(
        peer, run([payload], channel=channel), AqueductSource("c", "p", "s", channel), True, NOW
    )


def event(peer: Peer, channel: int | None = None, *, confirms: bool = False) -> PendingEvent:
    kind = "finished" if confirms else "opened"
    return PendingEvent(peer, LoggedEvent(kind, NOW, "s", "p", "c", channel), confirms=confirms)


def test_what_waits_comes_out_in_order_and_is_counted() -> None:
    peer, backlog = Peer(), OverflowQueue()
    items = [offer(peer, 8), event(peer, 8), offer(peer, 16, b"y" * 5000), event(peer)]
    for item in items:
        backlog.add(item)
    assert len(backlog) == 4
    assert backlog.size > 5000
    assert [backlog.take() for _ in items] == items
    assert (len(backlog), backlog.size, bool(backlog)) == (0, 0, False)
    assert (backlog._of, backlog._counts) == ({}, {})


def test_a_channel_takes_back_its_runs_and_its_finish_but_nothing_that_has_happened() -> None:
    peer, other, backlog = Peer(), Peer(), OverflowQueue()
    stays = [offer(other, 8), offer(peer, 16), event(peer, 8), event(peer)]
    for item in (offer(peer, 8), event(peer, 8, confirms=True), *stays, offer(peer, 8)):
        backlog.add(item)
    receipts, finish = backlog.withdraw(peer, 8)
    assert ([receipt.channel for receipt in receipts], finish) == ([8, 8], True)
    assert backlog.withdraw(peer, 8) == ([], False)
    assert [backlog.take() for _ in stays] == stays
    assert backlog.size == 0


def test_a_connection_that_is_over_takes_all_its_runs_back() -> None:
    peer, other, backlog = Peer(), Peer(), OverflowQueue()
    for channel in (8, 16, 8, 24):
        backlog.add(offer(peer, channel))
        backlog.add(offer(other, channel))
    receipts, finish = backlog.withdraw(peer, None)
    assert ([receipt.channel for receipt in receipts], finish) == ([8, 8, 16, 24], False)
    assert [item.listener for item in backlog.clear()] == [other] * 4
    assert (backlog.size, len(backlog)) == (0, 0)


def test_a_connection_with_much_that_waits_rests_until_nothing_waits() -> None:
    peer, other, backlog = Peer(), Peer(), OverflowQueue()
    backlog.add(offer(other))
    for _ in range(LISTENER_ITEMS + 50):
        backlog.add(offer(peer))
    assert (peer.resting, other.resting) == (1, 0)
    while len(backlog) > 1:
        backlog.take()
        backlog.wake()
    assert peer.resting == 1
    backlog.take()
    backlog.wake()
    assert peer.resting == 0
    backlog.wake()
    assert peer.resting == 0


def test_in_a_crowd_each_that_brings_more_rests() -> None:
    backlog = OverflowQueue()
    crowd = [Peer() for _ in range(ALL_ITEMS // (LISTENER_ITEMS - 1) + 1)]
    for peer in crowd:
        for _ in range(LISTENER_ITEMS - 1):
            backlog.add(event(peer))
    late = Peer()
    backlog.add(event(late))
    assert backlog.crowded
    assert late.resting == 1
    assert crowd[0].resting == 0
    assert backlog.withdraw(late, None) == ([], False)  # events stay, but nobody is woken for it
    for _ in range(len(backlog)):
        backlog.take()
    backlog.wake()
    assert late.resting == 1
    assert all(peer.resting == 0 for peer in crowd)


def test_withdrawing_costs_what_it_takes_and_leaves_nothing_behind() -> None:
    peer, backlog = Peer(), OverflowQueue()
    for turn in range(20_000):
        backlog.add(offer(peer, turn * 8))
        backlog.withdraw(peer, turn * 8)
    assert (len(backlog), backlog.size) == (0, 0)
    assert len(backlog._order) < 200
    assert backlog._of == {}
