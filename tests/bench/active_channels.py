"""Many active channels on one connection: what a message costs when each of them sends in turn.

A client that has 1,000 or 10,000 channels to a server in another process sends short messages on
all of them, one after the other, each channel by a task of its own; and it finishes 20,000.

    python -m tests.bench.active_channels [--repetitions N]
"""

from __future__ import annotations

from functools import partial

from tests.bench.channel_load import Costs, run
from tests.bench.measuring import Bench, Effort, in_turns, ratios
from tests.bench.sheet import Sheet

FEW, MANY, FINISHED = 1_000, 10_000, 20_000
EACH = 8
"""Messages of a channel."""


def compare(effort: Effort, sheet: Sheet) -> None:
    few, many, finish = f"{FEW:,} active", f"{MANY:,} active", f"{FINISHED:,} finished"
    loads = {
        few: partial(run, "active", FEW, EACH * FEW),
        many: partial(run, "active", MANY, EACH * MANY),
        finish: partial(run, "finish", FINISHED),
    }
    runs = list(in_turns(loads, effort, sheet))
    for load in loads:
        for end in ("client", "server"):
            sheet.add(f"{load}, {end}, each", "µs", [getattr(made[load], end) for made in runs])
    ratio = ratios(runs, many, few, Costs.both)
    sheet.add(f"a message with {MANY:,} over {FEW:,} active channels", "x", ratio, "active")
    ends = [made[finish].both() / 1e3 for made in runs]
    sheet.add("finish of a channel, both ends", "ms", ends, "finish")


BENCH = Bench("active_channels", "10,000 active channels against 1,000", compare)

if __name__ == "__main__":
    BENCH.run()
