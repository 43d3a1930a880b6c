"""``python -m tests.hostile.lab [--out FILE] [NAME …]``: what attacks cost, as a table in Markdown.

All figures are ratios inside one run, or show the order of magnitude beside one. On a machine that
does nothing else, p99 beside an attack is judged, too: below twice that without.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.hostile.attacks import ATTACKS
from tests.hostile.measuring import HEAD, in_a_site

GOAL = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ATTACKS))
    parser.add_argument("--out", type=Path, help="a file for the table, too")
    options = parser.parse_args()
    print(HEAD, flush=True)
    rows, above = [HEAD], []
    for name in options.names or ATTACKS:
        with tempfile.TemporaryDirectory() as folder:
            cost = in_a_site(name, Path(folder))
        rows.append(cost.row())
        print(rows[-1], flush=True)
        if cost.p99_ratio > GOAL:
            above.append(f"{name} ×{cost.p99_ratio:.1f}")
    if options.out is not None:
        options.out.write_text("\n".join(rows) + "\n")
    if above:
        print(f"p99 above ×{GOAL:g}: {', '.join(above)}", file=sys.stderr)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
