"""The module through which Spark finds the format: light, and harmless when something is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql.types import StructType

from aqueduct_core.errors import VersionMismatch
from aqueduct_spark import datasource
from aqueduct_spark.formats.aqueduct.format import AqueductDataSource
from tests.support.repository import ROOT
from tests.support.waiting import LONG, environment


def run(code: str, *, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment(PYTHONPATH=str(path)),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


@pytest.mark.parametrize("name", ["aqueduct", "quicr", "telehash"])
def test_the_format_has_its_name_and_costs_little(name: str) -> None:
    heavy = ["pyarrow", "numpy", "pandas", "aioquic", "cryptography", "asyncio", "sqlite3"]
    done = run(
        "import pyspark.sql.datasource, sys\n"
        "before = set(sys.modules)\n"
        f"from pyspark_{name} import DefaultSource\n"
        "print(DefaultSource.name())\n"
        f"print([m for m in {heavy} if m in set(sys.modules) - before])"
    )
    assert done.stdout.split("\n")[:2] == [name, "[]"], done.stderr


def test_a_planner_imports_little() -> None:
    """It is made for each start of a query, and by a process that has just begun."""
    heavy = ["pandas", "pyarrow.compute", "aioquic", "asyncio", "aqueduct_core.transport"]
    done = run(
        "import sys\n"
        "import aqueduct_spark.read.stream.planner\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("name", ["aqueduct", "quicr", "telehash"])
def test_a_broken_installation_breaks_nothing_else(name: str, tmp_path: Path) -> None:
    module = f"pyspark_{name}"
    (tmp_path / f"{module}.py").write_bytes((ROOT / f"{module}.py").read_bytes())
    (tmp_path / "aqueduct_spark").mkdir()
    (tmp_path / "aqueduct_spark" / "__init__.py").write_text("raise RuntimeError('half a copy')")
    done = run(f"import {module}; print('fine')", path=tmp_path)
    assert done.stdout == "fine\n"
    assert f"format {name} is not available: half a copy" in done.stderr
    strict = run(f"import warnings; warnings.simplefilter('error'); import {module}", path=tmp_path)
    assert strict.returncode == 0, strict.stderr


def test_a_spark_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasource, "find_spec", lambda name: None)
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    source = AqueductDataSource({"intakes": "127.0.0.1:1"})
    with pytest.raises(VersionMismatch, match=r"Spark 4\.2 or newer, and this is 4\.1\.4"):
        source.streamReader(StructType())
