"""Imports go in one direction, engines are pure, and the core knows no Spark."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator

import pytest

from tests.architecture.exceptions import unexcused
from tests.support.repository import ROOT
from tests.support.source_tree import PRODUCT, Module, circles, product, reached

# What each package of the core may import of the core. A name stands for itself and all below it.
ALLOWED: dict[str, set[str]] = {
    "escape": set(),
    "errors": {"escape"},
    "logs": {"escape"},
    "primitives": {"errors"},
    "engine": {"errors", "primitives"},
    "aqueduct": {"errors", "primitives", "engine"},
    "quicr": {"errors", "primitives", "engine"},
    "telehash": {"errors", "primitives", "engine"},
    "transport": {"escape", "errors", "logs", "primitives", "engine"},
    "aio": {
        "escape",
        "errors",
        "logs",
        "primitives",
        "engine",
        "aqueduct",
        "quicr",
        "telehash",
        "transport",
    },
    "spool": {"errors", "primitives"},
    "flight": {"errors", "primitives", "spool"},
    "monitoring": {"errors", "primitives", "flight"},
    "intake": {
        "monitoring",
        "escape",
        "errors",
        "logs",
        "primitives",
        "engine",
        "aqueduct",
        "quicr",
        "telehash",
        "transport",
        "aio",
        "spool",
        "flight",
    },
    "cli": {
        "monitoring",
        "escape",
        "errors",
        "logs",
        "primitives",
        "engine",
        "aqueduct",
        "quicr",
        "telehash",
        "transport",
        "aio",
        "spool",
        "flight",
        "intake",
    },
}
MODULES = {"errors", "escape"}
"""Those that are a file and no folder."""
ENGINES = ("engine", "aqueduct", "quicr", "telehash")
PURE = {
    "__future__",
    "abc",
    "bisect",
    "collections",
    "contextlib",
    "dataclasses",
    "enum",
    "heapq",
    "itertools",
    "json",
    "logging",
    "math",
    "msgspec",
    "numpy",
    "re",
    "typing",
    "zlib",
}
"""What an engine may import from outside: nothing there knows a time, or anybody else."""
IMPURE = {
    "asyncio",
    "socket",
    "selectors",
    "time",
    "threading",
    "random",
    "aioquic",
    "qh3",
    "pyspark",
    "pyarrow",
}


def imports(module: Module) -> Iterator[str]:
    """Absolute names of all that ``module`` imports, wherever in the file."""
    for name, part in module.imports:
        yield name
        if part:
            yield f"{name}.{part}"


def files(package: str) -> list[Module]:
    """All modules of a package, or a module of that name."""
    found = [
        each
        for each in product().modules.values()
        if each.name == package or each.name.startswith(f"{package}.")
    ]
    assert found, f"no files in {package}"
    return found


def test_every_package_of_the_core_is_named_here() -> None:
    names = {p.parent.name for p in (ROOT / "aqueduct_core").glob("*/__init__.py")} | MODULES
    assert names == set(ALLOWED)


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_core_imports_go_in_one_direction(package: str) -> None:
    allowed = ALLOWED[package] | {package}
    for module in files(f"aqueduct_core.{package}"):
        for name in imports(module):
            parts = name.split(".")
            if parts[0] == "aqueduct_core" and len(parts) > 1:
                assert parts[1] in allowed, f"{module.name} imports {name}"


def test_nothing_of_ours_stands_on_what_programs_import() -> None:
    """`aqueduct` is for programs, and another distribution may have the name: what Spark loads, an
    intake and the command line work without it. A job is a program."""
    for package in ("aqueduct_core", "aqueduct_spark"):
        for module in files(package):
            for name in imports(module):
                assert name.split(".")[0] != "aqueduct", f"{module.name} imports {name}"


def test_nothing_stands_on_what_is_for_tests() -> None:
    for module in product().modules.values():
        if not module.name.startswith("aqueduct.testing"):
            for name in imports(module):
                assert not name.startswith("aqueduct.testing"), f"{module.name} imports {name}"


def test_engines_are_pure() -> None:
    """Nor is anything that they import: what is allowed is named, as there are many clocks."""
    tree = product()
    for package in ENGINES:
        for module in files(f"aqueduct_core.{package}"):
            for name in {module.name} | reached(tree.imports, module.name):
                for outside in imports(tree.modules[name]):
                    top = outside.split(".")[0]
                    assert top in PURE | {"aqueduct_core"}, f"{name} imports {outside}"


def test_media_know_no_bytes_of_a_version() -> None:
    """The successor of QUICR has groups and objects, too."""
    own = ("aqueduct_core.quicr.media", "aqueduct_core.quicr.faults")
    for module in files("aqueduct_core.quicr.media"):
        for name in imports(module):
            assert not f"{name}.".startswith("aqueduct_core.quicr.") or name.startswith(own), (
                f"{module.name} imports {name}"
            )


def test_primitives_have_no_clock_and_no_loop() -> None:
    for module in files("aqueduct_core.primitives"):
        for name in imports(module):
            assert name.split(".")[0] not in IMPURE, f"{module.name} imports {name}"


def test_the_core_knows_no_spark() -> None:
    for module in files("aqueduct_core"):
        for name in imports(module):
            assert name.split(".")[0] not in {"pyspark", "aqueduct_spark", "aqueduct_jobs"}, (
                f"{module.name} imports {name}"
            )


def test_jobs_use_the_connector_only_through_spark() -> None:
    for module in files("aqueduct_jobs"):
        for name in imports(module):
            assert name.split(".")[0] != "aqueduct_spark", f"{module.name} imports {name}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports of types only and those inside functions count: a circle is one subject, or two
    that want a third below them."""
    tree = product()
    found = {_shown(circle): "import each other" for circle in circles(tree.imports)}
    assert not unexcused("module_circles", found, "Move what both need below them.")


def test_no_import_runs_back_up_between_packages() -> None:
    tree = product()
    rooms = tree.room_imports()
    found = {}
    for circle in circles(rooms):
        between = sorted(
            f"{name} imports {target}"
            for name, targets in tree.imports.items()
            for target in targets
            if tree.modules[name].room in circle
            and tree.modules[target].room in circle & rooms[tree.modules[name].room]
        )
        found[_shown(circle)] = "; ".join(between)
    assert not unexcused("package_circles", found, "Packages stand above or below each other.")


def _shown(circle: set[str]) -> str:
    return " ".join(sorted(circle))


def test_the_format_modules_are_light() -> None:
    """Spark imports every ``pyspark_*`` module in every session that looks up a format."""
    for path in ROOT.glob("pyspark_*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                top = (module or "").split(".")[0]
                assert top in {"__future__", "pyspark", "collections", "typing", "warnings"}, (
                    f"{path}: {module}"
                )


def test_an_intake_knows_no_protocol() -> None:
    """But in the rooms that are named after one, which are found by name."""
    protocols = {"aqueduct", "quicr", "telehash"}
    rooms = {f"aqueduct_core.intake.{each}" for each in protocols}
    banned = (*rooms, *(f"aqueduct_core.{each}" for each in protocols), "aqueduct_core.aio")
    for module in files("aqueduct_core.intake"):
        room = ".".join(module.name.split(".")[:3])
        if room in rooms:
            continue
        for name in imports(module):
            assert not f"{name}.".startswith(tuple(f"{each}." for each in banned)), (
                f"{module.name} imports {name}"
            )


def test_what_is_imported_is_declared() -> None:
    """A plain installation has nothing else; the picture of the demo says what it lacks."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = [re.split(r"[<>=~!\[; ]", each, maxsplit=1)[0] for each in project["dependencies"]]
    declared = {name.replace("-", "_") for name in names}
    extra = {
        "aqueduct_jobs.demo.picture": {"matplotlib"},
        "aqueduct.testing.fixtures": {"pytest"},
        "aqueduct_core.spool.objects.obstore_store": {"obstore"},
    }
    own = {*PRODUCT, "pyspark_aqueduct", "py4j"}  # the last comes with PySpark, in its version
    for module in product().modules.values():
        for name, _ in module.imports:
            top = name.partition(".")[0]
            known = top in sys.stdlib_module_names or top in declared | own
            assert known or top in extra.get(module.name, ()), f"{module.name} imports {name}"
