"""Progress of a long run: a line for each step on standard error, with the time so far."""

from __future__ import annotations

import sys
import time


class Progress:
    def __init__(self, name: str) -> None:
        self._name = name
        self._begun = time.monotonic()

    def say(self, text: str) -> None:
        elapsed = time.monotonic() - self._begun
        print(f"[{self._name} {elapsed:5.0f} s] {text}", file=sys.stderr, flush=True)

    def step(self, done: int, of: int | None, text: str) -> None:
        """One of ``of`` steps is done; with the time that the others may take."""
        if of is None:
            self.say(f"{done}: {text}")
            return
        left = (time.monotonic() - self._begun) / done * (of - done)
        self.say(f"{done}/{of}, about {left / 60:.0f} min left: {text}")
