"""The packages of this checkout, and a place where README's own line has installed the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    top = tmp_path_factory.mktemp("user")
    folder, commands = top / "a folder", top / "bin"
    folder.mkdir()
    commands.mkdir()
    (commands / "python3").symlink_to(shutil.which(PYTHON) or PYTHON)
    constraints = top / "constraints.txt"
    constraints.write_text(f"pyspark=={OLDEST_SPARK}\n")
    place = PlainPlace(folder, plain_place.bare_environment(folder, commands))
    installing = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    links = f"{packages[1].parent} {installing.get('PIP_FIND_LINKS', '')}".strip()
    installing |= {"PIP_FIND_LINKS": links, "PIP_CONSTRAINT": str(constraints)}
    installing.setdefault("PIP_CACHE_DIR", str(_pip_cache()))
    line = block("Install", "sh").replace("\n", " && ").removesuffix(" && ")
    place.run(line, seconds=INSTALL_SECONDS, **installing)
    return place


def _pip_cache() -> Path:
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
