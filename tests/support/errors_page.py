"""Makes docs/errors.md: `python -m tests.support.errors_page`. With ``--check`` nothing is written,
and a page that is out of date ends with exit code 1.

Classes, subclasses and codes are those of ``aqueduct_core/errors.py``, the words those of
``docs/errors.toml``, and examples come from the code that raises them.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aqueduct_core import errors
from aqueduct_core.errors import AqueductError
from tests.support.error_examples import example
from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "errors.md"
WORDS = ROOT / "docs" / "errors.toml"


def classes() -> list[type[AqueductError]]:
    """Those of the module, in its order."""
    every = vars(errors).values()
    found = [each for each in every if isinstance(each, type) and issubclass(each, AqueductError)]
    return [each for each in found if each is not AqueductError]


def name(kind: type[AqueductError], subclass: str) -> str:
    return f"{kind.condition}.{subclass}" if subclass else kind.condition


def words() -> dict[str, Any]:
    """Meaning, cause and remedy by name; the head of the page stands before them."""
    return tomllib.loads(WORDS.read_text("utf-8"))


def page() -> str:
    told = words()
    return "\n".join([told["head"], *_lines(told)])


def _lines(told: dict[str, Any]) -> Iterator[str]:
    for kind in classes():
        yield f"## {kind.condition}\n\n{(kind.__doc__ or '').splitlines()[0]}\n"
        for subclass, sqlstate in kind.subclasses.items():
            each = name(kind, subclass)
            if subclass:
                yield f"### {each}\n"
            yield f"{told[each]['meaning']} SQLSTATE {sqlstate}.\n"
            yield f"* Mostly: {told[each]['cause']}\n* What to do: {told[each]['remedy']}\n"
            with TemporaryDirectory() as home:
                shown = example(each, Path(home))
            if shown is not None:
                yield f"```text\n{shown}\n```\n"


def main(arguments: list[str]) -> int:
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print("docs/errors.md is out of date: run python -m tests.support.errors_page")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
