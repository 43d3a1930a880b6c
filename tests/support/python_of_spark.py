"""Spark shall start the Python that runs the tests, whatever the shell says."""

from __future__ import annotations

import os
import sys


def set_python_of_spark() -> None:
    """For every JVM that this process starts from now on; as ``activate`` does it."""
    os.environ.pop("PYSPARK_PYTHON", None)
    os.environ.pop("PYSPARK_DRIVER_PYTHON", None)
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
