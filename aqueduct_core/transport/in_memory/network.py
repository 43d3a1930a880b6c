"""Any number of links in memory on one virtual clock: no socket, no waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

TURNS_AT_ONCE = 1_000
"""Turns at one moment of the clock before a run is called endless."""


class OnClock(Protocol):
    """What a network moves: a link and its engines."""

    @property
    def next_at(self) -> float | None:
        """When something happens next; None: never, unless a command is given."""

    @property
    def busy(self) -> bool:
        """Something happens at once."""

    def turn(self) -> None:
        """Carry out what is due and what the engines were told by commands."""


class MemoryNetwork:
    """The clock ``now`` of all ``links``, which add themselves. What they do at one moment has
    their order, so the same seeds give the same run."""

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self.links: list[OnClock] = []

    @property
    def next_at(self) -> float | None:
        """When something happens next; None: never, unless a command is given."""
        due = [at for at in (link.next_at for link in self.links) if at is not None]
        return max(self.now, min(due)) if due else None

    def kick(self) -> None:
        """Carry out what the engines were told by commands, without moving the clock."""
        for _ in range(TURNS_AT_ONCE):
            for link in self.links:
                link.turn()
            if not any(link.busy for link in self.links):
                return
        raise RuntimeError("the engines keep each other busy without time going on")

    def step(self) -> bool:
        """Carry out commands, then move the clock to the next thing that happens.

        False when nothing will happen any more.
        """
        self.kick()
        at = self.next_at
        if at is None:
            return False
        self.now = at
        self.kick()
        return True

    def run_until(self, condition: Callable[[], bool], limit: float = 60.0) -> None:
        """Step until ``condition`` holds; TimeoutError after ``limit`` virtual seconds."""
        stop = self.now + limit
        still, last = 0, self.now
        self.kick()
        while not condition():
            if not self.step():
                raise TimeoutError("nothing will happen any more, and the condition does not hold")
            if self.now > stop:
                raise TimeoutError(f"the condition did not come about in {limit:g} seconds")
            still, last = (still + 1, last) if self.now == last else (0, self.now)
            if still > TURNS_AT_ONCE:
                raise RuntimeError("a deadline is asked for again and again")

    def run_for(self, seconds: float) -> None:
        """Let so many virtual seconds pass."""
        stop = self.now + seconds
        self.kick()
        while (at := self.next_at) is not None and at <= stop:
            self.step()
        self.now = stop
        self.kick()
