"""This checkout against another one: the same benches, by turns, and ratios in pairs.

The benches are those of this checkout, whatever the other one has; what they measure is the
product of each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.goals import AGAINST
from tests.bench.sheet import Figure, Sheet, machine, read_sheets
from tests.support.repository import ROOT

PRODUCT = (
    "aqueduct",
    "aqueduct_core",
    "aqueduct_spark",
    "aqueduct_jobs",
    "conf",
    "pyspark_aqueduct.py",
    "pyspark_quicr.py",
    "pyspark_telehash.py",
)


class NoCheckout(ValueError):
    """The folder is no checkout of this project."""


@contextmanager
def borrowed(product: Path) -> Iterator[Path]:
    """A checkout with the tests of this one and the product of another.

    The tests are copied, since they find the checkout that they are of by where they lie.

    Raises:
        NoCheckout: there is no product in that folder.
    """
    if not (product / "aqueduct_core" / "__init__.py").exists():
        raise NoCheckout(f"{product} has no aqueduct_core: name the top of a checkout")
    with TemporaryDirectory(prefix="aqueduct-bench-") as name:
        folder = Path(name)
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignored)
        for part in PRODUCT:
            if (product / part).exists():
                (folder / part).symlink_to((product / part).resolve())
        yield folder


def run_in(checkout: Path, module: str, arguments: Sequence[str]) -> int:
    """Run a bench with the product of a checkout; its exit code."""
    path = os.pathsep.join(filter(None, (str(checkout), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    ).returncode


def compare(
    name: str, module: str, other: Path, repetitions: int, arguments: Sequence[str]
) -> Sheet:
    """Each repetition runs the bench once here and once there.

    Raises:
        RuntimeError: a run left no figures.
    """
    pairs = []
    sheet = Sheet(f"{name}-against", f"{name}: this checkout over another", machine=machine())
    with borrowed(other) as there, TemporaryDirectory(prefix="aqueduct-bench-") as out:
        for repetition in range(repetitions):
            sheet.calibrate()
            sides = {"here": ROOT, "there": there}
            for side in list(sides) if repetition % 2 == 0 else list(reversed(sides)):
                folder = Path(out) / f"{repetition}-{side}"
                once = ["--repetitions", "1", "--out", str(folder), *arguments]
                run_in(sides[side], module, once)
            found = [_figures(Path(out) / f"{repetition}-{side}") for side in sides]
            if not all(found):
                raise RuntimeError(f"{name} left no figures, here or in {other}")
            pairs.append((found[0], found[1]))
    for figure in over(pairs):
        sheet.figures.append(figure)
    return sheet


def over(pairs: Sequence[tuple[dict[str, Figure], dict[str, Figure]]]) -> Iterator[Figure]:
    """Figures that are in all runs, each as its ratio to that of the other checkout."""
    names = [name for name in pairs[0][0] if all(name in side for pair in pairs for side in pair)]
    for name in names:
        if all(there[name].median for _, there in pairs):
            values = tuple(here[name].median / there[name].median for here, there in pairs)
            unit = pairs[0][0][name].unit or "number"
            yield Figure(f"{name} ({unit})", "x", values, AGAINST.get(name, ""))


def _figures(folder: Path) -> dict[str, Figure]:
    return {figure.name: figure for sheet in read_sheets(folder) for figure in sheet.figures}
