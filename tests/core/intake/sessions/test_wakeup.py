"""A session is called no later than it asked for."""

from __future__ import annotations

from collections.abc import Callable

from aqueduct_core.intake.sessions.wakeup import Wakeup


def test_the_earliest_of_what_was_asked_for_counts() -> None:
    asked: list[tuple[float, Callable[[], None]]] = []
    now, calls = [10.0], [0]

    def later(seconds: float, call: Callable[[], None]) -> None:
        asked.append((now[0] + seconds, call))

    def wake() -> None:
        calls[0] += 1

    wakeup = Wakeup(later, lambda: now[0], wake)
    wakeup.by(None)
    wakeup.by(15.0)
    wakeup.by(20.0)
    wakeup.by(12.0)
    wakeup.by(9.0)  # overdue: at once
    assert [at for at, _ in asked] == [15.0, 12.0, 10.0]
    asked[-1][1]()
    assert calls == [1]
    wakeup.by(30.0)
    assert [at for at, _ in asked] == [15.0, 12.0, 10.0, 30.0]
