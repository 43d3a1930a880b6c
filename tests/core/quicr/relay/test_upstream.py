"""The connection of a relay to its upstream, without any connection."""

from __future__ import annotations

import pytest

from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.relay.upstream import (
    FIRST_WAIT,
    LONGEST_WAIT,
    RETRY,
    Aim,
    Purpose,
    Upstream,
)

A = Aim(Purpose.REQUEST, b"a")
B = Aim(Purpose.SUBSCRIBE, b"b")


def connected(*aims: Aim) -> Upstream:
    """With the aims opened on streams 0, 4 …"""
    upstream = Upstream(lambda: 1.0)
    for aim in aims:
        upstream.pursue(aim)
    assert upstream.take_dial()
    upstream.join(QuicrEngine(client=True))
    upstream.ready()
    for at, aim in enumerate(upstream.unopened()):
        upstream.opened(aim, 4 * at)
    return upstream


def test_it_is_dialled_once_and_only_when_there_is_something_to_open() -> None:
    upstream = Upstream(lambda: 1.0)
    assert not upstream.take_dial()
    upstream.pursue(A)
    assert upstream.unopened() == []
    assert upstream.take_dial()
    upstream.pursue(B)
    assert not upstream.take_dial()
    upstream.join(QuicrEngine(client=True))
    assert upstream.unopened() == []
    upstream.ready()
    assert upstream.unopened() == [A, B]
    assert upstream.unopened() == []
    upstream.pursue(A)
    assert upstream.unopened() == []


def test_after_a_loss_all_is_opened_anew() -> None:
    upstream = connected(A, B)
    upstream.lost(10.0)
    assert upstream.engine is None
    assert upstream.wake_at == 10.0 + FIRST_WAIT
    upstream.tick(10.2)
    assert not upstream.take_dial()
    upstream.tick(10.0 + FIRST_WAIT)
    assert upstream.take_dial()
    upstream.join(QuicrEngine(client=True))
    upstream.ready()
    assert upstream.unopened() == [A, B]


def test_waits_grow_until_it_answers() -> None:
    upstream = Upstream(lambda: 1.0)
    upstream.pursue(A)
    now, waits = 0.0, []
    for _ in range(8):
        assert upstream.take_dial()
        upstream.lost(now)
        assert upstream.wake_at is not None
        waits.append(upstream.wake_at - now)
        now = upstream.wake_at
        upstream.tick(now)
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, LONGEST_WAIT, LONGEST_WAIT, LONGEST_WAIT]
    upstream.take_dial()
    upstream.join(QuicrEngine(client=True))
    upstream.ready()
    upstream.lost(now)
    assert upstream.wake_at == now + FIRST_WAIT
    assert upstream.losses == 9


def test_a_loss_while_nothing_is_wanted_dials_when_something_is() -> None:
    upstream = connected(A)
    assert upstream.drop(A) == 0
    upstream.lost(0.0)
    upstream.tick(FIRST_WAIT)
    assert not upstream.take_dial()
    assert upstream.wake_at is None
    upstream.pursue(B)
    assert upstream.take_dial()


def test_who_wants_something_while_it_waits_waits_as_well() -> None:
    upstream = connected(A)
    upstream.lost(0.0)
    upstream.pursue(B)
    assert not upstream.take_dial()
    upstream.tick(FIRST_WAIT)
    assert upstream.take_dial()


@pytest.mark.parametrize("refused", [False, True])
def test_what_ends_is_opened_again_and_later_where_it_was_refused(refused: bool) -> None:
    upstream = connected(A, B)
    assert upstream.ended(0, 10.0, refused=refused) == A
    assert upstream.ended(8, 10.0, refused=refused) is None
    if refused:
        assert upstream.unopened() == []
        assert upstream.wake_at == 10.0 + RETRY
        upstream.tick(10.0 + RETRY)
    assert upstream.unopened() == [A]


def test_what_is_dropped_is_not_opened_again() -> None:
    upstream = connected(A, B)
    upstream.ended(0, 10.0, refused=True)
    assert upstream.drop(A) is None
    assert A not in upstream
    upstream.tick(100.0)
    assert upstream.unopened() == []
    assert upstream.drop(B) == 4
    assert upstream.ended(4, 10.0, refused=False) is None
