"""Messages that are sent by themselves: what each costs at both ends, and when its ack is there.

A client sends 1,000, and 100, short messages a second on one channel to a server in another
process.

    python -m tests.bench.single_messages [--repetitions N] [--seconds S]
"""

from __future__ import annotations

from functools import partial

from tests.bench.channel_load import run
from tests.bench.measuring import Bench, Effort, in_turns
from tests.bench.sheet import Sheet

RATES = (1_000, 100)
"""Messages a second."""


def compare(effort: Effort, sheet: Sheet) -> None:
    loads = {
        f"{rate:,} a second": partial(run, "single", rate, int(rate * effort.seconds))
        for rate in RATES
    }
    runs = list(in_turns(loads, effort, sheet))
    for load in loads:
        for end in ("client", "server"):
            sheet.add(f"{load}, {end}, each", "µs", [getattr(made[load], end) for made in runs])
        sheet.add(f"{load}, ack, p50", "ms", [made[load].ack for made in runs])
        sheet.add(f"{load}, ack, p99", "ms", [made[load].ack_late for made in runs])


BENCH = Bench("single_messages", "messages sent by themselves", compare)

if __name__ == "__main__":
    BENCH.run()
