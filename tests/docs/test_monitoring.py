"""docs/monitoring.md: its files ask for metrics that there are, its commands run."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import promql_parser
import pytest
import yaml

from aqueduct_core.intake.settings.service import HttpSettings
from aqueduct_core.monitoring.metrics import METRICS
from aqueduct_spark.progress_log import ProgressLog
from tests.core.cli.running import AQUEDUCT, aqueduct
from tests.docs.blocks import texts
from tests.support import metrics_page
from tests.support.intake_process import Site
from tests.support.repository import ROOT
from tests.support.waiting import LONG

PAGE = "docs/monitoring.md"
ALERTS = yaml.safe_load((ROOT / "conf" / "prometheus" / "alerts.yml").read_text("utf-8"))
DASHBOARD = json.loads((ROOT / "conf" / "grafana" / "aqueduct.json").read_text("utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS = [
    (panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]
]
KNOWN = {
    metric.series + suffix: metric
    for metric in METRICS
    for suffix in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))
}
OTHERS = {
    "up": {"job"},
    "process_resident_memory_bytes": set[str](),
    "process_cpu_seconds_total": set[str](),
}
"""Metrics that Prometheus itself and its library give."""
ALWAYS = {"instance", "job", "le"}


def selectors(expression: Any) -> Iterator[Any]:
    """Every metric that is asked for in an expression, wherever it stands."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
        return
    for name in ("expr", "lhs", "rhs", "vector_selector"):
        if (part := getattr(expression, name, None)) is not None:
            yield from selectors(part)
    for part in getattr(expression, "args", None) or ():
        yield from selectors(part)


def check(query: str) -> None:
    """The expression is one, and asks for metrics and labels that there are."""
    found = list(selectors(promql_parser.parse(query)))
    assert found, query
    for each in found:
        labels = OTHERS.get(each.name)
        if labels is None:
            assert each.name in KNOWN, f"{query} asks for {each.name}"
            labels = set(KNOWN[each.name].labels)
        used = {matcher.name for matcher in each.matchers.matchers}
        assert used <= labels | ALWAYS, f"{query} asks for labels {used}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alerts_ask_for_what_there_is_and_the_page_says_what_to_do(rule: dict[str, Any]) -> None:
    check(rule["expr"])
    assert {"summary", "action"} <= rule["annotations"].keys()
    assert f"`{rule['alert']}`" in (ROOT / PAGE).read_text("utf-8")


@pytest.mark.parametrize(("title", "query"), PANELS)
def test_panels_ask_for_what_there_is(title: str, query: str) -> None:
    """A window of its own would be empty where Prometheus looks less often than twice in it."""
    assert title
    assert not re.search(r"\[\d", query)
    check(query.replace('"$instance"', '".*"').replace("$__rate_interval", "5m"))


def test_a_name_that_is_wrong_is_found() -> None:
    with pytest.raises(AssertionError, match="aqueduct_nonsense"):
        check("sum(rate(aqueduct_nonsense_total[5m])) > 1")
    with pytest.raises(AssertionError, match="asks for labels"):
        check('aqueduct_spool_bytes{channel="x"}')


def test_every_series_is_in_the_table() -> None:
    text = (ROOT / PAGE).read_text("utf-8")
    assert metrics_page.page(text) == text, "python -m tests.support.metrics_page"
    assert set(re.findall(r"^\| `(aqueduct_\w+)`", text, re.M)) == {m.series for m in METRICS}


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An intake in ``spool/orders``, as the page has it."""
    site = Site(tmp_path)
    monkeypatch.chdir(tmp_path)
    with site.intake(http=HttpSettings(listen="127.0.0.1:0"), name="orders"):
        (tmp_path / "spool" / "orders").symlink_to(site.spool)
        yield tmp_path


def test_the_commands_of_the_page_run(orders: Path) -> None:
    found = [shlex.split(text) for text in texts(PAGE, "sh")]
    assert [words[1] for words in found] == ["page", "top", "top"]
    for words in found[1:]:
        done = aqueduct(*words[1:])
        assert done.returncode == 0, done.stderr
        assert b"orders" in done.stdout
    serve = [word.replace("8099", "0") for word in found[0]]
    with subprocess.Popen([*AQUEDUCT, *serve[1:]], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        url = command.stdout.readline().decode().strip()
        with urllib.request.urlopen(f"{url}/status.json", timeout=LONG) as answer:
            assert json.load(answer)["intakes"][0]["status"]["name"] == "orders"
        command.send_signal(signal.SIGTERM)
        assert command.wait(LONG) == 143


def test_the_listener_of_the_page_is_added() -> None:
    [text] = texts(PAGE, "python")
    added: list[object] = []
    streams = SimpleNamespace(addListener=added.append)
    exec(text, {"spark": SimpleNamespace(streams=streams)})
    [listener] = added
    assert isinstance(listener, ProgressLog)
    [line] = texts(PAGE, "text")
    assert re.fullmatch(r"query \w+ batch \d+: \d+ rows, \d+/s, \d+ behind", line.strip())
