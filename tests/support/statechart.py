"""A picture of a state machine from its table.

Columns are distances from the first state; a state that ends the machine is drawn double. What
the table refuses is listed under the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tests.support.drawing import FAULT, PALE, Drawing

Table = Mapping[Enum, Mapping[Enum, Enum | None]]

COLUMN, ROW, LEFT, TOP = 330, 310, 130, 160
BOX = (150, 46)
LINE = 17
BELOW = {True: 130, False: 260}
"""Room under the last row: for what is refused there, or for an arrow around the middle."""


def draw(table: Table, start: Enum, title: str, refused: str) -> str:
    """``refused`` says what happens to inputs that the table refuses."""
    places, width, height = _places(table, start)
    drawing = Drawing(width, height, title)
    drawing.text(width / 2, 30, title, size=17, bold=True)
    drawing.arrow(f"M{LEFT - 120} {places[start][1]} L{LEFT - BOX[0] / 2 - 3:g} {places[start][1]}")
    for source, target, labels in _edges(table):
        _edge(drawing, places, source, target, labels)
    for state, (x, y) in places.items():
        final = state not in table
        drawing.box(x, y, *BOX, double=final)
        drawing.text(x, y + 5, state.name, size=15, bold=True)
        names = [given.name for given, after in table.get(state, {}).items() if after is None]
        for i, name in enumerate(names):
            drawing.text(x, y + 44 + LINE * i, name, size=12, colour=FAULT)
        if names:
            drawing.text(x, y + 44 + LINE * len(names), refused, size=11, colour=PALE)
    return drawing.svg()


def _places(table: Table, start: Enum) -> tuple[dict[Enum, tuple[float, float]], int, int]:
    columns: list[list[Enum]] = [[start]]
    seen = {start}
    while columns[-1]:
        reached: dict[Enum, None] = {}
        for state in columns[-1]:
            for after in table.get(state, {}).values():
                if after is not None and after not in seen and after in table:
                    reached[after] = None
        seen.update(reached)
        columns.append(list(reached))
    columns.pop()
    ends = {
        after: None
        for row in table.values()
        for after in row.values()
        if after is not None and after not in table
    }
    columns.append(list(ends))
    rows = max(map(len, columns))
    middle = TOP + (rows - 1) * ROW / 2
    places = {
        state: (
            LEFT + COLUMN * x + 0.0,
            middle + (y - (len(column) - 1) / 2) * ROW,
        )
        for x, column in enumerate(columns)
        for y, state in enumerate(column)
    }
    return (
        places,
        LEFT * 2 + COLUMN * (len(columns) - 1),
        int(TOP + (rows - 1) * ROW + BELOW[rows > 1]),
    )


def _edges(table: Table) -> list[tuple[Enum, Enum, list[str]]]:
    found: dict[tuple[Enum, Enum], list[str]] = {}
    for source, row in table.items():
        for given, after in row.items():
            if after is not None:
                found.setdefault((source, after), []).append(given.name)
    return [(source, target, labels) for (source, target), labels in found.items()]


def _edge(
    drawing: Drawing,
    places: dict[Enum, tuple[float, float]],
    source: Enum,
    target: Enum,
    labels: list[str],
) -> None:
    (x1, y1), (x2, y2) = places[source], places[target]
    half_width, half_height = BOX[0] / 2, BOX[1] / 2
    if source is target:
        top = y1 - half_height
        drawing.arrow(
            f"M{x1 - 30:g} {top:g} C{x1 - 50:g} {top - 50:g} {x1 + 50:g} {top - 50:g} "
            f"{x1 + 30:g} {top - 2:g}"
        )
        _labels(drawing, x1, top - 45 - LINE * (len(labels) - 1), labels)
        return
    between = [y for x, y in places.values() if min(x1, x2) < x < max(x1, x2)]
    if any(abs(y - (y1 + y2) / 2) < ROW / 2 for y in between):
        low = max(y1, y2) + 190  # around what is in the way
        drawing.arrow(
            f"M{x1 + half_width - 5:g} {y1 + half_height:g} C{x1 + 150:g} {low:g} "
            f"{x2 - 120:g} {low:g} {x2:g} {y2 + half_height + 2:g}"
        )
        _labels(drawing, (x1 + x2) / 2, low - 22, labels)
        return
    drawing.arrow(f"M{x1 + half_width:g} {y1:g} L{x2 - half_width - 2:g} {y2:g}")
    shift = -6 - LINE * (len(labels) - 1) / 2 + (0 if y1 == y2 else 6)
    if y1 == y2:
        shift = -8 - LINE * (len(labels) - 1)
    _labels(drawing, (x1 + x2) / 2, (y1 + y2) / 2 + shift, labels)


def _labels(drawing: Drawing, x: float, y: float, labels: list[str]) -> None:
    for i, label in enumerate(labels):
        drawing.text(x, y + LINE * i, label, size=12, halo=True)
