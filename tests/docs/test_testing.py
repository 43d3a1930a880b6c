"""The tests that docs/testing.md shows pass."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import scene, spark  # noqa: F401  the session of these tests, too
from tests.spark.scene import Scene
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")


def shown() -> dict[str, Any]:
    """All that the page defines, from its first block to its last."""
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(code, "docs/testing.md", "exec"), names)
    return names


NAMES = shown()
TESTS = {name: test for name, test in NAMES.items() if name.startswith("test_")}


def needs_spark(test: Any) -> bool:
    return "spark" in inspect.signature(test).parameters


@pytest.mark.parametrize("name", [name for name in TESTS if not needs_spark(TESTS[name])])
def test_of_a_program(name: str) -> None:
    assert TESTS[name]() is None


@pytest.mark.spark
@pytest.mark.parametrize("name", [name for name in TESTS if needs_spark(TESTS[name])])
def test_of_a_job(name: str, scene: Scene, tmp_path: Path) -> None:  # noqa: F811
    assert TESTS[name](scene.spark, tmp_path) is None


def test_the_plugin_that_it_names_is_there() -> None:
    assert NAMES["pytest_plugins"] == ["aqueduct.testing.fixtures"]
    for name in re.findall(r"`(aqueduct_[a-z]+)`", PAGE):
        assert f"def {name}(" in (ROOT / "aqueduct/testing/fixtures.py").read_text("utf-8")
