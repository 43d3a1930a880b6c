"""Which tests prove which rule: ``python -m tests.support.conformance [--check]``.

Reads ``docs/rules.toml`` and every ``@rule("…")`` in ``tests`` (from the source, without running
it) and writes ``docs/conformance.md``. ``--check`` writes nothing and exits with 1 when that file
is out of date or a test names a rule that is not in the list.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.repository import ROOT

RULES = ROOT / "docs" / "rules.toml"
REPORT = ROOT / "docs" / "conformance.md"
UNPROVEN = "**no test yet**"


class Proof(NamedTuple):
    rule: str
    path: str
    test: str


def titles(text: str) -> dict[str, str]:
    """Rule → title, in the order of the file."""
    return {
        f"{group}-{number}": title
        for group, rules in tomllib.loads(text).items()
        for number, title in rules.items()
    }


def proofs(root: Path) -> list[Proof]:
    """Every rule that a test function or class names."""
    found = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found += [
                    Proof(rule, path.relative_to(root).as_posix(), node.name)
                    for rule in _named(node.decorator_list)
                ]
    return found


def _named(decorators: list[ast.expr]) -> Iterator[str]:
    for decorator in decorators:
        if (
            isinstance(decorator, ast.Call)
            and isinstance(decorator.func, ast.Name)
            and decorator.func.id == "rule"
        ):
            for argument in decorator.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def report(rules: dict[str, str], found: list[Proof]) -> str:
    by_rule: dict[str, list[Proof]] = {rule: [] for rule in rules}
    for proof in found:
        by_rule.setdefault(proof.rule, []).append(proof)
    proven = sum(bool(by_rule[rule]) for rule in rules)
    lines = [
        "# Conformance",
        "",
        "Made by `python -m tests.support.conformance` from `docs/rules.toml` and the tests;"
        " do not edit.",
        "",
        f"{proven} of {len(rules)} rules are named by at least one test."
        " `pytest --rule ID` runs those of one.",
        "",
        "| Rule | What it says | Tests |",
        "|---|---|---|",
    ]
    for rule, title in rules.items():
        tests = sorted({f"`{proof.path}::{proof.test}`" for proof in by_rule[rule]})
        lines.append(f"| {rule} | {title} | {'<br>'.join(tests) or UNPROVEN} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    rules = titles(RULES.read_text(encoding="utf-8"))
    found = proofs(ROOT)
    unknown = sorted({proof.rule for proof in found} - set(rules))
    if unknown:
        print(f"rules that docs/rules.toml does not list: {', '.join(unknown)}")
        return 1
    text = report(rules, found)
    if "--check" not in arguments:
        REPORT.write_text(text, encoding="utf-8")
        return 0
    if not REPORT.exists() or REPORT.read_text(encoding="utf-8") != text:
        print("docs/conformance.md is out of date: run python -m tests.support.conformance")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
