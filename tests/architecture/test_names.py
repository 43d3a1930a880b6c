"""One word, one meaning: public names stand for one thing each, are used, and are the field's."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from tests.architecture.exceptions import unexcused
from tests.architecture.names import definitions, identifiers, is_public, types, uses
from tests.support.repository import ROOT
from tests.support.source_tree import SourceTree, product

PUBLIC = (
    "aqueduct",
    "aqueduct.testing",
    "aqueduct_spark",
    "aqueduct_core.aqueduct.conventions.dedupe",
)
"""The packages that programs import: what they export needs no use in the product, but a test."""
FAKES = "aqueduct_core.transport.in_memory"
"""The fake ships beside the port, for tests of programs too."""
COUNTED = ("Counts", "Counters", "Statistics", "Totals")
"""How classes end that are read as a whole, by who looks."""

RETIRED = {
    "aboard",
    "bereaved",
    "bulletin",
    "bulletins",
    "cargo",
    "chronicle",
    "crew",
    "doubt",
    "fact",
    "facts",
    "farewell",
    "fleet",
    "forsaken",
    "fronts",
    "fulfilled",
    "ghost",
    "giveback",
    "heir",
    "heirs",
    "inflow",
    "inlet",
    "inlets",
    "knock",
    "knocks",
    "lane",
    "lanes",
    "muster",
    "news",
    "occurrence",
    "outflow",
    "outlet",
    "outlets",
    "parties",
    "party",
    "patience",
    "portion",
    "portions",
    "roster",
    "rosters",
    "surroundings",
    "traveller",
    "wish",
    "wishes",
    "wiring",
}
"""Words of our own for what has a name in the field; as parts of identifiers."""
RETIRED_METHODS = {"asked", "tell", "tells", "told"}
"""As whole names of public functions and methods they do not say what happens."""


def test_no_public_class_has_the_name_of_another() -> None:
    places = defaultdict(list)
    for module in product().modules.values():
        for name in filter(is_public, types(module)):
            places[name].append(module.name)
    twice = {name: ", ".join(where) for name, where in places.items() if len(where) > 1}
    assert not unexcused("twice", twice, "Rename one of each.")


def test_no_public_name_is_unused() -> None:
    tree = product()
    shims = [ast.parse(path.read_text("utf-8")) for path in ROOT.glob("pyspark_*.py")]
    used = uses([*(module.tree for module in tree.modules.values()), *shims])
    used.update(
        alias.name for shim in shims for node in ast.walk(shim) for alias in _imported(node)
    )
    tests = uses(module.tree for module in SourceTree(ROOT, ("tests",)).modules.values())
    exported = {name for package in PUBLIC for name in _exports(tree, package)}
    unused = {}
    for each in definitions(tree):
        public = (
            (each.owner or each.name) in exported
            or each.owner.endswith(COUNTED)
            or each.module.name.startswith(FAKES)
        )
        if not used[each.name] and not (public and tests[each.name]):
            where = "in tests only" if tests[each.name] else "nowhere"
            unused[str(each)] = f"used {where} ({each.module.name})"
    assert not unexcused("unused", unused, "Delete it, or make it private.")


def _imported(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.ImportFrom) else []


def _exports(tree: SourceTree, package: str) -> list[str]:
    for node in tree.modules[package].tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            exported: list[str] = ast.literal_eval(node.value)
            return exported
    raise AssertionError(f"{package} has no __all__")


def test_words_that_we_gave_up_do_not_come_back() -> None:
    found = {}
    for module in product().modules.values():
        for name in {*identifiers(module.tree), module.name.rpartition(".")[2]}:
            words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
            for word in words & RETIRED:
                found[word] = f"{name} in {module.name}, and perhaps elsewhere"
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef) and node.name in RETIRED_METHODS:
                found[node.name] = f"a method in {module.name}, and perhaps elsewhere"
    assert not unexcused("words", found, "Use the field's word.")
