"""Which blocks of the pages run where, and those that do not, with the reason."""

from __future__ import annotations

from tests.docs.blocks import Block

IN_A_SESSION = (
    "docs/reading.md",
    "docs/writing.md",
    "docs/events.md",
    "docs/recipes.md",
    "docs/backup.md",
    "docs/quicr-library.md",
    "docs/telehash-library.md",
)
"""Pages that `test_pages` walks, with a session of Spark."""

SHORT = "docs/events.md"
"""The one that every `make test` walks; `make test-all` walks the others."""

WITH_THE_WHEEL = ("docs/start.md", "docs/connect.md")
"""Pages that it walks in an environment with nothing but the wheel."""

WITHOUT_A_SPACE = ("docs/pipelines.md",)
"""Pages that it walks in a folder without a space in its path: for another one Spark's pipelines
take one with %20."""

ELSEWHERE = {
    "CONTRIBUTING.md": "tests/docs/test_contributing.py",
    "README.md": "tests/docs/readme.py tests/docs/test_readme.py",
    "docs/command-line.md": "tests/core/cli/test_examples.py",
    "docs/deployment.md": "tests/docs/test_deployment.py",
    "docs/errors.md": "tests/docs/test_errors.py tests/support/errors_page.py",
    "docs/library.md": "tests/docs/test_library.py",
    "docs/monitoring.md": "tests/docs/test_monitoring.py",
    "docs/process-table.md": "tests/docs/test_process_table.py",
    "docs/protocol.md": "tests/docs/test_protocol.py",
    "docs/quicr.md": "tests/docs/test_quicr.py",
    "docs/security.md": "tests/docs/test_security.py",
    "docs/sizing.md": "tests/docs/test_sizing.py",
    "docs/sql.md": "tests/docs/test_sql.py",
    "docs/telehash.md": "tests/docs/test_telehash.py",
    "docs/troubleshooting.md": "tests/docs/test_troubleshooting.py",
    "docs/testing.md": "tests/docs/test_testing.py",
    "docs/tuning.md": "tests/docs/test_tuning.py",
}
"""Pages whose blocks have tests of their own, which name the page, and the heading or the language
of each block."""

_PICTURE = "a picture of a form, with placeholders"
_INTAKE = "docs/reading.md runs one"

_ROOT = "it changes the system that it runs on"
_CLUSTER = "it needs a cluster"

NOT_RUN = {
    ("README.md", "Install", 1): "tests/wheel does it, with a wheel of this checkout",
    ("README.md", "How it works", 1): "a figure",
    ("README.md", "The command line", 1): "a list of verbs; each has tests in tests/core/cli",
    ("README.md", "From a checkout", 1): "what CI runs",
    ("README.md", "From a checkout", 2): "tests/jobs/demo shows these lines",
    ("docs/deployment.md", "What has to be where", 1): "docs/start.md does it",
    ("docs/deployment.md", "A standalone intake", 2): _ROOT,
    ("docs/deployment.md", "A standalone intake", 4): _ROOT,
    ("docs/deployment.md", "A standalone intake", 7): "it needs a Docker engine",
    ("docs/deployment.md", "A standalone cluster", 1): _CLUSTER,
    ("docs/deployment.md", "A standalone cluster", 2): _CLUSTER,
    ("docs/deployment.md", "A packed environment", 1): "it fetches all of Spark, to pack it",
    ("docs/deployment.md", "A packed environment", 2): _CLUSTER,
    ("docs/deployment.md", "YARN", 1): _CLUSTER,
    ("docs/deployment.md", "Kubernetes", 2): _CLUSTER,
    ("docs/design.md", "Offsets", 1): _PICTURE,
    ("docs/design.md", "The spool directory", 1): _PICTURE,
    ("docs/intakes.md", "A standalone intake", 1): _INTAKE,
    ("docs/intakes.md", "A standalone intake", 2): _INTAKE,
    ("docs/intakes.md", "A standalone intake", 3): _INTAKE,
    ("docs/pipelines.md", "Set up", 1): "the tests have the wheel in their environment",
    ("docs/reading.md", "A read that is complete, or fails", 1): (
        "it needs a server: tests/spark/read/batch/test_dial.py has one"
    ),
    ("docs/process-table.md", "Through two relays", 1): "its test has three of them in one process",
    ("docs/recipes.md", "Upserts", 2): "it needs the jars of Delta",
    ("docs/recipes.md", "A database, by JDBC", 1): "it needs a database and its driver",
    ("docs/start.md", "Install", 1): "the tests have the wheel in their environment",
    ("docs/tuning.md", "The start of a query", 1): "each `make setup` does it",
}


def not_run(block: Block) -> str:
    """Why this block does not run; empty if it does."""
    return NOT_RUN.get(block.key, "")
