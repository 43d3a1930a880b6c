"""What is in the packages: all of the product, nothing else, and metadata that an index takes."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from tests.support.repository import ROOT
from tests.support.waiting import LONG

pytestmark = pytest.mark.wheel

PRODUCT = ("aqueduct/", "aqueduct_core/", "aqueduct_jobs/", "aqueduct_spark/")


def tracked(*folders: str) -> set[str]:
    command = ["git", "ls-files", "-z", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return set(filter(None, listed.split("\0")))


def product() -> set[str]:
    """The files of a wheel but its metadata."""
    link = "aqueduct_core/conf"
    return (
        {"pyspark_aqueduct.py", "pyspark_quicr.py", "pyspark_telehash.py"}
        | {path for path in tracked(*PRODUCT) if path != link}
        | {f"aqueduct_core/{path}" for path in tracked("conf")}
        | {f"share/man/man1/{Path(page).name}" for page in tracked("docs/man/*.1")}
    )


def names(wheel: Path) -> set[str]:
    """Where each file goes: what is in the data directory, from the environment's folder."""
    with zipfile.ZipFile(wheel) as opened:
        listed = {name for name in opened.namelist() if ".dist-info/" not in name}
    return {name.partition(".data/data/")[2] or name for name in listed}


def test_the_wheel_is_the_product(packages: tuple[Path, Path]) -> None:
    assert names(packages[1]) == product()


def test_the_source_package_has_all_that_a_reader_wants(packages: tuple[Path, Path]) -> None:
    with tarfile.open(packages[0]) as opened:
        inside = {member.name.partition("/")[2] for member in opened if member.isfile()}
    pages = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"}
    code = {path for path in product() if not path.startswith("share/")}
    wanted = code | pages | tracked("jobs", "conf", "docs") | {"pyproject.toml"}
    assert wanted <= inside


def test_the_source_package_makes_the_same_wheel(
    packages: tuple[Path, Path], tmp_path: Path
) -> None:
    sdist, wheel = packages
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", str(tmp_path), str(sdist)], check=True, timeout=LONG)
    (again,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        record = [name for name in first.namelist() if name.endswith("/RECORD")]
        assert first.read(record[0]) == second.read(record[0])  # each file with its checksum


def test_the_metadata_is_complete(packages: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(packages[1]) as opened:
        (name,) = (each for each in opened.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = Metadata.from_email(opened.read(name), validate=True)
        entry = next(each for each in opened.namelist() if each.endswith("/entry_points.txt"))
        assert b"aqueduct = aqueduct_core.cli.main:main" in opened.read(entry)
    assert metadata.name == "aqueduct-spark"
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.description_content_type == "text/markdown"
    assert metadata.description == (ROOT / "README.md").read_text("utf-8")
    assert str(metadata.requires_python) == ">=3.11"
    needs = {each.name for each in metadata.requires_dist or () if each.marker is None}
    assert needs >= {"pyspark", "pyarrow", "aioquic"}
    assert not needs & {"pandas", "matplotlib", "pytest", "mypy", "ruff", "setuptools"}
