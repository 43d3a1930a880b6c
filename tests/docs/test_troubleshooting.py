"""docs/troubleshooting.md has every state in which a stream waits, in the words of the log."""

from __future__ import annotations

import pytest

from aqueduct_core import errors
from aqueduct_core.flight.stalls import KINDS, Stall, StallKind, StallLog
from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.options.write import STREAM_CONNECT_SECONDS
from tests.docs.blocks import texts
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()


def row(kind: StallKind) -> str:
    """As it stands in the page."""
    option = "refusalTimeout" if kind.lasting else "stallTimeout"
    ends = f"`{option}`"
    if kind.normal:
        ends = "no: it is no fault"
    elif kind is KINDS["producers-refused"]:
        ends = "no: strangers could"
    elif kind is KINDS["commits-late"]:
        ends = "no: what is stored becomes rows"
    elif not kind.ends:
        ends = "`launchTimeout`, or Spark"
    elif kind.error is not None:
        name, subclass = kind.error
        ends += f": `[{getattr(errors, name).condition}.{subclass}]`"
    remedy = kind.remedy.replace("{cause_remedy}", "What the line says at its end")
    if kind.meanwhile and "{" not in kind.meanwhile:
        remedy += f"; {kind.meanwhile}"
    return f"| `{kind.what}` | {remedy} | {ends} |"


@pytest.mark.parametrize("name", KINDS)
def test_each_state_has_its_row(name: str) -> None:
    assert row(KINDS[name]) in PAGE.splitlines()


def test_the_lines_of_the_example_are_those_of_the_log() -> None:
    """Under "Nothing comes"."""
    (example,) = texts("docs/troubleshooting.md", "text")
    begins, over = example.splitlines()
    subject, log = "endpoint aqueduct://hub:4433", StallLog()
    stall = Stall.of("endpoint-down", subject, errors.ConnectFailed("REFUSED", "…", ""))
    log.observe([stall], 0.0)
    (line,) = log.observe([stall], 2.0)
    assert line.text.startswith(begins.partition("cursor query: ")[2].removesuffix("…"))
    (line,) = log.observe([], 42.0)
    assert line.text == over.partition("cursor query: ")[2]


def test_the_defaults_are_those_of_the_options() -> None:
    defaults = {spec.name: spec.default for spec in AQUEDUCT_OPTIONS.specs}
    assert (defaults["stallTimeout"], defaults["refusalTimeout"]) == ("never", "60s")
    assert "`refusalTimeout` (60s;" in PAGE
    assert f"`connectTimeout` ({STREAM_CONNECT_SECONDS:.0f}s)" in PAGE
    assert defaults["ackTimeout"] == "120s"


def test_the_readme_leads_there() -> None:
    assert "(docs/troubleshooting.md)" in (ROOT / "README.md").read_text()
