"""Durations, sizes and times as people write them: ``20ms``, ``10s``, ``15m``; ``64k``, ``10g``;
``2026-01-31T12:00Z``. The unit is never left out; case does not count, nor do blanks around the
number."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_SECONDS = {"us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(us|ms|s|m|h|d)", re.IGNORECASE)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(b|k|m|g|t)(?:i?b)?", re.IGNORECASE)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def written_size(count: int) -> str:
    """With the largest unit that leaves a whole number."""
    unit = max((unit for unit in _BYTES if count % _BYTES[unit] == 0), key=_BYTES.__getitem__)
    return f"{count // _BYTES[unit]}{unit}"


def written_duration(seconds: float) -> str:
    """In seconds, or in milliseconds below one."""
    return f"{seconds * 1000:g}ms" if 0 < seconds < 1 else f"{seconds:g}s"


def duration(text: str) -> float:
    """Seconds. Raises ValueError for anything else, a bare number included."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration: write 500ms, 10s, 15m, 1h or 7d")
    return float(match[1]) * _SECONDS[match[2].lower()]


def size(text: str) -> int:
    """Bytes, in powers of 1024. Raises ValueError for anything else, a bare number included."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size: write 512b, 64k, 16m, 10g or 1t")
    return int(float(match[1]) * _BYTES[match[2].lower()])


def timestamp(text: str) -> int:
    """Microseconds since 1970 of an ISO-8601 time; UTC where it names no zone. Raises ValueError
    for anything else."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("an ISO-8601 time, such as 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)
