"""What one connection of QUICR allows and how it sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from aqueduct_core.errors import InvalidOption
from aqueduct_core.quicr.media.drop_level import FlagReading
from aqueduct_core.quicr.media.fragment import MAX_OBJECT


@dataclass(frozen=True, slots=True)
class DropSettings:
    """When objects are given up that a path has no room for (Q34).

    Attributes:
        reading: which flags say that an object may be given up: ``low``: the lowest bit, the others
            are its drop priority (the document); ``high``: those of 0x80 and above, all of them are
            its priority (the prototype). 0x00 and odd ones from 0x81 on mean the same to both
            (Q37).
        threshold: seconds that media may wait before more of it is given up.
        interval: seconds between two changes of the level.
    """

    reading: FlagReading = "low"
    threshold: float = 0.1
    interval: float = 0.05

    def __post_init__(self) -> None:
        if self.reading not in get_args(FlagReading):
            raise InvalidOption("BAD_VALUE", f"reading is {self.reading!r}", "Use low or high")
        for name in ("threshold", "interval"):
            value = getattr(self, name)
            if not 0.001 <= value <= 60:
                raise InvalidOption(
                    "BAD_VALUE", f"{name} is {value!r}", "Give seconds from 0.001 to 60"
                )


@dataclass(frozen=True, slots=True)
class QuicrConfig:
    """Bounds and times of one connection; sizes in bytes, times in seconds.

    Attributes:
        dropping: None: nothing is ever given up, however long it waits.
        max_transactions: requests, posts and subscriptions of the peer that may be open at once.
        max_url: of a URL or a prefix.
        max_object: of one object that comes; a media ends with one that is larger.
        max_notified: URLs that one subscription of the peer remembers: that it was told, the oldest
            of which are forgotten and may be told again, and that wait for it to read. Where more
            wait, the subscription ends.
        repeat_after: where the link does not tell what becomes of a datagram, each is sent once
            more after so long, and counts as received then.
        write_ahead: of media, at most, that waits in the link, where it cannot be given up any
            more; less, where the link says that its path carries less in a round trip.
    """

    dropping: DropSettings | None = field(default_factory=DropSettings)
    max_transactions: int = 4_096
    max_url: int = 1_024
    max_object: int = MAX_OBJECT
    max_notified: int = 16_384
    repeat_after: float = 0.1
    write_ahead: int = 1 << 20

    def __post_init__(self) -> None:
        bounds = {
            "max_transactions": (1, 1 << 16),
            "max_url": (1, 1 << 14),
            "max_object": (1, MAX_OBJECT),
            "max_notified": (1, 1 << 21),
            "repeat_after": (0.01, 60),
            "write_ahead": (1_200, 1 << 30),
        }
        for name, (low, high) in bounds.items():
            if not low <= getattr(self, name) <= high:
                raise InvalidOption(
                    "BAD_VALUE",
                    f"{name} is {getattr(self, name)!r}",
                    f"Give a value from {low:g} to {high:g}",
                )
