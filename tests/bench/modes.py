"""What a short message costs at both ends, by the mode of its channel: unordered and unreliable
ones against ordered.

A client sends 100,000 short lines in bulk on one channel to a server in another process.

    python -m tests.bench.modes [--repetitions N]
"""

from __future__ import annotations

from functools import partial

from aqueduct_core.aqueduct.config import Mode
from tests.bench.channel_load import run
from tests.bench.measuring import Bench, Effort, in_turns
from tests.bench.sheet import Sheet

MESSAGES = 100_000


def compare(effort: Effort, sheet: Sheet) -> None:
    loads = {mode.value: partial(run, "bulk", index, MESSAGES) for index, mode in enumerate(Mode)}
    runs = list(in_turns(loads, effort, sheet))
    for mode in loads:
        sheet.add(f"{mode}, both ends, each", "µs", [made[mode].both() for made in runs])
    ordered = Mode.ORDERED.value
    for mode in (Mode.UNORDERED.value, Mode.UNRELIABLE.value):
        ratios = [made[mode].both() / made[ordered].both() for made in runs]
        sheet.add(f"{mode} over ordered", "x", ratios)


BENCH = Bench("modes", "short messages, by the mode of their channel", compare)

if __name__ == "__main__":
    BENCH.run()
