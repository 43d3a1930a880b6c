"""Whether Spark finds a format: the Python that Spark itself starts is asked, then Spark.

Spark does not look formats up with the Python that runs the script. Its JVM starts the command of
``PYSPARK_DRIVER_PYTHON``, else of ``PYSPARK_PYTHON``, else ``python3`` of PATH, all as the JVM sees
them, ``conf/spark-env.sh`` included; ``spark.pyspark.python`` has no say in it. The same command
runs planners and tasks. Before its first use it is tried with an unquoted ``command -v`` in a
shell: a path with a space fails there, and then Spark looks for no Python format at all.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from aqueduct_core.cli.compile_pyspark import archives_below

DISTRIBUTION = "aqueduct-spark"
VARIABLES = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
DEFAULT_COMMAND = "python3"
ASK_TIMEOUT = 60.0
LOAD_TIMEOUT = 180.0

ASK = """
import importlib, importlib.metadata, json, sys, warnings
answer = {"python": sys.executable, "version": None, "name": None, "error": None}
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    try:
        module = importlib.import_module(sys.argv[2])
        answer["name"] = module.DefaultSource.name()
        answer["version"] = importlib.metadata.version(sys.argv[1])
    except Exception as error:
        answer["error"] = str(warned[-1].message if warned else error)
print(json.dumps(answer))
"""
LOAD = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").appName("aqueduct-doctor")
builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
try:
    builder.getOrCreate().read.format(sys.argv[1]).load()
except Exception as error:
    print(error)
"""


class FormatNotFound(Exception):
    """Why Spark does not find the format, and the line that mends it; one line."""


class Interpreter(NamedTuple):
    """A command as Spark's JVM starts it, and the environment it is started in."""

    command: str
    environment: dict[str, str]

    @property
    def origin(self) -> str:
        """Where the command is from, for a reader."""
        for name in VARIABLES:
            if name in self.environment:
                if os.environ.get(name) == self.command:
                    return name
                return f"{name} of conf/spark-env.sh"
        return "PATH"

    @property
    def script(self) -> str:
        """The start script of Spark that sets one of the variables, whatever a shell has set
        before; "" where none does."""
        own = [name for name in VARIABLES if self.environment.get(name) != os.environ.get(name)]
        return f"{self.environment.get('SPARK_CONF_DIR', 'conf')}/spark-env.sh" if own else ""


def found_by_spark(name: str, module: str) -> str:
    """Look format ``name`` of ``module`` up as Spark does, at last with a session of Spark.

    Takes some seconds. Returns the interpreter that Spark uses.

    Raises:
        FormatNotFound: Spark would say DATA_SOURCE_NOT_FOUND, or could not load the format.
    """
    interpreter = sparks_python(os.environ)
    python = confirm(interpreter, name, module)
    program = dict(os.environ)
    if importlib.util.find_spec("pyspark") is None:  # as spark-submit of SPARK_HOME has it
        program["PYTHONPATH"] = interpreter.environment["PYTHONPATH"]
    printed = _output([sys.executable, "-c", LOAD, name], program, LOAD_TIMEOUT)
    if "[AQUEDUCT_" not in printed:  # the format is there once it complains of missing options
        lines = printed.strip().splitlines() or ["Spark did not start"]
        raise FormatNotFound(f"{python} has it, but Spark failed: {lines[0]}")
    return f"{python} ({interpreter.origin})"


def sparks_python(given: Mapping[str, str]) -> Interpreter:
    """The Python that a Spark would start that is started in the environment ``given``."""
    environment = _environment_of_spark(given)
    for name in VARIABLES:
        if name in environment:
            return Interpreter(environment[name], environment)
    return Interpreter(DEFAULT_COMMAND, environment)


def find_java(given: Mapping[str, str]) -> str | None:
    """The Java that Spark's start script takes in an environment; None: there is none."""
    home = given.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    return shutil.which(java, path=given.get("PATH"))


def variables(names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """What ``names`` of ``VARIABLES``, and PATH where need be, are to be set to, so that Spark
    starts the Python that runs here: by its path, or where that has a space, by its name."""
    python = sys.executable
    if shlex.quote(python) == python:
        return dict.fromkeys(names, python)
    folder, python = os.path.split(python)
    path = os.pathsep.join(filter(None, (folder, given.get("PATH"))))
    return {"PATH": path, **dict.fromkeys(names, python)}


def _environment_of_spark(given: Mapping[str, str]) -> dict[str, str]:
    """``given``, changed by Spark's own start script, and with PySpark of Spark's own archives in
    front of all that a Python finds, as Spark has it for each that it starts."""
    home = given.get("SPARK_HOME")
    if home is None:
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise FormatNotFound(f"pyspark is not installed: pip install {DISTRIBUTION}")
        home = str(Path(spec.origin).parent)
    script = 'export SPARK_HOME="$1"; . "$1/bin/load-spark-env.sh" >/dev/null 2>&1; env -0'
    printed = _output(["bash", "-c", script, "bash", home], given, ASK_TIMEOUT)
    pairs = (pair.partition("=") for pair in printed.split("\0"))
    changed = {name: value for name, is_pair, value in pairs if is_pair} or dict(given)
    path = [*map(str, archives_below(home)), changed.get("PYTHONPATH", "")]
    return {**changed, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def confirm(interpreter: Interpreter, name: str, module: str) -> str:
    """The path of the interpreter, once it gave the format ``name`` of our version; a second.

    Raises:
        FormatNotFound: it has another one, or none, or does not run.
    """
    command, environment = interpreter
    place = f" in {interpreter.script}" if interpreter.script else ""
    remedy = f"Set{place}: {_line_to_set(interpreter)}"
    looks = f"Spark looks formats up with {command!r} ({interpreter.origin})"
    tried = ["sh", "-c", f"command -v {command}"]
    if subprocess.run(tried, env=environment, capture_output=True, check=False).returncode != 0:
        space = ", for its path has a space" if " " in command else ""
        raise FormatNotFound(f"{looks}, which a shell does not find{space}. {remedy}")
    printed = _output([command, "-c", ASK, DISTRIBUTION, module], environment, ASK_TIMEOUT)
    lines = printed.strip().splitlines()
    try:
        answer = json.loads(lines[-1])
    except (IndexError, ValueError):
        raise FormatNotFound(f"{looks}, which is no Python that runs. {remedy}") from None
    python = str(answer["python"])
    ours = version(DISTRIBUTION)
    if answer["name"] != name:
        why = answer["error"] or f"its format is named {answer['name']}"
        raise FormatNotFound(f"{looks}, {python}, which does not have it ({why}). {remedy}")
    if answer["version"] != ours:
        other = f"{DISTRIBUTION} {answer['version']}, here is {ours}"
        raise FormatNotFound(f"{looks}, {python}, which has {other}. {remedy}")
    return python


def _line_to_set(interpreter: Interpreter) -> str:
    """A line for the shell after which Spark starts the Python that runs here."""
    names = [name for name in VARIABLES if name in interpreter.environment] or [VARIABLES[-1]]
    changes = variables(names, {})
    folder = changes.pop("PATH", None)
    path = "" if folder is None else f'PATH={shlex.quote(folder)}:"$PATH" '
    return f"export {path}{' '.join(f'{name}={python}' for name, python in changes.items())}"


def _output(command: list[str], environment: Mapping[str, str], seconds: float) -> str:
    """What a command prints on its standard output; nothing where it cannot run."""
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
