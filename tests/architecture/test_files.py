"""A file is one thing that a reader looks up, and its tests are found by its name."""

from __future__ import annotations

import subprocess

import pytest

from tests.architecture.exceptions import EXCEPTIONS, unexcused
from tests.support.repository import ROOT
from tests.support.source_tree import Module, product

MOST_LINES = 450
FEWEST_LINES = 60
"""Smaller ones join their subject, or say in the exceptions what they are looked up for."""
WORTH_A_TEST_FILE = 40
"""Lines of code."""
MIRRORS = {
    "aqueduct": "library",
    "aqueduct_core": "core",
    "aqueduct_spark": "spark",
    "aqueduct_jobs": "jobs",
}


TOP_LEVEL = {
    *("aqueduct", "aqueduct_core", "aqueduct_spark", "aqueduct_jobs"),
    *("jobs", "conf", "tests", "docs", ".ci"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
    *("Makefile", "MANIFEST.in", "pyproject.toml"),
    *("pyspark_aqueduct.py", "pyspark_quicr.py", "pyspark_telehash.py"),
    *(".gitignore", ".pre-commit-config.yaml"),
}


def files() -> list[Module]:
    """All but packages' own, and what ``python -m`` runs."""
    return [each for each in product().modules.values() if not each.path.name.startswith("__")]


@pytest.mark.parametrize("folder", ["product", "tests"])
def test_no_file_is_longer_than_a_reader_likes(folder: str) -> None:
    """A file that wants to be 600 lines wants a new idea; 450 is where we look."""
    if folder == "product":
        lines = {each.path: each.lines for each in product().modules.values()}
    else:
        paths = (ROOT / "tests").rglob("*.py")
        lines = {path: path.read_text("utf-8").count("\n") for path in paths}
    assert not unexcused(
        "long",
        {
            path.relative_to(ROOT).as_posix(): f"{count} lines"
            for path, count in lines.items()
            if count > MOST_LINES
        },
        f"Cut it where the subject changes: {MOST_LINES} lines at most.",
    )


def test_small_files_have_a_reason() -> None:
    small = {each.name: f"{each.lines} lines" for each in files() if each.lines < FEWEST_LINES}
    assert not unexcused("small", small, f"Below {FEWEST_LINES} lines a file joins its subject.")


def test_a_modules_tests_are_found_by_its_name() -> None:
    missing = {}
    for each in files():
        top, *between, name = each.name.split(".")
        folder = ROOT.joinpath("tests", MIRRORS[top], *between)
        found = [*folder.glob(f"test_{name}.py"), *folder.glob(f"test_{name}_*.py")]
        if each.code_lines > WORTH_A_TEST_FILE and not found:
            missing[each.name] = f"no {folder.relative_to(ROOT)}/test_{name}.py, or test_{name}_*"
    assert not unexcused("tests", missing, "Name the file with its tests as the module.")
    for where in EXCEPTIONS["tests"].values():
        assert (ROOT / where).exists(), f"exceptions [tests] name {where}"


def test_every_file_says_what_it_is() -> None:
    silent = {
        each.name: "has no docstring"
        for each in product().modules.values()
        if not each.text.startswith('"""')
    }
    assert not unexcused(
        "silent", silent, "Say what the file or package is for, and what it may not do."
    )


def test_nothing_names_a_machine() -> None:
    tops = ("work", "farm", "home", "root")
    for folder in sorted(each for each in TOP_LEVEL if (ROOT / each).is_dir()):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".toml", ".md", ".conf", ".properties", ".txt", ""} and (
                path.is_file()
            ):
                text = path.read_text("utf-8", errors="replace")
                for top in tops:
                    assert f"/{top}/" not in text, f"{path.relative_to(ROOT)} names /{top}/"


def test_nothing_else_lies_at_the_top() -> None:
    """What a run leaves in its folder, such as the keys of a spool, is not committed by mistake."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout: nothing is tracked")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    assert {path.split("/")[0] for path in tracked if path} == TOP_LEVEL
    keys = [path for path in tracked if path.endswith("/.keys")]
    assert all(path.startswith("tests/formats/") for path in keys)  # of spools that are kept
