"""``aqueduct demo``: producers, an intake and Spark on this machine, and their ledger."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

from aqueduct_core.cli.job import become, check_spark, spark_environment
from aqueduct_core.errors import InvalidOption

SECONDS = 30.0


EXAMPLES = [
    (
        "half a minute of this machine's telemetry, and its ledger",
        "aqueduct demo --seconds 30",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "demo",
        help="see it work: this machine's telemetry into a Spark table",
        description="Three producers send telemetry of this machine, on an ordered, an unordered "
        "and an unreliable channel, to an intake that a Spark job launches; the job writes a "
        "table, and a second job compares it with what the producers know. Takes a minute more "
        "than --seconds. Exit 0 only when no message that was acked is missing, twice, or out "
        "of order.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="for producers (default: %(default)g)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo-out"),
        metavar="DIR",
        help="where table, spool, logs and ledger go (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if not (math.isfinite(options.seconds) and options.seconds > 0):
        raise InvalidOption("BAD_VALUE", f"--seconds is {options.seconds}", "Give more than 0")
    environment = spark_environment(os.environ, ())
    check_spark(environment)
    words = ["--seconds", str(options.seconds), "--out", str(options.out)]
    become(["aqueduct_jobs.demo.run", *words], environment)
