"""The command that runs a job, as a user of the package gives it."""

from __future__ import annotations

import sys

from aqueduct_core.cli import conf

AQUEDUCT = [sys.executable, "-m", "aqueduct_core.cli.main"]


def job_command(name: str, *words: str) -> list[str]:
    """``aqueduct job NAME`` on this machine, with the settings of Spark that come with it."""
    return [
        *(*AQUEDUCT, "job", name, "--master", "local[2]"),
        *("--properties-file", str(conf.FOLDER / "spark-defaults.conf")),
        *("--spark-conf", "spark.ui.enabled=false", *words),
    ]
