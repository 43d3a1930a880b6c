"""Which Python Spark starts for formats, planners and tasks: this one, if a program says so.

Spark does not ask the Python that runs the program. Its JVM starts ``PYSPARK_DRIVER_PYTHON``, else
``PYSPARK_PYTHON``, else ``python3`` of PATH, as they were when the JVM began; where that one lacks
this package, there is no format of its name.
"""

from __future__ import annotations

import os
import shutil
import sys


class SparkRuns(RuntimeError):
    """Spark was started before, and starts another Python."""


def use_this_python() -> None:
    """Let Spark start the Python that runs here; call it before the session begins.

    Sets the variables that Spark's JVM looks at, in this process and for those that it starts. On
    a cluster the package is to be installed in the same place on every host. Again: no effect.

    Raises:
        SparkRuns: it is too late, as Spark runs already and would start another Python.
    """
    from aqueduct_core.cli.spark_lookup import VARIABLES, variables

    names = [name for name in VARIABLES if name in os.environ] or VARIABLES[-1:]
    changes = variables(names, os.environ)
    if all(os.environ.get(name) == changes[name] for name in names):
        return
    if _spark_runs():
        command = os.environ.get(names[0], "python3")
        if os.path.dirname(shutil.which(command) or "") == os.path.dirname(sys.executable):
            return
        raise SparkRuns(
            f"Spark runs already, and starts {command!r} for formats and tasks, not "
            f"{sys.executable}. "
            "Call use_this_python() before the session is made: restart the notebook or shell; "
            f"or set {names[0]}={sys.executable} where Spark is started"
        )
    os.environ.update(changes)


def _spark_runs() -> bool:
    """Whether there is a JVM: started by this process, or the one that started it."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return True
    context = sys.modules.get("pyspark.core.context")
    return context is not None and context.SparkContext._gateway is not None
