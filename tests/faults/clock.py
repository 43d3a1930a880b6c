"""An intake with a broken wall clock.

A file holds the seconds by which `time.time` and `time.time_ns` are off, or ``still`` for a clock
that stands. The monotonic clock is right, as it is when a host's time is set.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NoReturn

from aqueduct_core.intake.__main__ import main as intake

RIGHT = time.time_ns
_stood = [0]


def wrong(file: Path) -> int:
    """Nanoseconds of the wrong clock."""
    text = file.read_text()
    if text == "still":
        return _stood[0]
    _stood[0] = RIGHT() + int(float(text or "0") * 1e9)
    return _stood[0]


def main(file: str) -> NoReturn:
    time.time_ns = lambda: wrong(Path(file))
    time.time = lambda: wrong(Path(file)) / 1e9
    intake()
