"""Bytecode in an archive of sources."""

from __future__ import annotations

import marshal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.cli.compile_pyspark import archives_of_spark, compile_archive, has_bytecode
from aqueduct_core.cli.main import main
from tests.support.waiting import LONG

SOURCES = {
    "somespark/__init__.py": "from somespark.inner import answer\n",
    "somespark/inner.py": "def answer(): return 42\n",
    "somespark/tests/test_it.py": "this is no Python\n",
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, text in SOURCES.items():
            opened.writestr(name, text)
    return path


def imported(archive: Path) -> str:
    """Where a process has the code from."""
    code = "import somespark; print(somespark.inner.__loader__.get_filename('somespark.inner'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
    )
    return done.stdout.strip()


def test_what_is_imported_is_compiled(archive: Path) -> None:
    assert imported(archive) == f"{archive}/somespark/inner.py"
    assert not has_bytecode(archive)
    assert compile_archive(archive) == 2
    assert has_bytecode(archive)
    assert imported(archive) == f"{archive}/somespark/inner.pyc"
    with zipfile.ZipFile(archive) as opened:
        assert {name: opened.read(name).decode() for name in SOURCES} == SOURCES
        assert opened.testzip() is None
        (code,) = {each.compress_type for each in opened.infolist() if each.filename[-1] == "c"}
        assert code == zipfile.ZIP_STORED


def test_of_another_version_it_is_made_anew(archive: Path) -> None:
    compile_archive(archive)
    with zipfile.ZipFile(archive) as opened:
        held = {name: opened.read(name) for name in opened.namelist()}
    with zipfile.ZipFile(archive, "w") as opened:
        for name, data in held.items():
            opened.writestr(name, b"old!" + data[4:] if name.endswith(".pyc") else data)
        ends = opened.start_dir
    before = archive.read_bytes()[:ends]
    assert not has_bytecode(archive)
    assert compile_archive(archive) == 2
    assert has_bytecode(archive)
    assert imported(archive) == f"{archive}/somespark/inner.pyc"
    with zipfile.ZipFile(archive) as opened:
        assert len(opened.namelist()) == len(set(opened.namelist())) == len(SOURCES) + 2
        assert opened.testzip() is None
    # who has read where it is finds it still
    assert archive.read_bytes()[:ends] == before


def test_who_has_looked_before_finds_the_sources_at_their_places(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        before = {info.filename: info.header_offset for info in opened.infolist()}
    compile_archive(archive)
    with zipfile.ZipFile(archive) as opened:
        after = {info.filename: info.header_offset for info in opened.infolist()}
    assert before.items() <= after.items()


def test_it_keeps_docstrings_and_assertions_for_those_who_want_them(archive: Path) -> None:
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr("somespark/told.py", 'def told(sure):\n    "Why."\n    assert sure\n')
    command = [sys.executable, "-OO", "-m", "aqueduct_core.cli.main", "compile-pyspark"]
    subprocess.run([*command, str(archive)], timeout=LONG, check=True, capture_output=True)
    found: dict[str, Any] = {}
    with zipfile.ZipFile(archive) as opened:
        exec(marshal.loads(opened.read("somespark/told.pyc")[16:]), found)
    assert found["told"].__doc__ == "Why."
    with pytest.raises(AssertionError):
        found["told"](False)


def test_an_archive_behind_a_link_is_the_one_that_is_compiled(
    archive: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link.zip"
    link.symlink_to(archive)
    assert compile_archive(link) == 2
    assert link.is_symlink()
    assert has_bytecode(archive)


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_archive_is_told_and_left_as_it_is(
    archive: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(archive.read_bytes())
    if damage == "cut":
        del data[-10:]
    else:
        with zipfile.ZipFile(archive) as opened:
            first = opened.getinfo("somespark/inner.py").header_offset
        for place in range(first + 52, first + 60):
            data[place] ^= 0x55
    archive.write_bytes(data)
    assert main(["compile-pyspark", str(archive)]) == 1
    assert "no archive of PySpark, or a damaged one" in capsys.readouterr().err
    assert archive.read_bytes() == data
    assert list(archive.parent.iterdir()) == [archive]


def test_the_verb(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile-pyspark", str(archive)]) == 0
    assert main(["compile-pyspark", str(archive)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"{archive}: 2 modules", f"{archive} has its bytecode"]
    assert main(["compile-pyspark", str(archive.parent / "none.zip")]) == 1
    assert "[AQUEDUCT_INVALID_OPTION.BAD_VALUE]" in capsys.readouterr().err


def test_several_are_named_or_none_is_touched(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "py4j-0-src.zip"
    other.write_bytes(archive.read_bytes())
    assert main(["compile-pyspark", str(archive), str(tmp_path / "none.zip")]) == 1
    assert not has_bytecode(archive)
    assert main(["compile-pyspark", str(archive), str(other)]) == 0
    assert has_bytecode(archive)
    assert has_bytecode(other)
    assert f"{other}: 2 modules" in capsys.readouterr().out


def test_it_finds_those_of_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    pyspark, py4j = archives_of_spark()
    assert pyspark.name == "pyspark.zip"
    assert py4j.name.startswith("py4j-")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert archives_of_spark() == []
    assert main(["compile-pyspark"]) == 1
    assert "SPARK_HOME" in capsys.readouterr().err
