"""Rows that were given up by hand, as an event."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aqueduct_core.intake.events import Event
from aqueduct_core.intake.offers import Occurrence, Receipt
from aqueduct_core.intake.records import Source
from aqueduct_core.intake.tally import Tally


def given_up(partition: int, start: int, end: int, reason: str, microseconds: int) -> Event:
    """Offsets ``[start, end)`` of a partition are passed over from now on."""
    text = f"partition {partition}: {reason}"
    return Event("skipped", microseconds, "", reason=text, first=start, last=end - 1)


class Teller:
    """A party that brings one event and hears when it is on the disk."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told

    def occurrence(self, event: Event) -> Occurrence:
        return Occurrence(self, event, confirms=True)

    def recorded(self, channels: Sequence[int]) -> None:
        self._told()

    def durable(self, receipts: list[Receipt]) -> None:
        pass

    def dropped(self, receipt: Receipt) -> None:
        pass

    def unrepeatable(self, source: Source, tally: Tally, reason: str) -> None:
        pass

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass
