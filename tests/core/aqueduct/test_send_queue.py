"""Messages that wait: in order, within bounds, and counted to the byte."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.faults import QueueFull
from aqueduct_core.aqueduct.send_queue import Attach, QueuedMessage, SendQueues
from tests.support.rules import rule

SMALL = Config(send_queue_messages=3, send_queue_bytes=500, send_queue_connection_bytes=1_200)


def message(size: int) -> QueuedMessage:
    return QueuedMessage(bytes(size), (), ())


def test_a_message_costs_its_bytes_and_those_of_all_headers() -> None:
    plain = message(100).cost
    headers = ((b"key", b"value"),)
    assert QueuedMessage(bytes(100), headers, ()).cost == plain + 8
    attach = (Attach(True, headers=headers), Attach(False), Attach(True, headers=headers))
    assert QueuedMessage(bytes(100), headers, attach).cost == plain + 3 * 8
    assert plain >= 100


@rule("AQ-FLOW-5")
def test_a_queue_takes_messages_while_it_has_less_than_its_bounds() -> None:
    by_number, by_bytes = SendQueues(SMALL), SendQueues(SMALL)
    for _ in range(3):
        by_number.add(1, message(0))
    by_bytes.add(1, message(499 - message(0).cost))
    by_bytes.add(1, message(10_000))
    for queues in (by_number, by_bytes):
        with pytest.raises(QueueFull, match="channel 1 is full"):
            queues.add(1, message(0))
        assert queues.awaiting_writable == {1: False}
    exactly = SendQueues(SMALL)
    exactly.add(1, message(500 - message(0).cost))
    assert not exactly.admits(1)
    assert exactly.admits(2)


@rule("AQ-FLOW-5")
def test_all_queues_take_messages_while_they_have_less_than_the_bound_for_all() -> None:
    queues = SendQueues(SMALL)
    for channel in range(3):
        queues.add(channel, message(399 - message(0).cost))
    queues.add(3, message(0))
    assert not queues.admits(4)
    exactly = SendQueues(SMALL)
    for channel in range(3):
        exactly.add(channel, message(400 - message(0).cost))
    assert not exactly.admits(4)
    exactly.drop(0)
    assert exactly.admits(4)


@rule("AQ-FLOW-5")
def test_the_freshest_drops_as_many_as_it_takes_and_itself_where_none_is_left() -> None:
    queues = SendQueues(SMALL)
    assert [queues.add_freshest(1, message(size)) for size in (1, 2, 3)] == [0, 0, 0]
    assert queues.add_freshest(1, message(400)) == 1
    assert queues.add_freshest(1, message(5)) == 2
    assert [len(queues.pop(1).payload) for _ in range(queues.waiting(1))] == [400, 5]
    queues.add(2, message(3_000))
    assert queues.add_freshest(1, message(6)) == 1
    assert queues.waiting(1) == 0
    queues.drop(2)
    for size in (1, 2):
        queues.add(1, message(size))
    queues.add(2, message(3_000))
    assert queues.add_freshest(1, message(7)) == 3
    assert queues.channels() == [2]


def test_a_channel_that_is_dropped_wants_nothing_any_more() -> None:
    queues = SendQueues(SMALL)
    for channel in (1, 2):
        queues.add(channel, message(1_000))
        with pytest.raises(QueueFull):
            queues.add(channel, message(0))
    assert (queues.drop(1), queues.drop(1)) == (1, 0)
    assert queues.awaiting_writable == {2: False}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "freshest", "pop", "drop"]),
        st.integers(1, 3),
        st.integers(0, 300),
    ),
    max_size=40,
)


@given(STEPS)
def test_what_waits_is_counted_and_comes_out_in_order(steps: list[tuple[str, int, int]]) -> None:
    queues = SendQueues(SMALL)
    model: dict[int, deque[QueuedMessage]] = {1: deque(), 2: deque(), 3: deque()}
    for step, channel, size in steps:
        waiting = model[channel]
        match step:
            case "add" if queues.admits(channel):
                queues.add(channel, message(size))
                waiting.append(message(size))
            case "freshest":
                waiting.append(message(size))
                for _ in range(queues.add_freshest(channel, message(size))):
                    waiting.popleft()
            case "pop" if waiting:
                assert queues.head(channel) == waiting[0]
                assert queues.pop(channel) == waiting.popleft()
            case "drop":
                assert queues.drop(channel) == len(waiting)
                waiting.clear()
        assert {each: queues.waiting(each) for each in model} == {
            each: len(messages) for each, messages in model.items()
        }
        assert len(queues) == sum(map(len, model.values()))
        assert queues.bytes == sum(each.cost for queue in model.values() for each in queue)
        assert sorted(queues.channels()) == [each for each in model if model[each]]
        for each, messages in model.items():
            room = len(messages) < 3 and sum(m.cost for m in messages) < 500
            assert queues.admits(each) is (room and queues.bytes < 1_200)
