"""Every test can fail: an assertion stands in it, or in what it names of its own file. And none
sleeps where time is virtual."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.support.repository import ROOT

FAILING = {"pytest.fail", "pytest.raises", "pytest.warns", "assert_df_equality"}


def asserts(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Assert)
        or (isinstance(each, ast.Call) and ast.unparse(each.func) in FAILING)
        or (isinstance(each, ast.Raise) and "AssertionError" in ast.unparse(each))
        for each in ast.walk(node)
    )


def names(node: ast.AST) -> Iterator[str]:
    """What a function mentions, its fixtures too."""
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name


def idle_tests(text: str) -> Iterator[str]:
    """Those from which no way along the names of the file leads to an assertion."""
    defined: dict[str, list[ast.AST]] = defaultdict(list)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined[node.name].append(node)
    able = {name for name, nodes in defined.items() if any(map(asserts, nodes))}
    while more := {
        name
        for name, nodes in defined.items()
        if name not in able and any(not able.isdisjoint(names(node)) for node in nodes)
    }:
        able |= more
    yield from (name for name in defined if name.startswith("test_") and name not in able)


def test_every_test_can_fail() -> None:
    idle = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in idle_tests(path.read_text("utf-8"))
    ]
    assert not idle, "Say what holds where a reader of the test sees it."


def test_a_test_without_an_assertion_is_found() -> None:
    text = """
def check(x): assert x
def through(x): check(x)
def test_direct(): assert 1
def test_through_others(): through(1)
def test_nothing(): print(1)
"""
    assert list(idle_tests(text)) == ["test_nothing"]


def test_who_runs_in_virtual_time_says_what_it_waits_for() -> None:
    """`let_happen` fails where the time would be real, and depend on the machine."""
    sleeps = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if re.search(r"import .*\b(in_loop|run_virtually)\b", text := path.read_text("utf-8"))
        for found in re.finditer(r"asyncio\.sleep\((?!0\)).*", text)
    ]
    assert not sleeps, "await let_happen(), or eventually() with a condition."
