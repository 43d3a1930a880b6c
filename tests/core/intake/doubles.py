"""What stands in, in tests of sessions, for those who drive them and to whom they report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Turns:
    """Stands in for the driver."""

    unsent = 0
    peer_certificate_fingerprint: str | None = None

    def __init__(self, kick: Callable[[], None]) -> None:
        self.kick = kick


class Report:
    """What a session that has dialled reports."""

    shown: str | None = None

    def __init__(self) -> None:
        self.told: list[Any] = []

    def opened(self) -> None:
        self.told.append("opened")

    def changed(self) -> None:
        """Often."""

    def closed(self, end: Any) -> None:
        self.told.append(end)
