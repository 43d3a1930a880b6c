"""What CONTRIBUTING.md and the Makefile name is there, and pre-commit checks what ``make`` does."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.docs.blocks import blocks
from tests.support.repository import ROOT

MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PAGES = [
    *("CONTRIBUTING.md", "README.md", "SECURITY.md"),
    *("docs/design.md", "docs/intakes.md", "docs/tuning.md"),
]
FOLDERS = ("", "aqueduct_core/", "aqueduct_spark/", "aqueduct_jobs/", "docs/")
"""Where a path in a page begins."""


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_make_help_has_a_line_for_each_target() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(maxsplit=2) for line in shown.stdout.splitlines()]
    assert {target for _, target, _ in lines} == targets()


def test_every_target_that_a_page_names_is_there() -> None:
    for page in PAGES:
        for target in re.findall(r"`make ([a-z-]+)", (ROOT / page).read_text("utf-8")):
            assert target in targets(), f"{page} names make {target}"


def test_pre_commit_runs_what_make_check_runs() -> None:
    recipe = MAKEFILE.split("\ncheck: setup\n", 1)[1].split("\n\n", 1)[0]
    commands = re.findall(r"^\t@\$\(BIN\)/(.*)$", recipe, re.MULTILINE)
    assert len(commands) == recipe.count("\n") + 1
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    assert re.findall(r"entry: \.venv/bin/(.*)", hooks) == commands


def test_commands_of_contributing_name_files_that_are_there() -> None:
    named = {
        path
        for block in blocks("CONTRIBUTING.md")
        for path in re.findall(r"[\w./]*tests/[\w/]+(?:\.py)?", block.text)
    }
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    quoted = re.findall(r"`([\w./-]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    named = [
        each
        for each in quoted
        if ("/" in each and each.endswith(".py"))
        or each.endswith((".md", ".svg"))
        or each.startswith((*FOLDERS[1:], "tests/", "jobs/"))
    ]
    linked = re.findall(r"\]\(([\w./-]+)", text)
    for path in [*named, *linked]:
        assert any(
            (ROOT / folder / path).exists() for folder in (*FOLDERS, f"{page.rpartition('/')[0]}/")
        ), f"{page} names {path}"
