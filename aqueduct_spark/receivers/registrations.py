"""Which intake serves which number: frozen values, and the rule that fences them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Registration:
    """An intake that was started for a query.

    ``at`` is its Flight address; ``fingerprint`` the SHA-256 of the listener's certificate, empty
    for an intake that was adopted.
    """

    intake: int
    id: str
    epoch: int
    at: str
    pid: int
    listen: str
    fingerprint: str

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
        )


def winner(held: Registration | None, offered: Registration) -> Registration:
    """Which of two registrations of one number stands.

    The spool counts its owners (``epoch``) and has one at a time, so of two registrations of the
    same spool the older one is of a process that is gone or fenced. Of equal ones the first stays.
    """
    if held is None or held.id != offered.id:
        return offered
    return offered if offered.epoch > held.epoch else held
