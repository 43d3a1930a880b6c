"""The product's source as syntax trees: its modules, what they import, and circles among them.

For the checks of ``tests/architecture`` and the picture of ``tests.support.layers``. Nothing is
imported or run, so any checkout can be read.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TypeVar

from tests.support.repository import ROOT

PRODUCT = ("aqueduct", "aqueduct_core", "aqueduct_spark", "aqueduct_jobs")
Node = TypeVar("Node", bound=Hashable)


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def code_lines(self) -> int:
        """Lines that are neither empty, comments nor docstrings."""
        spoken = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                spoken.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return sum(
            bool(line.strip()) and not line.strip().startswith("#") and number not in spoken
            for number, line in enumerate(self.text.splitlines(), 1)
        )

    @property
    def room(self) -> str:
        """The package that the file stands in."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @property
    def imports(self) -> Iterator[tuple[str, str]]:
        """(module, name of it or "") of each import, wherever in the file; names are absolute."""
        package = self.room.split(".")
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, "") for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                module = ".".join([*base, *([node.module] if node.module else [])])
                yield from ((module, alias.name) for alias in node.names)


class SourceTree:
    """The modules below ``root`` by name, and who imports whom.

    Imports of types only and those inside functions count as all others do. That importing a
    module runs the ``__init__`` of its package does not count.
    """

    def __init__(self, root: Path, packages: tuple[str, ...] = PRODUCT) -> None:
        self.modules: dict[str, Module] = {}
        for path in sorted(path for each in packages for path in (root / each).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.modules[name] = Module(name, path, path.read_text("utf-8"))
        self.imports = {
            name: {target for target in self._targets(module) if target != name}
            for name, module in self.modules.items()
        }

    def _targets(self, module: Module) -> Iterator[str]:
        for name, part in module.imports:
            for target in (f"{name}.{part}", name):
                if target in self.modules:
                    yield target
                    break

    def room_imports(self) -> dict[str, set[str]]:
        """Packages, and which others their files import.

        A package and those inside it are one subject: a port may lie above what implements it, and
        what chooses among these beside the port. Between them modules have no circle, no more.
        """
        rooms: dict[str, set[str]] = {module.room: set() for module in self.modules.values()}
        for name, targets in self.imports.items():
            room = self.modules[name].room
            for other in {self.modules[target].room for target in targets}:
                if not f"{room}.".startswith(f"{other}.") and not other.startswith(f"{room}."):
                    rooms[room].add(other)
        return rooms


@cache
def product() -> SourceTree:
    """This checkout's, read once."""
    return SourceTree(ROOT)


def circles(graph: Mapping[Node, set[Node]]) -> list[set[Node]]:
    """The greatest sets of nodes of which each reaches each other one."""
    below = {node: reached(graph, node) for node in graph}
    found: list[set[Node]] = []
    for node in graph:
        circle = {other for other in below[node] if node in below[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


def reached(graph: Mapping[Node, set[Node]], start: Node) -> set[Node]:
    """What ``start`` needs, itself too only if it is in a circle."""
    seen: set[Node] = set()
    waiting = list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += graph[node]
    return seen


def floors(graph: Mapping[Node, set[Node]]) -> dict[Node, int]:
    """How high each node stands: 0 imports nothing, others are above all that they import.

    What is in one circle stands on one floor.
    """
    circle_of = {node: frozenset(circle) for circle in circles(graph) for node in circle}
    heights: dict[frozenset[Node], int] = {}

    def height(group: frozenset[Node]) -> int:
        if group not in heights:
            below = {target for node in group for target in graph[node]} - group
            heights[group] = 1 + max(
                (height(circle_of.get(target, frozenset({target}))) for target in below),
                default=-1,
            )
        return heights[group]

    return {node: height(circle_of.get(node, frozenset({node}))) for node in graph}
