"""Imports go in one direction, engines are pure, and the core knows no Spark."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repository import ROOT

# What each package of the core may import of the core. A name stands for itself and all below it.
ALLOWED: dict[str, set[str]] = {
    "escape": set(),
    "errors": {"escape"},
    "logs": {"escape"},
    "primitives": {"errors"},
    "engine": {"errors", "primitives"},
    "aqueduct": {"errors", "primitives", "engine"},
    "transport": {"escape", "errors", "logs", "primitives", "engine"},
    "aio": {"escape", "errors", "logs", "primitives", "engine", "aqueduct", "transport"},
    "spool": {"errors", "primitives"},
    "flight": {"errors", "primitives", "spool"},
    "intake": {
        "escape",
        "errors",
        "logs",
        "primitives",
        "engine",
        "aqueduct",
        "transport",
        "aio",
        "spool",
        "flight",
    },
    "cli": {
        "escape",
        "errors",
        "logs",
        "primitives",
        "engine",
        "aqueduct",
        "transport",
        "aio",
        "spool",
        "flight",
        "intake",
    },
}
MODULES = {"errors", "escape"}
"""Those that are a file and no folder."""
ENGINES = ("primitives", "engine", "aqueduct")
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


def imports(path: Path) -> Iterator[str]:
    """Absolute names of all modules that ``path`` imports, wherever in the file."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *(node.module.split(".") if node.module else ())))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def files(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, f"no files in {folder}"
    return found


def test_every_package_of_the_core_is_named_here() -> None:
    names = {p.parent.name for p in (ROOT / "aqueduct_core").glob("*/__init__.py")} | MODULES
    assert names == set(ALLOWED)


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_core_imports_go_in_one_direction(package: str) -> None:
    allowed = ALLOWED[package] | {package}
    alone = [ROOT / "aqueduct_core" / f"{package}.py"]
    for path in alone if package in MODULES else files(f"aqueduct_core/{package}"):
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "aqueduct_core" and len(parts) > 1:
                assert parts[1] in allowed, f"{path.relative_to(ROOT)} imports {name}"


def test_engines_are_pure() -> None:
    for package in ENGINES:
        for path in files(f"aqueduct_core/{package}"):
            for name in imports(path):
                assert name.split(".")[0] not in IMPURE, f"{path.relative_to(ROOT)} imports {name}"


def test_the_core_knows_no_spark() -> None:
    for path in files("aqueduct_core"):
        for name in imports(path):
            assert name.split(".")[0] not in {"pyspark", "aqueduct_spark"}, f"{path}: {name}"


def test_jobs_use_the_connector_only_through_spark() -> None:
    for path in files("jobs"):
        for name in imports(path):
            assert name.split(".")[0] != "aqueduct_spark", f"{path}: {name}"


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


def test_files_have_one_responsibility() -> None:
    """A file that wants to be 600 lines wants a new idea; 450 is where we look."""
    for folder in ("aqueduct_core", "aqueduct_spark", "jobs"):
        for path in files(folder):
            lines = path.read_text("utf-8").count("\n")
            assert lines <= 450, f"{path.relative_to(ROOT)} has {lines} lines"


def test_nothing_names_a_machine() -> None:
    tops = ("work", "farm", "home", "root")
    for folder in ("aqueduct_core", "aqueduct_spark", "jobs", "tests", "conf", "docs", ".ci"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".toml", ".md", ".conf", ".properties", ".txt", ""} and (
                path.is_file()
            ):
                text = path.read_text("utf-8", errors="replace")
                for top in tops:
                    assert f"/{top}/" not in text, f"{path.relative_to(ROOT)} names /{top}/"
