"""Faults of ours in the log at a bounded rate: a peer that knows how to cause one does it again."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from aqueduct_core.logs.refusals import LINES, PERIOD


@dataclass(slots=True)
class _Place:
    """One call in our code that logs tracebacks; ``begun`` as ``LogRecord.created``."""

    begun: float
    seen: int = 0

    @property
    def left_out(self) -> int:
        return max(0, self.seen - LINES)


class FaultLimit:
    """Of records with a traceback that one place in the code logs, lets `LINES` in a `PERIOD` pass.

    The next one that passes says how many did not; ``rest`` says it of those that had no next one.
    Holds an entry for each place, so there are few. Belongs to one thread at a time.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[str, int], _Place] = {}

    def admits(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be logged; its text may get a count."""
        if not record.exc_info:
            return True
        key = record.pathname, record.lineno
        place = self._places.setdefault(key, _Place(record.created))
        if not 0 <= record.created - place.begun < PERIOD:
            if place.left_out:
                text = f"{record.getMessage()} (and {place.left_out} times before, not logged)"
                record.msg, record.args = "%s", (text,)
            place = self._places[key] = _Place(record.created)
        place.seen += 1
        return place.seen <= LINES

    def rest(self) -> list[str]:
        """A text for each place of which something is untold."""
        untold = [
            f"{place.left_out} more tracebacks of {name.rpartition('/')[2]}, line {line}"
            for (name, line), place in self._places.items()
            if place.left_out
        ]
        self._places.clear()
        return untold
