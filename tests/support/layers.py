"""``docs/layers.svg``, drawn from the imports: ``python -m tests.support.layers [--check] [ROOT]``.

Packages stand on floors: each above all that it imports; an arrow is an import that does not
follow from others. With a ROOT, another checkout, or with ``--check`` nothing is written.
``--check`` exits with 1 when the picture shows other packages or imports than there are; its
figures may be older. The figures of the day are printed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tests.support.drawing import PALE, Drawing
from tests.support.repository import ROOT
from tests.support.source_tree import Module, SourceTree, circles, floors, reached

PICTURE = ROOT / "docs" / "layers.svg"
TITLE = "Packages and what they import"

TINTS = {
    "aqueduct": "#f3ecf9",
    "aqueduct_core": "#eaf2fb",
    "aqueduct_spark": "#fdf3e4",
    "aqueduct_jobs": "#ecf7ec",
}
LOOSE = {"aqueduct": "library", "aqueduct_core": "errors, escape", "aqueduct_spark": "datasource"}
"""What the modules are called that stand in no package below."""

PORTS = "formats"
"""A port that much stands on, and what implements it on top of that: they have places apart."""

WIDTH, LINE, HEAD = 128, 15, 42
BETWEEN, ABOVE, MARGIN = 26, 58, 24
PASSING = 14
"""The width of an arrow that passes a floor."""


@dataclass
class Place:
    """A package in the picture, or (without modules) where an arrow passes a floor."""

    floor: int
    modules: list[Module] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0

    @property
    def parts(self) -> dict[str, list[Module]]:
        """The packages in it."""
        found: dict[str, list[Module]] = {}
        for module in self.modules:
            inside = module.room.split(".")[1 if module.room.startswith("aqueduct_jobs") else 2 :]
            inside = inside[1:] if PORTS in module.room else inside
            if inside:
                found.setdefault(inside[0], []).append(module)
        return dict(sorted(found.items()))

    @property
    def width(self) -> float:
        return WIDTH if self.modules else PASSING

    @property
    def height(self) -> float:
        return HEAD + LINE * len(self.parts) + (4 if self.parts else 0)


def house(module: Module) -> str:
    """The package of the picture that a module belongs to."""
    top, *inside = module.room.split(".")
    if inside[:1] == [PORTS] and inside[1:]:
        return f"{PORTS}.{inside[1]}"
    return inside[0] if inside and top != "aqueduct_jobs" else LOOSE.get(top, top)


def houses(tree: SourceTree) -> tuple[dict[str, list[Module]], dict[str, set[str]]]:
    """The modules of each package of the picture, and what it imports."""
    names = {name: house(module) for name, module in tree.modules.items()}
    members: dict[str, list[Module]] = {}
    for name, module in tree.modules.items():
        members.setdefault(names[name], []).append(module)
    imports: dict[str, set[str]] = {name: set() for name in members}
    for name, targets in tree.imports.items():
        imports[names[name]] |= {names[target] for target in targets} - {names[name]}
    return members, imports


def essential(graph: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """The imports that do not follow from others; all of those between two of one circle."""
    below = {name: reached(graph, name) for name in graph}
    return sorted(
        (name, target)
        for name, targets in graph.items()
        for target in targets
        if not any(
            target in below[other] and not below[other] & {name, other}
            for other in targets - {target}
        )
    )


class Picture:
    """Packages and arrows, laid out: a floor's order is that of its neighbours, as near to them
    as there is room."""

    def __init__(self, tree: SourceTree) -> None:
        members, imports = houses(tree)
        heights = floors(imports)
        self.places = {name: Place(heights[name], members[name]) for name in sorted(members)}
        self.arrows: list[list[str]] = []
        for name, target in essential(imports):
            route = [name]
            for floor in range(heights[name] - 1, heights[target], -1):
                route.append(f"{name} > {target} {floor}")
                self.places[route[-1]] = Place(floor)
            self.arrows.append([*route, target])
        self._rows = [
            [name for name in self.places if self.places[name].floor == floor]
            for floor in range(max(heights.values()) + 1)
        ]
        self._neighbours: dict[str, list[str]] = {name: [] for name in self.places}
        for route in self.arrows:
            for upper, lower in pairwise(route):
                self._neighbours[upper].append(lower)
                self._neighbours[lower].append(upper)
        self._arrange()

    def _arrange(self) -> None:
        for row in self._rows:
            self._spread(row)
        for turn in range(40):
            for row in self._rows if turn % 2 else reversed(self._rows):
                for name in row:
                    near = [self.places[each].x for each in self._neighbours[name]]
                    if near:
                        self.places[name].x = sum(near) / len(near)
                row.sort(key=lambda name: self.places[name].x)
                self._spread(row)
        left = min(place.x - place.width / 2 for place in self.places.values())
        y = float(MARGIN)
        for row in reversed(self._rows):
            tall = max(self.places[name].height for name in row)
            for name in row:
                self.places[name].x += MARGIN - left
                self.places[name].y = y + tall / 2
            y += tall + ABOVE
        self.height = round(y - ABOVE + MARGIN)
        self.width = round(max(p.x + p.width / 2 for p in self.places.values()) + MARGIN)

    def _spread(self, row: list[str]) -> None:
        """Move what overlaps apart, each group about its middle."""
        groups: list[tuple[list[str], float]] = []
        for name in row:
            groups.append(([name], self.places[name].x))
            while len(groups) > 1 and self._overlap(groups[-2], groups[-1]):
                (left, x), (right, y) = groups[-2:]
                count = len(left) + len(right)
                groups[-2:] = [(left + right, (x * len(left) + y * len(right)) / count)]
        for names, middle in groups:
            x = middle - self._length(names) / 2
            for name in names:
                place = self.places[name]
                place.x = x + place.width / 2
                x += place.width + BETWEEN

    def _length(self, names: list[str]) -> float:
        return sum(self.places[name].width for name in names) + BETWEEN * (len(names) - 1)

    def _overlap(self, left: tuple[list[str], float], right: tuple[list[str], float]) -> bool:
        edges = left[1] + self._length(left[0]) / 2, right[1] - self._length(right[0]) / 2
        return edges[0] + BETWEEN > edges[1]

    def svg(self) -> str:
        drawing = Drawing(self.width, self.height, TITLE)
        for route in self.arrows:
            drawing.arrow(self._path(route), colour=PALE)
        for name, place in self.places.items():
            if place.modules:
                self._draw(drawing, name, place)
        for number, (name, tint) in enumerate(TINTS.items()):
            drawing.box(MARGIN + 10, MARGIN + 10 + 24 * number, 18, 14, fill=tint)
            drawing.text(MARGIN + 26, MARGIN + 15 + 24 * number, name, anchor="start")
        return drawing.svg()

    def _path(self, route: list[str]) -> str:
        """From the foot of the first to the head of the last, beside each other where several
        begin or end at one."""
        start, *passed, end = (self.places[name] for name in route)
        x, y = start.x + self._shift(route, 0), start.y + start.height / 2
        text = f"M{x:g} {y:g}"
        points = [(each.x, each.y) for each in passed]
        for to_x, to_y in [*points, (end.x + self._shift(route, -1), end.y - end.height / 2)]:
            middle = (y + to_y) / 2
            text += f" C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"
            x, y = to_x, to_y
        return text

    def _shift(self, route: list[str], end: int) -> float:
        other = 1 if end == 0 else -2
        beside = [each for each in self.arrows if each[end] == route[end]]
        beside.sort(key=lambda each: self.places[each[other]].x)
        step = min(16.0, (WIDTH - 20) / len(beside))
        return round((beside.index(route) - (len(beside) - 1) / 2) * step, 1)

    def _draw(self, drawing: Drawing, name: str, place: Place) -> None:
        tint = TINTS[place.modules[0].name.partition(".")[0]]
        drawing.box(place.x, place.y, place.width, place.height, fill=tint)
        top = place.y - place.height / 2
        drawing.text(place.x, top + 18, name, bold=True)
        drawing.text(place.x, top + 34, figures(place.modules), size=11, colour=PALE)
        left = place.x - place.width / 2 + 10
        for number, (part, modules) in enumerate(place.parts.items()):
            y = top + HEAD + LINE * (number + 0.7)
            drawing.text(left, y, part, size=11, anchor="start")
            count = f"{lines(modules):,}"
            drawing.text(left + WIDTH - 20, y, count, size=11, colour=PALE, anchor="end")


def lines(modules: Iterable[Module]) -> int:
    return sum(module.lines for module in modules)


def figures(modules: list[Module]) -> str:
    return f"{len(modules)} files · {lines(modules):,} lines"


def without_figures(svg: str) -> str:
    return re.sub(r">[\d,]+( files · [\d,]+ lines)?<", "><", svg)


def table(tree: SourceTree) -> str:
    """Files, lines, floors and circles, for people."""
    rooms = tree.room_imports()
    found = [
        figures(list(tree.modules.values())),
        f"{len(tree.modules)} modules on {max(floors(tree.imports).values()) + 1} floors",
        f"{len(rooms)} packages on {max(floors(rooms).values()) + 1} floors",
        *(f"circle of modules: {' '.join(sorted(circle))}" for circle in circles(tree.imports)),
        *(f"circle of packages: {' '.join(sorted(circle))}" for circle in circles(rooms)),
        "",
        f"{'':16}{'files':>6}{'lines':>8}{'floors':>8}",
    ]
    for name, modules in sorted(houses(tree)[0].items()):
        inside = {each.name for each in modules}
        graph = {each: tree.imports[each] & inside for each in inside}
        height = max(floors(graph).values()) + 1
        found.append(f"{name:16}{len(modules):>6}{lines(modules):>8,}{height:>8}")
    return "\n".join(found)


def main(arguments: list[str]) -> int:
    roots = [each for each in arguments if each != "--check"]
    tree = SourceTree(Path(roots[0]) if roots else ROOT)
    if roots:
        print(table(tree))
        return 0
    svg = Picture(tree).svg()
    if "--check" not in arguments:
        print(table(tree))
        PICTURE.write_text(svg, encoding="utf-8")
    elif not PICTURE.exists() or without_figures(PICTURE.read_text("utf-8")) != without_figures(
        svg
    ):
        print("docs/layers.svg is out of date: run python -m tests.support.layers")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
