"""``import aqueduct``: what it brings, and what it does not."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import aqueduct.quicr
from tests.support.repository import ROOT
from tests.support.waiting import environment

HEAVY = {"pyspark", "aqueduct_spark", "pyarrow", "pandas", "aioquic", "rich", "pytest"}


def test_it_is_light() -> None:
    code = "import aqueduct, sys; print(*sorted(name.partition('.')[0] for name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "aqueduct_core" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize(
    ("module", "file"), [(aqueduct, "__init__.py"), (aqueduct.quicr, "quicr.py")]
)
def test_all_that_is_imported_is_exported(module: ModuleType, file: str) -> None:
    tree = ast.parse((ROOT / "aqueduct" / file).read_text("utf-8"))
    imported = {
        alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert sorted(imported) == module.__all__


NAMES = [(module, name) for module in (aqueduct, aqueduct.quicr) for name in module.__all__]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_each_name_says_what_it_is_for(module: ModuleType, name: str) -> None:
    """In words of its own: that of a dataclass would be its signature."""
    found = getattr(module, name)
    text = vars(found).get("__doc__") if inspect.isclass(found) else found.__doc__
    first = (text or "").strip().split("\n\n")[0]
    assert first.endswith((".", ":"))
    assert not first.startswith(f"{name}(")
    assert len(first.split()) >= 4
