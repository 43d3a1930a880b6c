"""docs/errors.md has every error that the code can raise, and nothing that it cannot."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from aqueduct_core.errors import AqueductError
from tests.support.error_examples import EXAMPLES, example
from tests.support.errors_page import PAGE, classes, main, name, words
from tests.support.repository import ROOT

KINDS = {each.__name__: each for each in classes()}
NAMES = [name(kind, subclass) for kind in KINDS.values() for subclass in kind.subclasses]
PACKAGES = ("aqueduct", "aqueduct_core", "aqueduct_jobs", "aqueduct_spark")


def raises(tree: ast.Module) -> Iterator[tuple[int, type[AqueductError], str]]:
    """Line, class and each subclass that a call of a class of errors names by a literal."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        kind = KINDS.get(node.func.id)
        if kind is None or not node.args:
            continue
        first = node.args[0]
        parts = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
        for part in parts:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield node.lineno, kind, part.value


def named() -> list[tuple[Path, int, type[AqueductError], str]]:
    return [
        (path, *found)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for found in raises(ast.parse(path.read_text("utf-8")))
    ]


def test_each_raise_names_a_subclass_that_there_is() -> None:
    every = named()
    assert len(every) > 200
    strange = [
        f"{path.relative_to(ROOT)}:{line} {kind.__name__} {subclass!r}"
        for path, line, kind, subclass in every
        if subclass not in kind.subclasses
    ]
    assert strange == []


def test_each_has_words_on_the_page_and_nothing_else_has() -> None:
    told = words()
    assert {*told} - {"head"} == {*NAMES}
    page = PAGE.read_text("utf-8")
    for each in NAMES:
        assert {*told[each]} == {"meaning", "cause", "remedy"}
        assert f"\n## {each}\n" in page or f"\n### {each}\n" in page


@pytest.mark.parametrize("each", EXAMPLES)
def test_an_example_is_one_line_without_a_place_of_this_machine(each: str, tmp_path: Path) -> None:
    assert each in NAMES
    text = example(each, tmp_path)
    assert text is not None
    assert text.startswith(f"[{each}] ")
    assert "\n" not in text
    assert str(tmp_path.parent) not in text


def test_the_page_is_that_of_the_code() -> None:
    assert main(["--check"]) == 0
