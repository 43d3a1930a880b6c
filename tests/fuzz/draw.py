"""A count of random inputs: ``python -m tests.fuzz.draw TARGET COUNT [--seed N] [--length N]``.

For small targets, whose every state is a few steps away: no instrumentation, so that ten millions
of inputs are a matter of minutes. ``make fuzz FUZZ_COUNT=10000000 FUZZ_TARGETS=reassembly`` runs
it. The same seed gives the same inputs.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.fuzz.targets import TARGETS, target


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.draw")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--length", type=int, default=40, help="longest input in bytes")
    options = parser.parse_args(arguments)
    run = target(options.target)
    rng = random.Random(options.seed)
    start = time.monotonic()
    for number in range(options.count):
        data = rng.randbytes(rng.randrange(options.length + 1))
        try:
            run(data)
        except Exception:
            print(f"{options.target}, input {number}: bytes.fromhex({data.hex()!r})")
            raise
        if not (number + 1) % 1_000_000:
            print(f"{number + 1:>10} in {time.monotonic() - start:.0f} s", flush=True)
    seconds = time.monotonic() - start
    print(f"{options.target}: {options.count} inputs of seed {options.seed} in {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
