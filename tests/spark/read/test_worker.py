"""A worker of Spark after its first read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.waiting import LONG

DAEMON = """
import io, sys, types
from aqueduct_core.primitives.garbage_collection import freeze_once
from aqueduct_spark.read import worker
sys.argv = ["daemon.py", "a_worker"]
sys.modules["__main__"].__spec__ = types.SimpleNamespace(name=sys.stdin.readline().strip())
a_worker = sys.modules["a_worker"] = types.ModuleType("a_worker")
a_worker.main = lambda infile, outfile: print("ran", infile.read())
worker.settle_worker()
worker.settle_worker()
for given in (b"task", b""):
    a_worker.main(io.BufferedReader(io.BytesIO(given)), io.BytesIO())
print("still there")
"""


@pytest.mark.parametrize(
    ("process", "printed"),
    [
        ("pyspark.daemon", "ran b'task'\n"),
        ("elsewhere", "ran b'task'\nran b''\nstill there\n"),
    ],
)
def test_a_worker_ends_when_spark_hangs_up_and_nothing_else_does(
    process: str, printed: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-u", "-c", DAEMON],
        input=process,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr
    assert not done.stderr


def test_the_daemon_of_this_release_runs_workers_as_is_known_here() -> None:
    """It asks for ``main`` anew for each task."""
    import inspect

    from pyspark import daemon

    text = inspect.getsource(daemon.worker)
    assert "importlib.import_module(sys.argv[1])" in text
    assert "from pyspark.worker import main as worker_main" in text
    assert "worker_main(infile, outfile)" in text
    assert daemon.__name__ == "pyspark.daemon"
