"""``python -m tests.telehash_simulation --seeds 20000 [--first K] [--jobs 2]``."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.telehash_simulation.campaign import LineTotals, in_line_parts


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.telehash_simulation", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=20_000, help="how many seeds (20000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    totals = LineTotals()
    for part in in_line_parts(given.first, given.seeds, given.jobs):
        totals = totals.plus(part)
        if totals.seeds % 1000 == 0:
            print(f"{totals.seeds} seeds, {len(totals.failures)} failed", file=sys.stderr)
    print(f"seeds          {totals.seeds}, in {time.monotonic() - began:.0f} s")
    print(f"packets        {totals.packets} delivered, on {totals.closed} channels that closed")
    print(f"lines lost     {totals.lines_lost}")
    print(f"failing seeds  {len(totals.failures)}")
    for seed, reason in totals.failures:
        print(f"  {seed}: {reason}")
    return 1 if totals.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
