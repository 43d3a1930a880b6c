"""The packages of this checkout, and a place where README's own line has installed the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import blocks as page
from tests.docs import plain_place
from tests.docs.plain_place import PlainPlace
from tests.docs.readme import block
from tests.support.waiting import LONG

OLDEST_SPARK = "4.2.0"
PYTHON = os.environ.get("WHEEL_PYTHON", sys.executable)
INSTALL_SECONDS = 1800.0
BUILD = """
import sys
from setuptools import build_meta
(out,) = sys.argv[1:]  # which the first call changes
build_meta.build_sdist(out)
build_meta.build_wheel(out)
"""


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source package and the wheel, made of this checkout."""
    folder = tmp_path_factory.mktemp("packages")
    source = plain_place.copy_of_checkout(folder / "source")
    out = folder / "dist"
    out.mkdir()
    command = [sys.executable, "-c", BUILD, str(out)]
    subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL, timeout=LONG)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="session")
def installed(packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> PlainPlace:
    """A user's folder after README's line, with the oldest Python and Spark, and nothing else.

    ``python3`` of PATH is that Python without any package once the line has run, so nothing works
    that needs an activated environment.
    """
    place = _empty_place(tmp_path_factory.mktemp("user"))
    constraints = place.folder.parent / "constraints.txt"
    constraints.write_text(f"pyspark=={OLDEST_SPARK}\n")
    line = block("Install", "sh").replace("\n", " && ").removesuffix(" && ")
    place.run(
        line,
        seconds=INSTALL_SECONDS,
        **_from(packages[1].parent),
        PIP_CONSTRAINT=str(constraints),
    )
    return place


@pytest.fixture(scope="session")
def without_spark(
    packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> PlainPlace:
    """The same after the lines for hosts without Spark."""
    place = _empty_place(tmp_path_factory.mktemp("peer"))
    (lines,) = (
        each.text
        for each in page.blocks("docs/deployment.md")
        if (each.heading, each.language) == ("Hosts without Spark", "sh")
    )
    place.run(f"set -e\n{lines}", seconds=INSTALL_SECONDS, **_from(packages[1].parent))
    return place


def _empty_place(top: Path) -> PlainPlace:
    folder, commands = top / "a folder", top / "bin"
    folder.mkdir()
    commands.mkdir()
    (commands / "python3").symlink_to(shutil.which(PYTHON) or PYTHON)
    return PlainPlace(folder, plain_place.bare_environment(folder, commands))


def _from(wheels: Path) -> dict[str, str]:
    """What has pip find our packages in this folder, and the others where it always does."""
    installing = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    links = f"{wheels} {installing.get('PIP_FIND_LINKS', '')}".strip()
    return {"PIP_CACHE_DIR": str(_pip_cache())} | installing | {"PIP_FIND_LINKS": links}


def _pip_cache() -> Path:
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
