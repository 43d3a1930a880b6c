"""What all tests share: no wall-clock deadline, signals as a terminal gives them, one summary."""

from __future__ import annotations

import signal
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.repository import ROOT

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling


# An example may take long on a busy machine; what does not end is ended by pytest's timeout.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# A shell starts background jobs with SIGINT ignored, and children would inherit that: the tests of
# Ctrl-C are to see what a terminal gives.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


collect_ignore = [] if find_spec("selenium") else ["browser"]
"""What ``make browser`` alone installs what it needs for."""

WITH_PROCESSES = (
    "tests/spark",
    "tests/core/cli",
    "tests/core/intake",
    "tests/faults",
    "tests/hostile",
    "tests/jobs",
)
"""Folders of tests with processes of their own."""


@cache
def group(path: str) -> str:
    """Which tests follow each other in one process when several run them: those of a file; all
    with the one session of Spark; those that start drivers; and those that run whole commands."""
    if "mark.spark" not in (ROOT / path).read_text("utf-8"):
        return path
    return {"spark": "session", "toy": "session", "faults": "drivers"}.get(
        path.split("/")[1], "commands"
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rule", metavar="ID", help="only what proves this rule, such as AQ-ACK-7")


def chosen(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave those that name the rule of ``--rule``."""
    if (rule := config.getoption("rule")) is None:
        return
    proofs = [
        item for item in items if any(rule in each.args for each in item.iter_markers("rule"))
    ]
    if not proofs:
        raise pytest.UsageError(f"--rule {rule}: no test of those given names it")
    config.hook.pytest_deselected(items=[item for item in items if item not in proofs])
    items[:] = proofs


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest is begun first, so that no process is left alone with it at the end: the
    groups, then the files that start processes. Otherwise the order stays, shuffled or not."""
    chosen(config, items)

    def place(item: pytest.Item) -> int:
        path = item.nodeid.split("::", 1)[0]
        place = ["session", "drivers", "commands", path].index(group(path))
        return place if place < 3 or path.startswith(WITH_PROCESSES) else 4

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid.split("::", 1)[0])

    return ByGroup(config, log)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
        terminalreporter.write_line(f"files of the tests that failed: {factory.getbasetemp()}")
