"""Which intake serves which number: frozen values, and the rule that fences them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from aqueduct_core.flight.status import IntakeStatus


@dataclass(frozen=True, slots=True)
class Registration:
    """An intake that serves a query.

    ``at`` is its Flight address; ``fingerprint`` the SHA-256 of the listener's certificate, empty
    for an intake that ran already. ``started``: it was started for this run of the query.
    """

    intake: int
    id: str
    epoch: int
    at: str
    pid: int
    listen: str
    fingerprint: str
    started: bool = False

    @classmethod
    def of(cls, intake: int, at: str, status: IntakeStatus) -> Registration:
        """Of an intake that was found running."""
        return cls(
            intake, status.id, status.epoch, at, status.pid, status.listen or "", fingerprint=""
        )

    def same_process(self, other: Registration) -> bool:
        """Whether both tell of one life of an intake, whatever else they know of it."""
        return (self.id, self.epoch, self.at) == (other.id, other.epoch, other.at)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Registration:
        return cls(
            int(data["intake"]),
            str(data["id"]),
            int(data["epoch"]),
            str(data["at"]),
            int(data["pid"]),
            str(data["listen"]),
            str(data["fingerprint"]),
            bool(data["started"]),
        )


def winner(
    held: Registration | None, offered: Registration, gone: Registration | None = None
) -> Registration:
    """Which of two registrations of one number stands.

    ``gone`` is the one that the offerer found dead. The spool counts its owners (``epoch``) and
    has one at a time, so of two registrations of the same spool the older one is of a process
    that is gone or fenced. Of two spools the first stays: two tasks that were launched for one
    number, on two hosts, made one each, and what was read from the first must stay readable.
    """
    if held is None or held == gone:
        return offered
    if held.id != offered.id:
        return held
    return offered if offered.epoch > held.epoch else held
