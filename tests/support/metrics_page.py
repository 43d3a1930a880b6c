"""Makes the table of metrics in docs/monitoring.md: `python -m tests.support.metrics_page`.

With ``--check`` nothing is written, and a page that is out of date ends with exit code 1.
"""

from __future__ import annotations

import sys

from aqueduct_core.monitoring.metrics import METRICS
from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "monitoring.md"
BEGIN, END = "<!-- metrics: made by python -m tests.support.metrics_page -->\n", "<!-- end -->\n"


def table() -> str:
    lines = ["| Metric | Kind | Labels | Meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.series}` | {metric.kind} | {labels} | {metric.text} |")
    return "\n".join(lines) + "\n"


def page(before: str) -> str:
    """The page with a table that is up to date."""
    head, begin, rest = before.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE} lacks the marks of the table")
    return head + BEGIN + table() + END + tail


def main(arguments: list[str]) -> int:
    before = PAGE.read_text("utf-8")
    after = page(before)
    if "--check" not in arguments:
        PAGE.write_text(after, "utf-8")
        return 0
    if after != before:
        print(f"{PAGE} is out of date: python -m tests.support.metrics_page", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
