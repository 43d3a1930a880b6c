"""An intake as it was found; whether it is ready for producers, and if not, why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aqueduct_core.errors import AqueductError
from aqueduct_core.flight.status import IntakeStatus


@dataclass(frozen=True, slots=True)
class ObservedIntake:
    """One intake as it was found: its status, or why there is none. ``place`` is its directory or
    address."""

    place: str
    status: IntakeStatus | None
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        status = None if self.status is None else self.status.to_json()
        return {"place": self.place, "error": self.error, "status": status}


def observed(place: str, look: Callable[[], IntakeStatus]) -> ObservedIntake:
    """What ``look`` gives, or why it does not."""
    try:
        return ObservedIntake(place, look())
    except AqueductError as error:
        return ObservedIntake(place, None, str(error))


def troubles(status: IntakeStatus) -> list[str]:
    """What people who look should see first: what stands still, or else why it is not ready."""
    stalls = [f"{each.what}. {each.remedy}" for each in status.stalls if not each.row.normal]
    return stalls or reasons_against(status)


def reasons_against(status: IntakeStatus) -> list[str]:
    """Why nobody should be sent to this intake at this moment; none: it is ready."""
    found = []
    if status.draining:
        found.append("it is ending")
    if status.full:
        found.append("the spool is full: producers wait until a query commits")
    endpoints = status.subscriptions.endpoints if status.subscriptions is not None else ()
    for endpoint in endpoints:
        if not endpoint.connected and not status.complete:
            why = f": {endpoint.error.what}" if endpoint.error is not None else ""
            found.append(f"endpoint {endpoint.address} is not connected{why}")
    return found
