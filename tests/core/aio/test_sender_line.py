"""Who waits for room is called in the order in which he came, and nobody for ever in vain."""

from __future__ import annotations

from functools import partial

from aqueduct_core.aio.sender_line import SHARE, STEPS, SenderLine


class Waiter:
    """A sender that notes how often it was called."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0

    def wake(self) -> None:
        self.calls += 1

    def __repr__(self) -> str:
        return self.name


def joined(line: SenderLine, names: str) -> list[Waiter]:
    waiters = [Waiter(name) for name in names]
    for waiter in waiters:
        line.join(waiter)
    return waiters


def called(waiters: list[Waiter]) -> str:
    return "".join(waiter.name * waiter.calls for waiter in waiters)


def test_the_first_ones_are_called_and_leave_the_line() -> None:
    line = SenderLine()
    waiters = joined(line, "abcd")
    line.call(3)
    assert called(waiters) == "abc"
    assert len(line) == 1
    line.call(3)
    assert called(waiters) == "abcd"
    assert not line
    line.call(3)
    assert called(waiters) == "abcd"


def test_who_joins_twice_is_in_it_once() -> None:
    line = SenderLine()
    (waiter,) = joined(line, "a")
    line.join(waiter)
    assert len(line) == 1


def test_who_was_called_in_vain_keeps_his_place_before_those_who_had_something() -> None:
    line = SenderLine()
    waiters = joined(line, "abcd")
    line.call(3)
    a, b, c, _ = waiters
    line.charge(a, 10)
    for waiter in (a, b, c):
        line.join(waiter)
        line.join(waiter)
    assert line.refused
    assert len(line) == 4
    line.call(2)
    assert called(waiters) == "abbcc"
    assert not line.refused
    line.call(2)
    assert called(waiters) == "aabbccd"


def test_who_take_all_the_room_each_time_have_it_in_turn() -> None:
    line = SenderLine()
    waiters = joined(line, "abcdefghij")
    order: list[Waiter] = []
    for waiter in waiters:
        waiter.wake = partial(order.append, waiter)  # type: ignore[method-assign]
    served = ""
    for _ in range(30):
        order.clear()
        line.call(4)
        served += order[0].name
        line.charge(order[0], SHARE)  # who is called first leaves nothing for the others
        for waiter in order:
            line.join(waiter)
    assert served == 3 * "abcdefghij"


def test_while_others_wait_a_share_is_for_those_who_were_called() -> None:
    line = SenderLine()
    stranger = Waiter("x")
    assert line.may_pass(stranger)
    a, _ = joined(line, "ab")
    assert not line.may_pass(stranger)
    line.call(1)
    assert line.may_pass(a)
    assert not line.may_pass(stranger)
    line.charge(a, SHARE - 1)
    assert line.may_pass(a)
    line.charge(a, 1)
    assert not line.may_pass(a)
    line.charge(stranger, 1)
    line.call(1)
    assert line.may_pass(stranger)


def test_a_call_ends_the_shares_of_those_called_before() -> None:
    line = SenderLine()
    a, *_ = joined(line, "abc")
    line.call(1)
    line.call(1)
    assert not line.may_pass(a)


def test_the_next_call_waits_as_long_as_half_of_those_called_go_on() -> None:
    line = SenderLine()
    a, b, c, d, _ = joined(line, "abcde")
    assert not line.goes_on()  # nobody was called
    line.call(4)
    for sends, goes_on in ((4, True), (3, True), (2, True), (1, False)):
        for waiter in (a, b, c, d)[:sends]:
            line.charge(waiter, 1)
        line.charge(Waiter("x"), 1)  # was not called
        assert line.goes_on() is goes_on


def test_the_next_call_waits_for_so_many_steps_at_most() -> None:
    line = SenderLine()
    (waiter,) = joined(line, "a")
    for _ in range(2):
        line.join(waiter)
        line.call()
        for step in range(1, STEPS + 2):
            line.charge(waiter, 1)
            assert line.goes_on() is (step < STEPS)


def test_a_line_that_is_cleared_is_empty() -> None:
    line = SenderLine()
    waiters = joined(line, "ab")
    line.call(1)
    line.clear()
    line.call()
    assert called(waiters) == "a"
    assert not line
