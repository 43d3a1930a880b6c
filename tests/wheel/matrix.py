"""Some tests with each pair of Python and Spark, and a table of what came of them.

    python -m tests.wheel.matrix --out matrix-out.md [3.12:4.2.0 …]

A Python is found on PATH or where pyenv keeps it; without pairs each one that is found is tried
with the oldest Spark and with the one of ``.ci/constraints.txt``. Environments stay in ``.matrix``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests.support.repository import ROOT

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
OLDEST_SPARK = "4.2.0"
PARTS = {
    "library": ("tests/library", "tests/core/aio/test_connection.py", "tests/core/aqueduct/wire"),
    "spool, intake": ("tests/core/spool/test_spool.py", "tests/core/intake/test_service.py"),
    "source": ("tests/spark/read/stream/test_restart.py", "tests/spark/read/batch/test_reader.py"),
    "sink": ("tests/spark/test_bridge.py", "tests/spark/write/test_writers.py"),
    "SQL": ("tests/spark/test_sql.py",),
}
LONG_PARTS = {
    "jobs": ("tests/jobs/test_running.py", "tests/jobs/test_streaming.py"),
    "Connect": ("tests/docs/test_pages.py::test_a_page_is_walked_with_the_wheel[docs/connect.md]",),
}
"""Some of them are marked long, and no less to be run here."""


class Pair(NamedTuple):
    python: Path
    spark: str

    @property
    def environment(self) -> Path:
        return ROOT / ".matrix" / f"{self.python.name}-{self.spark}"

    @property
    def bin(self) -> Path:
        return self.environment / "bin"


def find_python(version: str) -> Path | None:
    """The command of a version such as 3.12 that works: pyenv puts one on PATH for each version
    that it has, and that one may be switched off."""
    name = f"python{version}"
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}*/bin/{name}"))
    for found in (shutil.which(name), *kept):
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return Path(found)
    return None


def newest_spark() -> str:
    text = (ROOT / ".ci" / "constraints.txt").read_text("utf-8")
    (version,) = re.findall(r"^pyspark==(.*)$", text, re.MULTILINE)
    return str(version)


def pairs(given: Sequence[str]) -> Iterator[Pair]:
    """Raises: SystemExit, for a Python that is named and not there."""
    if not given:
        given = [f"{python}:{spark}" for python in PYTHONS for spark in (OLDEST_SPARK, "newest")]
        given = [each for each in given if find_python(each.split(":")[0])]
    for each in given:
        version, _, spark = each.partition(":")
        python = find_python(version)
        if python is None:
            raise SystemExit(f"{each}: there is no python{version} on PATH or in ~/.pyenv")
        yield Pair(python, newest_spark() if spark in ("", "newest") else spark)


def install(pair: Pair) -> None:
    """Make the environment, unless it is there."""
    done = pair.environment / "installed"
    wanted = (ROOT / "pyproject.toml").read_text("utf-8")
    if done.exists() and done.read_text("utf-8") == wanted:
        return
    shutil.rmtree(pair.environment, ignore_errors=True)
    subprocess.run([pair.python, "-m", "venv", pair.environment], check=True)
    constraints = (ROOT / ".ci" / "constraints.txt").read_text("utf-8")
    kept = re.sub(r"^(pyspark|py4j)==.*\n", "", constraints, flags=re.MULTILINE)
    (pair.environment / "constraints.txt").write_text(f"{kept}pyspark=={pair.spark}\n")
    pip = [pair.bin / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run(
        [
            *(*pip, "-c", pair.environment / "constraints.txt"),
            *("--config-settings", "editable_mode=compat", "-e", f"{ROOT}[dev]"),
        ],
        check=True,
    )
    # Else each Python that Spark starts compiles PySpark anew, and may be too late for Spark.
    own = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    compiling = [pair.bin / "aqueduct", "compile-pyspark"]
    subprocess.run(compiling, env=own, stdout=subprocess.DEVNULL, check=True)
    done.write_text(wanted, "utf-8")


def run(pair: Pair) -> dict[str, Counter[str]]:
    """How the tests of each part ended."""
    return {
        **_run(pair, PARTS, "not long and not hostile"),
        **_run(pair, LONG_PARTS, "not hostile"),
    }


def _run(pair: Pair, parts: dict[str, tuple[str, ...]], marks: str) -> dict[str, Counter[str]]:
    report = pair.environment / "report.xml"
    report.unlink(missing_ok=True)
    command = [pair.bin / "python", "-m", "pytest", "-p", "no:xdist", "-q", "-m", marks]
    tests = [each for named in parts.values() for each in named]
    path = os.pathsep.join((str(pair.bin), os.environ["PATH"]))
    with (pair.environment / "pytest.log").open("ab") as log:
        subprocess.run(
            [*command, f"--junitxml={report}", *tests],
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return count(report, parts)


def count(report: Path, parts: dict[str, tuple[str, ...]]) -> dict[str, Counter[str]]:
    """The outcomes of a report of pytest by part; nothing where pytest did not write one."""
    outcomes: dict[str, Counter[str]] = {part: Counter() for part in parts}
    if not report.exists():
        return outcomes
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("classname", "")
        for part, named in parts.items():
            if name.startswith(tuple(map(module, named))):
                kinds = {child.tag for child in case}
                outcomes[part]["failed" if kinds & {"failure", "error"} else "passed"] += (
                    "skipped" not in kinds
                )
    return outcomes


def module(named: str) -> str:
    """Of a file, a folder, or a test in a file."""
    return named.partition("::")[0].removesuffix(".py").replace("/", ".")


def shown(outcome: Counter[str]) -> str:
    if not outcome.total():
        return "–"
    failed = outcome["failed"]
    return f"{failed} of {outcome.total()} failed" if failed else f"{outcome['passed']} passed"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.wheel.matrix")
    parser.add_argument("pairs", nargs="*", metavar="PYTHON:SPARK")
    parser.add_argument("--out", type=Path, required=True, help="where the table goes")
    options = parser.parse_args(argv)
    head = ["Python", "Spark", *PARTS, *LONG_PARTS]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    good = True
    for pair in list(pairs(options.pairs)):
        print(f"matrix: {pair.python.name} with Spark {pair.spark}", file=sys.stderr)
        install(pair)
        asked = [pair.bin / "python", "-c", "import platform; print(platform.python_version())"]
        version = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
        outcomes = run(pair)
        ran = all(outcomes[part].total() for part in outcomes)
        good = good and ran and not any(each["failed"] for each in outcomes.values())
        row = [version, pair.spark, *(shown(outcomes[part]) for part in outcomes)]
        lines.append(f"| {' | '.join(row)} |")
        options.out.write_text("\n".join(lines) + "\n")
    print(options.out.read_text(), end="")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
