"""The walks through the code in docs/design.md: every file is there, and says the names."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "design.md").read_text("utf-8")
WALKS = PAGE.split("\n## Five walks\n", 1)[1].split("\n## ", 1)[0]


def steps() -> Iterator[tuple[str, str, list[str]]]:
    """Walk, file, and the names that its step has."""
    for walk in re.split(r"^### ", WALKS, flags=re.MULTILINE)[1:]:
        title, _, table = walk.partition("\n")
        for path, did, called in re.findall(r"^\| `(.*)` \| (.*) \| (.*) \|$", table, re.MULTILINE):
            yield title, path, re.findall(r"`(\w+)`", f"{did} {called}")


def test_there_are_five() -> None:
    assert len({title for title, _, _ in steps()}) == 5


@pytest.mark.parametrize(("walk", "path", "names"), list(steps()))
def test_a_step_is_where_it_says(walk: str, path: str, names: list[str]) -> None:
    found = [each for each in ("aqueduct_core", "aqueduct_spark") if (ROOT / each / path).exists()]
    assert len(found) == 1, f"{walk}: {path} is in {found}"
    text = (ROOT / found[0] / path).read_text("utf-8")
    missing = [name for name in names if not re.search(rf"\b{name}\b", text)]
    assert not missing, f"{walk}: {path} does not say {missing}"
