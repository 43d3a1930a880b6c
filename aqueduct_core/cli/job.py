"""``aqueduct job NAME``: a finished job of Spark, with this Python and nothing to set up.

The job runs in this very process, which becomes Python with the job as its program: so Ctrl-C and
SIGTERM reach the job alone, which ends Spark in good order, and its exit code is the command's.
Spark's JVM is a child of it that takes its arguments from ``PYSPARK_SUBMIT_ARGS``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from aqueduct_core.cli import conf
from aqueduct_core.cli.spark_lookup import (
    DISTRIBUTION,
    VARIABLES,
    FormatNotFound,
    confirm,
    find_java,
    sparks_python,
    variables,
)
from aqueduct_core.errors import InvalidOption

JOBS = {
    "ingest": "Aqueduct channels into a table, or any other sink of Spark",
    "media_ingest": "QUICR media into a table, or any other sink of Spark",
    "publish": "rows of files to an Aqueduct endpoint",
    "bridge": "Aqueduct channels, transformed, into Aqueduct channels",
    "replay": "a range of a spool, or a table, sent again at its pace",
}
"""The modules of ``aqueduct_jobs`` that are run, and what they do."""

QUIET = "spark.ui.showConsoleProgress=false"
"""A job has lines of its own; they come first, so that a user's word is the last one."""
FORMAT, FORMAT_MODULE = "aqueduct", "pyspark_aqueduct"


EXAMPLES = [
    (
        "channels into a table",
        "aqueduct conf ingest.toml > ingest.toml && aqueduct job ingest --config ingest.toml",
    ),
    (
        "with another setting of Spark",
        "aqueduct job ingest --config ingest.toml --spark-conf spark.driver.memory=2g",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    listed = "; ".join(f"{name}: {what}" for name, what in JOBS.items())
    parser = verbs.add_parser(
        "job",
        help="run a finished job of Spark",
        description=f"Runs a finished job ({listed}). Its settings are a TOML file; to have one to "
        "begin with: aqueduct conf ingest.toml > ingest.toml. Ctrl-C and SIGTERM end it in good "
        "order; run it again, and it goes on where it stopped. With a cluster, give --master; "
        "the package is then installed on its hosts under the same path.",
        examples=EXAMPLES,
    )
    parser.add_argument("name", choices=list(JOBS), metavar="NAME", help=", ".join(JOBS))
    parser.add_argument("--config", type=Path, metavar="FILE", help="its settings, TOML; required")
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        help="override one value of the file; may be repeated",
    )
    parser.add_argument("--master", metavar="URL", help="of Spark (default: local[*])")
    parser.add_argument(
        "--properties-file", type=Path, metavar="FILE", help="settings of Spark, as spark-submit's"
    )
    parser.add_argument(
        "--spark-conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark, as --conf of spark-submit; may be repeated",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    name: str = options.name
    if options.config is None:
        raise InvalidOption(
            "MISSING",
            f"job {name} has no --config",
            f"Write one to begin with: aqueduct conf {name}.toml > {name}.toml",
        )
    environment = spark_environment(
        os.environ,
        submit_arguments(options.master, options.properties_file, [QUIET, *options.spark_conf]),
    )
    check_spark(environment)
    words = [word for each in options.overrides for word in ("--set", each)]
    become([f"aqueduct_jobs.{name}", "--config", str(options.config), *words], environment)


def become(arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Go on as Python with a module and its arguments; does not return."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, "-m", *arguments], environment)


def submit_arguments(
    master: str | None, properties: Path | None, settings: Sequence[str]
) -> list[str]:
    """What ``spark-submit`` is given. Raises: InvalidOption.BAD_VALUE."""
    words = ["--master", master] if master else []
    if properties is not None:
        if not properties.is_file():
            raise InvalidOption(
                "BAD_VALUE",
                f"--properties-file is {properties}, and there is no such file",
                "Give a file of Spark settings, as `aqueduct conf spark-defaults.conf` prints one",
            )
        words += ["--properties-file", str(properties)]
    for setting in settings:
        key, equals, _ = setting.partition("=")
        if not (key and equals):
            raise InvalidOption(
                "BAD_VALUE",
                f"--spark-conf is {setting!r}",
                "Write KEY=VALUE, as spark.ui.port=4040",
            )
        words += ["--conf", setting]
    return words


def spark_environment(given: Mapping[str, str], arguments: Sequence[str]) -> dict[str, str]:
    """The environment of a program that starts Spark with these arguments of ``spark-submit``.

    Spark starts this Python for formats, planners and tasks, unless a variable names another one.
    Where no folder of settings is named, Spark logs warnings and errors, in short lines.
    """
    environment = dict(given)
    if not any(name in given for name in VARIABLES):
        environment |= variables(VARIABLES[-1:], given)
    environment["PYSPARK_SUBMIT_ARGS"] = shlex.join([*arguments, "pyspark-shell"])
    if not {"SPARK_HOME", "SPARK_CONF_DIR"} & given.keys():
        log = (conf.FOLDER / "log4j2.properties").as_uri()
        # In front of what others say there, which is then the last word.
        options = [f"-Dlog4j2.configurationFile={log}", given.get("SPARK_SUBMIT_OPTS", "")]
        environment["SPARK_SUBMIT_OPTS"] = " ".join(filter(None, options))
    return environment


def check_spark(environment: Mapping[str, str]) -> None:
    """Whether there is PySpark, and will find a Java and the formats; it tells later, in its words.

    The Python that it would start is asked only where somebody else may have chosen it, as that
    takes a second.

    Raises:
        InvalidOption: MISSING, there is no PySpark, or no Java; CONFLICT, a Python without the
            formats, with the line that mends it.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise InvalidOption(
            "MISSING",
            f"there is no PySpark for {sys.executable}: the package was installed without it",
            f"Install it: {sys.executable} -m pip install {DISTRIBUTION}",
        )
    if find_java(environment) is None:
        home = environment.get("JAVA_HOME")
        raise InvalidOption(
            "MISSING",
            "there is no Java, which Spark needs, "
            + (f"in JAVA_HOME, {home}" if home else "on PATH or in JAVA_HOME"),
            "Install one, as by: apt-get install openjdk-17-jre-headless; or set JAVA_HOME",
        )
    if not {*VARIABLES, "SPARK_HOME", "SPARK_CONF_DIR"} & os.environ.keys():
        return
    try:
        confirm(sparks_python(environment), FORMAT, FORMAT_MODULE)
    except FormatNotFound as error:
        what, _, remedy = str(error).rpartition(". ")
        raise InvalidOption("CONFLICT", what, remedy) from None
