"""The conservation ledger: what producers know of their messages against what the table holds.

A producer writes its side to a file at any time (`LedgerFile`); whoever has the table makes one
`Line` a channel of it. Three numbers have to be 0: messages that were acked and are not there, that
are there twice, and that are out of order on an ordered channel.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aqueduct_core.primitives import atomic_file


@dataclass(frozen=True)
class Line:
    """One channel of the ledger: what its producer knows against what the table holds."""

    channel: str
    mode: str
    sent: int
    acked: int
    nacked: int
    rows: int
    lost_after_ack: int
    duplicates: int
    order_breaks: int

    @property
    def good(self) -> bool:
        return not (self.lost_after_ack or self.duplicates or self.order_breaks)

    def __str__(self) -> str:
        return (
            f"{self.channel:<12} {self.mode:<10} sent={self.sent} acked={self.acked} "
            f"nacked={self.nacked} rows={self.rows} lost_after_ack={self.lost_after_ack} "
            f"duplicates={self.duplicates} order_breaks={self.order_breaks}"
        )


def total(lines: Iterable[Line]) -> Line:
    items = list(lines)
    names = ("sent", "acked", "nacked", "rows", "lost_after_ack", "duplicates", "order_breaks")
    return Line("total", "", *(sum(getattr(line, name) for line in items) for name in names))


class LedgerFile:
    """What the producer knows of its messages, in a file that others may read at any time."""

    def __init__(self, path: Path, name: str, mode: str, producer: str) -> None:
        self._path = path
        self._channel = {"channel": name, "mode": mode, "producer": producer}
        self._written = 0.0

    def write(
        self,
        sent: int,
        acked: int,
        nacked: int,
        reliable: Any,
        unreliable: Any,
        now: float,
        **more: Any,
    ) -> None:
        """``reliable`` and ``unreliable`` are the ranges of numbers that were acked."""
        self._written = now
        entry = {
            **self._channel,
            "sent": sent,
            "acked": acked,
            "nacked": nacked,
            "acked_reliable": [list(pair) for pair in reliable],
            "acked_unreliable": [list(pair) for pair in unreliable],
            **more,
        }
        atomic_file.replace(self._path, json.dumps(entry).encode(), 0o644, durable=False)

    def due(self, now: float, seconds: float = 1.0) -> bool:
        return now - self._written >= seconds
