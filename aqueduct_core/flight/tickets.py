"""What a client may ask of an intake, as frozen values with one JSON form each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aqueduct_core.errors import DataLoss


@dataclass(frozen=True, slots=True)
class Ticket:
    """The rows ``[start, end)`` of one partition of the spool with this id."""

    spool: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if not (self.partition >= 0 and 0 <= self.start <= self.end):
            raise ValueError(f"not a range of offsets: {self}")

    def to_bytes(self) -> bytes:
        return json.dumps(["rows", self.spool, self.partition, self.start, self.end]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises ValueError for anything that `to_bytes` does not make."""
        try:
            value = json.loads(data)
        except RecursionError:
            raise ValueError("not a ticket") from None
        if not (isinstance(value, list) and len(value) == 5 and value[0] == "rows"):
            raise ValueError("not a ticket")
        _, spool, *offsets = value
        if type(spool) is not str or any(type(offset) is not int for offset in offsets):
            raise ValueError("not a ticket")
        return cls(spool, *offsets)


@dataclass(frozen=True, slots=True)
class Commit:
    """``cursor`` is done with everything below ``ends``; meant for one spool and epoch."""

    cursor: str
    ends: tuple[int, ...]
    spool: str | None = None
    epoch: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "cursor": self.cursor,
            "ends": list(self.ends),
            "spool": self.spool,
            "epoch": self.epoch,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        epoch = data.get("epoch")
        return cls(
            str(data["cursor"]),
            tuple(int(end) for end in data["ends"]),
            None if data.get("spool") is None else str(data["spool"]),
            None if epoch is None else int(epoch),
        )


@dataclass(frozen=True, slots=True)
class IntakeStatus:
    """What an intake says of itself.

    ``ends`` are the durable offsets of its partitions, exclusive; ``starts`` the earliest that
    are still stored; ``committed`` the position of each cursor. ``listen`` and ``flight`` are
    ``host:port``. ``bytes`` is the size of the spool on disk. ``lease`` is the time in seconds
    after which the intake ends itself unless somebody asks (None: it stays).
    """

    id: str
    epoch: int
    ends: tuple[int, ...]
    starts: tuple[int, ...]
    committed: Mapping[str, tuple[int, ...]]
    listen: str
    flight: str
    pid: int
    bytes: int = 0
    full: bool = False
    connections: int = 0
    channels: int = 0
    draining: bool = False
    lease: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "epoch": self.epoch,
            "ends": list(self.ends),
            "starts": list(self.starts),
            "committed": {cursor: list(ends) for cursor, ends in self.committed.items()},
            "listen": self.listen,
            "flight": self.flight,
            "pid": self.pid,
            "bytes": self.bytes,
            "full": self.full,
            "connections": self.connections,
            "channels": self.channels,
            "draining": self.draining,
            "lease": self.lease,
            "counters": dict(self.counters),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Unknown keys are left aside, so that an older client reads a newer intake."""
        return cls(
            id=data["id"],
            epoch=data["epoch"],
            ends=tuple(data["ends"]),
            starts=tuple(data["starts"]),
            committed={cursor: tuple(ends) for cursor, ends in data["committed"].items()},
            listen=data["listen"],
            flight=data["flight"],
            pid=data["pid"],
            bytes=data.get("bytes", 0),
            full=data.get("full", False),
            connections=data.get("connections", 0),
            channels=data.get("channels", 0),
            draining=data.get("draining", False),
            lease=data.get("lease"),
            counters=data.get("counters", {}),
        )


def require_spool(served: str, asked: str | None) -> None:
    """Raises DataLoss.SPOOL_REPLACED when ``asked`` names another spool than the one served."""
    if asked is not None and asked != served:
        raise DataLoss(
            "SPOOL_REPLACED",
            f"offsets of spool {asked} were asked for, but the intake serves spool {served}",
            "Point option spool at the directory that the checkpoint was made with, "
            "or start with a new checkpoint",
        )
