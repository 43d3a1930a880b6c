"""``make bench``: every benchmark, one after the other; each prints its own table.

All figures are ratios to a reference that ran in the same minute on the same machine; absolute
ones are there to see the order of magnitude.
"""

from __future__ import annotations

import subprocess
import sys

BENCHES = {
    "tests.bench.engine": "the engine's own cost for each message against a plain Python loop",
    "tests.bench.channels": "10,000 channels open, 100,000 in turn: flat cost and memory",
    "tests.bench.transport": "receiving UDP: our loop against stock aioquic, both counting bytes",
    "tests.bench.spool": "the spool against a bare append with fdatasync",
    "tests.bench.reading": "reading stored rows here: mapped segments against Flight",
    "tests.bench.sink": "DataFrame → wire → acked, and record batches from frame to frame",
    "tests.bench.sink_memory": "10,000,000 rows through one sink task: flat memory",
    "tests.bench.pipeline": "wire → durable → DataFrame against stock aioquic counting bytes",
}


def main() -> int:
    failed = []
    for module, title in BENCHES.items():
        print(f"\n=== {title} ({module})", flush=True)
        if subprocess.run([sys.executable, "-m", module], check=False).returncode:
            failed.append(module)
    if failed:
        print("\nbelow its goal or failed: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
