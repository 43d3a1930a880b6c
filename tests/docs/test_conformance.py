"""The list of rules and the report that is made from it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import conformance

RULES = conformance.titles(conformance.RULES.read_text(encoding="utf-8"))


def test_every_rule_that_a_test_names_is_listed() -> None:
    named = {proof.rule for proof in conformance.proofs(conformance.ROOT)}
    assert named
    assert named <= set(RULES)


def test_the_report_shows_what_is_not_proven() -> None:
    rules = {"AQ-X-1": "one", "AQ-X-2": "two"}
    text = conformance.report(rules, [conformance.Proof("AQ-X-1", "tests/test_a.py", "test_b")])
    assert "| AQ-X-1 | one | `tests/test_a.py::test_b` |" in text
    assert f"| AQ-X-2 | two | {conformance.UNPROVEN} |" in text
    assert "1 of 2 rules" in text


def collected(rule: str) -> subprocess.CompletedProcess[str]:
    """What pytest finds for ``--rule`` in one file."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "--collect-only"]
    return subprocess.run(
        [*command, "--rule", rule, "tests/core/aqueduct/test_acks.py"],
        cwd=conformance.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_proofs_of_one_rule_run_alone() -> None:
    run = collected("AQ-ACK-7")
    found = set(re.findall(r"::(\w+)", run.stdout))
    assert found == {
        proof.test
        for proof in conformance.proofs(conformance.ROOT)
        if proof.rule == "AQ-ACK-7" and proof.path.endswith("/test_acks.py")
    }
    assert found
    assert "deselected" in run.stdout


def test_a_rule_that_nothing_names_runs_nothing() -> None:
    run = collected("AQ-ACK")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--rule AQ-ACK: no test of those given names it" in run.stderr


def test_check_finds_an_old_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(conformance, "REPORT", tmp_path / "conformance.md")
    assert conformance.main(["--check"]) == 1
    assert "out of date" in capsys.readouterr().out
    assert conformance.main([]) == 0
    assert conformance.main(["--check"]) == 0


def test_a_rule_that_is_not_listed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(
        '@rule("AQ-NOWHERE-1")\ndef test_x() -> None: ...\n', encoding="utf-8"
    )
    monkeypatch.setattr(conformance, "ROOT", tmp_path)
    assert conformance.main(["--check"]) == 1
    assert "AQ-NOWHERE-1" in capsys.readouterr().out
