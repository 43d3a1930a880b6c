"""A program says that Spark shall start the Python that runs it."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from aqueduct_spark import SparkRuns, use_this_python

VARIABLES = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is set, and no JVM runs that this process knows."""
    monkeypatch.setattr(os, "environ", {"PATH": "/usr/bin"})
    monkeypatch.setitem(sys.modules, "pyspark.core.context", context(None))


def context(gateway: object) -> SimpleNamespace:
    return SimpleNamespace(SparkContext=SimpleNamespace(_gateway=gateway))


def test_it_is_named_by_its_path() -> None:
    use_this_python()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["PATH"] == "/usr/bin"


def test_a_path_with_a_space_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/a folder/bin/python3.11")
    use_this_python()
    assert os.environ["PYSPARK_PYTHON"] == "python3.11"
    assert os.environ["PATH"] == "/a folder/bin:/usr/bin"


@pytest.mark.parametrize("names", [VARIABLES[:1], VARIABLES[1:], VARIABLES])
def test_what_names_another_one_is_changed(names: tuple[str, ...]) -> None:
    os.environ.update(dict.fromkeys(names, "jupyter"))
    use_this_python()
    assert {os.environ[name] for name in names} == {sys.executable}
    assert names == tuple(name for name in VARIABLES if name in os.environ)


def test_it_is_too_late_when_spark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.core.context", context(object()))
    with pytest.raises(SparkRuns, match="starts 'python3' for formats and tasks") as error:
        use_this_python()
    assert f"set PYSPARK_PYTHON={sys.executable}" in str(error.value)
    assert "PYSPARK_PYTHON" not in os.environ


def test_it_is_too_late_below_spark_submit() -> None:
    os.environ.update(PYSPARK_GATEWAY_PORT="1", PYSPARK_PYTHON="/usr/bin/python3")
    with pytest.raises(SparkRuns, match="starts '/usr/bin/python3'"):
        use_this_python()


def test_spark_submit_of_an_activated_environment_is_content() -> None:
    os.environ.update(PYSPARK_GATEWAY_PORT="1", PATH=os.path.dirname(sys.executable))
    use_this_python()
    assert "PYSPARK_PYTHON" not in os.environ


def test_again_it_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the cell of a notebook is run again."""
    use_this_python()
    monkeypatch.setitem(sys.modules, "pyspark.core.context", context(object()))
    use_this_python()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
