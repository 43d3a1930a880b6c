"""An intake with a broken wall clock: ``python -m tests.faults.clock FILE``.

FILE holds the seconds by which `time.time` and `time.time_ns` are off, or ``still`` for a clock
that stands. The monotonic clock is right, as it is when a host's time is set.
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path

RIGHT = time.time_ns
_stood = [0]


def wrong(file: Path) -> int:
    """Nanoseconds of the wrong clock."""
    text = file.read_text()
    if text == "still":
        return _stood[0]
    _stood[0] = RIGHT() + int(float(text or "0") * 1e9)
    return _stood[0]


if __name__ == "__main__":
    file = Path(sys.argv[1])
    time.time_ns = lambda: wrong(file)
    time.time = lambda: wrong(file) / 1e9
    sys.argv = ["intake"]
    runpy.run_module("aqueduct_core.intake", run_name="__main__", alter_sys=True)
