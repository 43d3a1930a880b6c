"""``aqueduct doctor``: what a peer needs, without Spark."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from aqueduct_core.cli import doctor
from aqueduct_core.cli.main import main
from aqueduct_core.cli.spark_lookup import sparks_python
from tests.core.cli.running import aqueduct


def test_doctor_finds_everything_that_a_peer_needs(certificates: Path) -> None:
    done = aqueduct("doctor", "--no-spark", certificates / "cert.pem", certificates / "ca.pem")
    lines = done.stdout.decode().splitlines()
    graded = {line[6:24].strip(): line[:4].strip() for line in lines}
    assert graded["python"] == "ok", lines
    assert graded["aioquic"] == "ok", lines
    assert not {"java", "pyspark"} & graded.keys()
    assert "format aqueduct" not in graded
    assert graded["udp 127.0.0.1"] == "ok", lines
    assert graded["cert cert.pem"] == "ok", lines
    assert graded["cert ca.pem"] == "ok", lines
    assert "bad" not in graded.values()
    assert done.returncode == 0


def test_doctor_tells_what_is_wrong_with_a_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    assert main(["doctor", "--no-spark", str(garbage), str(tmp_path / "missing.pem")]) == 1
    out = capsys.readouterr().out
    assert "garbage.pem holds no certificate in PEM form" in out
    assert "missing.pem cannot be read: No such file or directory" in out


def test_doctor_tells_that_another_package_has_the_name_of_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--no-spark"]) == 0
    assert "import aqueduct" not in capsys.readouterr().out
    (tmp_path / "aqueduct").mkdir()
    (tmp_path / "aqueduct" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "aqueduct", raising=False)
    assert main(["doctor", "--no-spark"]) == 0
    assert f"note  import aqueduct    finds {tmp_path / 'aqueduct'}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("4.1.4", "bad   spark              4.1.4 at {home}; the formats need 4.2 or newer"),
        ("4.2.0", "ok    spark              4.2.0 at {home}"),
        ("10.0.0-preview1", "ok    spark              10.0.0-preview1 at {home}"),
    ],
)
def test_doctor_knows_which_spark_is_too_old(
    version: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for file in ("python/lib/pyspark.zip", f"jars/spark-core_2.13-{version}.jar"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(b"")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    for check in ("_java", "_formats", "_bytecode"):
        monkeypatch.setattr(doctor, check, lambda: iter(()))
    assert main(["doctor"]) == told.startswith("bad")
    assert told.format(home=tmp_path) in capsys.readouterr().out.splitlines()


def test_doctor_goes_on_behind_a_damaged_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"no archive")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(doctor, "_java", lambda: iter(()))
    monkeypatch.setattr(doctor, "_formats", lambda: iter(()))
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    [told] = [line for line in lines if line[6:24].strip() == "bytecode"]
    assert told.startswith("bad")
    assert f"{archive} is no archive of PySpark, or a damaged one" in told
    assert any(line[6:24].strip() == "udp 127.0.0.1" for line in lines)


def test_where_only_spark_has_pyspark_that_one_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in an image of Spark, into which the package came without what it depends on."""
    archives = [tmp_path / "python" / "lib" / name for name in ("pyspark.zip", "py4j-1-src.zip")]
    archives[0].parent.mkdir(parents=True)
    for archive in archives:
        archive.write_bytes(b"")

    def version(name: str) -> str:
        if name == "pyspark":
            raise PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "mine")
    for check in ("_java", "_formats", "_bytecode"):
        monkeypatch.setattr(doctor, check, lambda: iter(()))
    assert main(["doctor"]) == 0
    assert f"ok    pyspark            that of Spark, {archives[0]}" in capsys.readouterr().out
    asked = sparks_python(os.environ).environment["PYTHONPATH"]
    assert asked.split(os.pathsep) == [*map(str, archives), "mine"]
