"""What a sender knows of its messages: numbers given, acked, nacked."""

from __future__ import annotations

from aqueduct_core.aio.deliveries import Deliveries


def test_both_spaces_count_apart() -> None:
    deliveries = Deliveries()
    assert [deliveries.sent(True, 0), deliveries.sent(False, 0), deliveries.sent(True, 1)] == [
        0,
        0,
        1,
    ]
    mark = deliveries.mark()
    deliveries.sent(True, 2, 3)
    assert deliveries.settle(True, 0, 2, True) == (0, 2)
    assert not deliveries.reached(mark)
    deliveries.settle(False, 0, 1, False)
    assert deliveries.reached(mark)
    counts = deliveries.statistics()
    assert (counts.sent, counts.acked, counts.nacked, counts.pending) == (6, 2, 1, 3)
    assert (counts.reliable_sent, counts.reliable_acked) == (5, 2)


def test_acks_in_any_order_reach_a_mark_only_without_holes() -> None:
    deliveries = Deliveries()
    deliveries.sent(True, 0, 10)
    mark = deliveries.mark()
    for first, stop in ((5, 10), (0, 2), (3, 5)):
        deliveries.settle(True, first, stop, True)
        assert not deliveries.reached(mark)
    deliveries.settle(True, 2, 3, True)
    assert deliveries.reached(mark)
    assert deliveries.open == 0


def test_a_rewind_takes_acks_back_and_numbers_go_on() -> None:
    deliveries = Deliveries()
    deliveries.sent(True, None, 5)
    deliveries.settle(True, 0, 5, True)
    deliveries.reliable.rewind(2)
    assert deliveries.statistics().acked == 3
    assert deliveries.sent(True, 0) == 3
    assert deliveries.sent(True, 1) == 4
    assert deliveries.settle(True, 0, 2, True) == (3, 5)
    assert deliveries.statistics().acked == 5


def test_the_rest_is_nacked_at_a_close() -> None:
    deliveries = Deliveries()
    deliveries.sent(True, 0, 4)
    deliveries.settle(True, 1, 2, True)
    assert deliveries.nack_rest() == 3
    assert deliveries.statistics().nacked == 3


def test_a_rerouted_datagram_changes_its_space() -> None:
    deliveries = Deliveries()
    deliveries.sent(False, 0)
    deliveries.sent(False, 1)
    deliveries.rerouted(1, 0)
    assert deliveries.sent(False, 1) == 1
    assert (deliveries.unreliable.next, deliveries.reliable.next) == (2, 1)
