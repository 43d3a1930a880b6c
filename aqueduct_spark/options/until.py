"""What ends a bounded read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from aqueduct_spark.options import values

_ALLOWED = "finish, idle:<duration> such as idle:10s, or offset"


@dataclass(frozen=True, slots=True)
class UntilFinish:
    """When every subscribed channel, and all that hangs below it, has ended."""


@dataclass(frozen=True, slots=True)
class UntilIdle:
    """When nothing new was stored for ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class UntilOffset:
    """At ``endingOffsets`` or ``endingTimestamp``; nothing is waited for."""


Until: TypeAlias = UntilFinish | UntilIdle | UntilOffset


def parse_until(value: str) -> Until:
    """``finish``, ``idle:<duration>`` or ``offset``; ``ValueError`` says what is allowed."""
    word, colon, rest = value.strip().partition(":")
    match (word.lower(), colon):
        case ("finish", ""):
            return UntilFinish()
        case ("offset", ""):
            return UntilOffset()
        case ("idle", ":"):
            try:
                return UntilIdle(values.positive_duration(rest))
            except ValueError:
                raise ValueError(_ALLOWED) from None
    raise ValueError(_ALLOWED)
