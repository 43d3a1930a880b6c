"""What is refused, in the log at a bounded rate: it is for strangers to say how often that is."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from aqueduct_core.logs.json_lines import named

PERIOD = 10.0
"""Seconds that are looked at together."""

LINES = 5
"""Refusals of one kind in a period that get a line of their own."""


class Cancellable(Protocol):
    def cancel(self) -> None: ...


Later = Callable[[float, Callable[[], None]], Cancellable]
"""Calls back after so many seconds, as ``call_later`` of an event loop does."""


class RefusalLog:
    """Logs what is refused: of each kind the first `LINES` of a `PERIOD`, and at its end how many
    more there were.

    A kind is a text of ours, such as ``connections refused``, so there are few of them. One that
    is left out costs an addition. Belongs to one thread; ``close`` tells what is not told yet.
    ``totals`` counts all, by kind; ``latest`` is the newest line of each.
    """

    def __init__(self, logger: logging.Logger, later: Later) -> None:
        self._logger = logger
        self._later = later
        self.totals: Counter[str] = Counter()
        self.latest: dict[str, str] = {}
        self._told: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._period: Cancellable | None = None

    def add(
        self, kind: str, text: str, *values: Any, level: int = logging.WARNING, count: int = 1
    ) -> None:
        """``count`` refusals of a kind; ``text % values`` tells of them in one line."""
        self.totals[kind] += count
        if self._told[kind] >= LINES:
            self._left_out[kind] += count
            return
        self._told[kind] += 1
        self.latest[kind] = text % values if values else text
        self._logger.log(level, text, *values, extra=named(kind.replace(" ", "-"), count=count))
        if self._period is None:
            self._period = self._later(PERIOD, self._over)

    def close(self) -> None:
        """Tell what was left out so far; the next refusal begins a new period."""
        if self._period is not None:
            self._period.cancel()
            self._over()

    def _over(self) -> None:
        self._period = None
        self._told.clear()
        left_out, self._left_out = self._left_out, Counter()
        for kind, count in left_out.items():
            self._logger.warning(
                "%s: %d more in the last %g s, without a line each",
                kind,
                count,
                PERIOD,
                extra=named(f"{kind.replace(' ', '-')}-left-out", count=count),
            )
