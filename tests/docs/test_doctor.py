"""``aqueduct doctor`` tells which Python Spark will start, and what to set where it is not ours."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.docs.plain_place import PlainPlace

DOCTOR = ".venv/bin/aqueduct doctor"


def verdict(done: subprocess.CompletedProcess[str]) -> str:
    """The line of the format."""
    (line,) = [line for line in done.stdout.splitlines() if line[6:21] == "format aqueduct"]
    assert (line[:3] == "bad") == (done.returncode == 1), done.stdout
    return line


def refused(plain: PlainPlace, **variables: str) -> str:
    line = verdict(plain.run(DOCTOR, check=False, **variables))
    assert line.startswith("bad")
    return line


@pytest.mark.long
@pytest.mark.spark
def test_it_prints_the_line_to_set_and_is_content_once_it_is_set(plain: PlainPlace) -> None:
    line = refused(plain)
    assert "'python3' (PATH)" in line
    assert "No module named 'pyspark_aqueduct'" in line
    export = re.search(r"Set: (export .*)", line)
    assert export is not None
    content = verdict(plain.run(f"{export[1]}\n{DOCTOR}"))
    assert content.startswith("ok ")
    assert str(plain.python) in content


@pytest.mark.long
@pytest.mark.spark
def test_it_is_content_in_an_activated_environment(plain: PlainPlace) -> None:
    line = verdict(plain.run("source .venv/bin/activate; aqueduct doctor"))
    assert line.startswith("ok ")
    assert line.endswith("(PATH)")


def test_a_path_with_a_space_is_what_spark_cannot_try(plain: PlainPlace) -> None:
    line = refused(plain, PYSPARK_PYTHON=str(plain.python))
    assert "(PYSPARK_PYTHON), which a shell does not find, for its path has a space" in line
    assert '" PYSPARK_PYTHON=python' in line  # by its name, through PATH


def test_the_drivers_variable_is_the_first(plain: PlainPlace) -> None:
    line = refused(plain, PYSPARK_DRIVER_PYTHON="jupyter-lab", PYSPARK_PYTHON="python3")
    assert "'jupyter-lab' (PYSPARK_DRIVER_PYTHON)" in line
    assert "PYSPARK_DRIVER_PYTHON=python PYSPARK_PYTHON=python" in line


def test_a_variable_of_sparks_own_start_script(plain: PlainPlace) -> None:
    """It comes after what a shell has set, so the line has to stand in it."""
    script = plain.folder / "spark-env.sh"
    script.write_text("PYSPARK_PYTHON=no-such-python\n")
    line = refused(plain, SPARK_CONF_DIR=".")
    assert "'no-such-python' (PYSPARK_PYTHON of conf/spark-env.sh)" in line
    export = re.search(r"Set in ./spark-env.sh: (export .*)", line)
    assert export is not None, line
    with script.open("a") as file:
        file.write(f"{export[1]}\n")
    asked = (
        "import os; from aqueduct_core.cli.spark_lookup import sparks_python; "
        "print(*sparks_python(os.environ))"
    )
    found = plain.run(f".venv/bin/python -c '{asked}'", SPARK_CONF_DIR=".").stdout
    command, _, environment = found.partition(" ")
    assert shutil.which(command, path=ast.literal_eval(environment)["PATH"]) == str(plain.python)


@pytest.mark.long
def test_another_version_of_the_package(plain: PlainPlace, tmp_path: Path) -> None:
    other = tmp_path / "other"
    venv.create(other, symlinks=True, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(other)}))
    installed = sysconfig.get_path("purelib", "venv", {"base": str(plain.folder / ".venv")})
    (packages / "others.pth").write_text(f"{installed}\n{sysconfig.get_path('purelib')}")
    metadata = packages / "aqueduct_spark-0.0.1.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: aqueduct-spark\nVersion: 0.0.1\n")
    line = refused(plain, PYSPARK_PYTHON=str(other / "bin" / "python"))
    assert "which has aqueduct-spark 0.0.1, here is " in line
