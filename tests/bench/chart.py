"""A chart of figures and their goals, as SVG that can be read on light and dark pages.

A row for each figure: how far it is on its way to what it must be, on a logarithmic axis, so that
ratios below and above one show alike. The bar is the range of the repetitions, the dot the median;
a line marks what it must be, a tick the stretch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from tests.bench.sheet import Figure, shown

NAMES, PLOT, VALUES = 460, 300, 150
ROW, HEAD, FOOT = 22, 34, 30
LEAST, GREATEST = 0.125, 8.0
"""Shares of a goal at the ends of the axis; what lies beyond is drawn there."""
TICKS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
STYLE = (
    ":root{color-scheme:light dark}"
    "text{font:12px Helvetica,Arial,sans-serif;fill:#1f2933}"
    ".pale{fill:#52606d}.line{stroke:#9aa5b1}.goal{stroke:#1f2933}"
    ".met{fill:#2f7d4f;stroke:#2f7d4f}.missed{fill:#b54708;stroke:#b54708}"
    "@media(prefers-color-scheme:dark){text{fill:#e4e7eb}.pale{fill:#9aa5b1}"
    ".line{stroke:#616e7c}.goal{stroke:#e4e7eb}"
    ".met{fill:#57c785;stroke:#57c785}.missed{fill:#f79009;stroke:#f79009}}"
)
"""No background: the page's own shows."""


def place(share: float) -> float:
    """Where a share of a goal stands on the axis."""
    inside = min(GREATEST, max(LEAST, share))
    span = math.log(GREATEST / LEAST)
    return NAMES + PLOT * math.log(inside / LEAST) / span


def chart(figures: Sequence[Figure], title: str) -> str:
    """The picture of those figures that have a goal above zero."""
    drawn = [figure for figure in figures if figure.aim and figure.aim.must]
    width, height = NAMES + PLOT + VALUES, HEAD + ROW * len(drawn) + FOOT
    bottom = height - FOOT
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<text x="{place(1.0):g}" y="14" text-anchor="middle">what it must be</text>',
    ]
    for tick in TICKS:
        kind = "goal" if tick == 1.0 else "line"
        dashes = "" if tick == 1.0 else ' stroke-dasharray="2 4"'
        x = f"{place(tick):.1f}"
        out.append(
            f'<line class="{kind}" x1="{x}" x2="{x}" y1="{HEAD - 12}" y2="{bottom}"{dashes}/>'
        )
        out.append(
            f'<text class="pale" x="{x}" y="{bottom + 16}" text-anchor="middle">{tick:g}x</text>'
        )
    for row, figure in enumerate(drawn):
        out += _row(figure, HEAD + ROW * row + ROW / 2)
    out.append("</svg>")
    return "\n".join(out) + "\n"


def _row(figure: Figure, y: float) -> list[str]:
    goal = figure.aim
    assert goal is not None
    shares = sorted(goal.share(value) for value in figure.values)
    kind = "missed" if figure.verdict == "missed" else "met"
    low, high = place(shares[0]), place(shares[-1])
    out = [
        f'<text x="{NAMES - 14}" y="{y + 4:g}" text-anchor="end">{escape(figure.name)}</text>',
        f'<line class="{kind}" x1="{low:.1f}" x2="{high:.1f}" y1="{y:g}" y2="{y:g}" '
        'stroke-width="5" stroke-opacity="0.45" stroke-linecap="round"/>',
        f'<circle class="{kind}" cx="{place(goal.share(figure.median)):.1f}" cy="{y:g}" r="4.5"/>',
        f'<text class="pale" x="{NAMES + PLOT + 12}" y="{y + 4:g}">'
        f"{shown(figure.median)} {escape(goal.unit)} · {escape(str(goal).split(',')[0])}</text>",
    ]
    if goal.stretch:
        x = f"{place(goal.share(goal.stretch)):.1f}"
        out.append(
            f'<line class="goal" x1="{x}" x2="{x}" y1="{y - 6:g}" y2="{y + 6:g}" stroke-width="2"/>'
        )
    return out
