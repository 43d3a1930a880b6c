"""Timers of a refusal log that run out when the test says so."""

from __future__ import annotations

from collections.abc import Callable


class Period:
    """One that runs; the verbs are those of asyncio's handles."""

    def __init__(self, seconds: float, over: Callable[[], None]) -> None:
        self.seconds = seconds
        self.over = over
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Periods:
    """Stands in for ``call_later`` of an event loop."""

    def __init__(self) -> None:
        self.all: list[Period] = []

    def __call__(self, seconds: float, over: Callable[[], None]) -> Period:
        self.all.append(Period(seconds, over))
        return self.all[-1]

    def end(self) -> None:
        """The period that runs is over."""
        self.all[-1].over()
