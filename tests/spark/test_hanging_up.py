"""PySpark's own daemon, with a worker on which Spark hangs up."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from pyspark.serializers import SpecialLengths, UTF8Deserializer, read_int, write_int
from pyspark.serializers import write_with_length as write_text

from tests.support.waiting import LONG, ended, environment

TASK = """
import sys
{imported}
from pyspark.util import handle_worker_exception

def main(infile, outfile):
    try:
        infile.read(1)
        {task}
    except OSError as error:
        handle_worker_exception(error, outfile)
        sys.exit(-1)
"""
OURS = "import aqueduct_spark"
ENDLESS = "while True: outfile.write(bytes(1 << 16))"
text = UTF8Deserializer().loads


@contextmanager
def worker(folder: Path, module: str) -> Iterator[tuple[BinaryIO, list[str]]]:
    """What Spark reads and writes, where a worker of this module is its daemon's; at the end Spark
    hangs up, and what worker and daemon have printed is put into the list."""
    unix = {
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
        "SPARK_REUSE_WORKER": "1",
    }
    printed: list[str] = []
    with (
        # The path of a socket has room for 107 bytes: pytest's own folders may be longer.
        tempfile.TemporaryDirectory(prefix="spark-", dir="/tmp") as sockets,
        subprocess.Popen(
            [sys.executable, "-m", "pyspark.daemon", module],
            env={**environment(), **unix, "PYTHON_WORKER_FACTORY_SOCK_DIR": sockets},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as daemon,
    ):
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert daemon.stderr is not None
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(LONG)
                sock.connect(text(daemon.stdout))
                spark = cast(BinaryIO, sock.makefile("rwb"))
                process = read_int(spark)
                yield spark, printed
                spark.close()
            ended(process, LONG)
            daemon.stdin.close()
            printed.append(daemon.stderr.read().decode())
        finally:
            daemon.kill()


def test_a_helper_of_spark_that_was_idle_ends_quietly(tmp_path: Path) -> None:
    """It looked formats up, which imports ours; Spark hangs up on it a minute later."""
    with worker(tmp_path, "pyspark.sql.worker.lookup_data_sources") as (spark, printed):
        write_text(f"{sys.version_info[0]}.{sys.version_info[1]}".encode(), spark)
        write_text(str(tmp_path).encode(), spark)
        write_int(0, spark)  # files to include
        spark.write(b"\0")  # no broadcasts that are encrypted,
        write_int(0, spark)  # nor others
        write_int(0, spark)  # settings
        write_int(SpecialLengths.END_OF_STREAM, spark)
        spark.flush()
        found = [(text(spark), spark.read(read_int(spark))) for _ in range(read_int(spark))]
        assert "aqueduct" in dict(found)
        for _ in range(read_int(spark)):  # accumulators
            spark.read(read_int(spark))
        assert read_int(spark) == SpecialLengths.END_OF_STREAM
    assert printed == [""]


@pytest.mark.parametrize(
    ("imported", "task", "said"),
    [
        (OURS, "while True: outfile.write(bytes(1 << 16))", ""),
        (
            "",
            "while True: outfile.write(bytes(1 << 16))",
            "BrokenPipeError: [Errno 32] Broken pipe",
        ),
        (OURS, "raise ValueError('of the worker')", "ValueError: of the worker"),
    ],
    ids=["rows that nobody wants", "without ours", "a fault"],
)
def test_only_that_spark_hangs_up_is_left_out(
    tmp_path: Path, imported: str, task: str, said: str
) -> None:
    (tmp_path / "pyspark_task.py").write_text(TASK.format(imported=imported, task=task))
    with worker(tmp_path, "pyspark_task") as (spark, printed):
        spark.write(b"!")
        spark.flush()
        spark.read(1)
    (lines,) = printed
    assert lines.strip().rpartition("\n")[2] == said


def test_another_process_is_left_alone() -> None:
    looked = "import sys, aqueduct_spark; print('traceback' in vars(sys.modules['__main__']))"
    assert subprocess.check_output([sys.executable, "-c", looked], timeout=LONG) == b"False\n"
