"""A folder of a user who has installed the wheel and knows nothing of this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import files
from pathlib import Path
from typing import NamedTuple

from tests.support.repository import ROOT
from tests.support.waiting import LONG

SOURCES = (
    *("aqueduct", "aqueduct_core", "aqueduct_jobs", "aqueduct_spark"),
    *("conf", "docs", "jobs"),
)
FILES = (
    *("pyspark_aqueduct.py", "pyspark_quicr.py", "pyspark_telehash.py"),
    *("pyproject.toml", "MANIFEST.in", "LICENSE"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
)


class PlainPlace(NamedTuple):
    """``folder`` has a virtual environment ``.venv`` that nobody activated.

    ``python3`` of PATH is another Python, without packages. No variable of Spark, of Python or of
    our Makefile is set; only Java is where the machine has it.
    """

    folder: Path
    environment: dict[str, str]

    @property
    def python(self) -> Path:
        return self.folder / ".venv" / "bin" / "python"

    def start(self, command: str, **variables: str) -> subprocess.Popen[bytes]:
        """A line of shell in the background, in a session of its own."""
        return subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(
        self, command: str, check: bool = True, seconds: float = 2 * LONG, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Lines of shell to their end; with ``check`` a failure of the last one raises."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{command}\n{done.stdout}\n{done.stderr[-3000:]}"
        return done


def make(folder: Path, bare: Path, wheel: Path) -> PlainPlace:
    """Install ``wheel`` below ``folder``; ``bare`` becomes the Python of PATH.

    What the wheel needs is not fetched again: a path entry names the packages of this
    environment, in which the checkout is no package but a path entry that does not apply there.
    """
    environment = folder / ".venv"
    for place in (environment, bare):
        venv.create(place, symlinks=True, with_pip=False)
    install = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    install += ["install", "-q", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(install, check=True, timeout=LONG, env=clean)
    shared = sysconfig.get_path("purelib")
    own = sysconfig.get_path("purelib", "venv", {"base": str(environment)})
    Path(own, "shared.pth").write_text(shared)
    for entry in files("pyspark") or ():
        if str(entry.parent).endswith("../bin"):
            shutil.copy(entry.locate(), environment / "bin")
    return PlainPlace(folder, bare_environment(folder, bare / "bin"))


def bare_environment(folder: Path, commands: Path) -> dict[str, str]:
    """The variables of a user at home in ``folder``; ``commands`` come first on PATH."""
    variables = {
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join((str(commands), "/usr/bin", "/bin")),
        "PYTHONUNBUFFERED": "1",
    }
    if "JAVA_HOME" in os.environ:
        variables["JAVA_HOME"] = os.environ["JAVA_HOME"]
    return variables


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, built from a copy, so that nothing is left in it."""
    source = copy_of_checkout(folder / "source")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", str(folder), str(source)], check=True, timeout=LONG)
    (wheel,) = folder.glob("*.whl")
    return wheel


def copy_of_checkout(folder: Path) -> Path:
    """All that goes into packages."""
    folder.mkdir()
    ignore = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignore)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    return folder
