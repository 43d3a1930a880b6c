"""Figures and their goals, as tables and JSON, and as the page and picture of the documentation."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bench import report
from tests.bench.chart import GREATEST, LEAST, chart, place
from tests.bench.goals import AGAINST, GOALS, NOT_MEASURED, NOT_REACHED, Goal
from tests.bench.measuring import Bench
from tests.bench.run import BENCHES, BY_ITSELF, WITH_KAFKA
from tests.bench.sheet import Figure, Sheet, read_sheets, shown


def sheet() -> Sheet:
    made = Sheet("transport", "receiving", calibration=[50.0, 40.0, 90.0], machine={"cpus": "2"})
    made.add("ours over stock", "x", [3.5, 2.9, 8.0], "G1")
    made.add("open streams", "x", (1.5 for _ in range(3)), "G3")
    made.add("wall", "MB/s", [1234.5])
    return made


def test_a_figure_is_the_median_with_its_range() -> None:
    figure = Figure("", "x", (3.0, 1.0, 2.0, 10.0))
    assert figure.median == 2.5
    assert str(figure) == "2.50 [1.00..10.0]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.123, "0.12"),
        (9.994, "9.99"),
        (12.34, "12.3"),
        (123.4, "123"),
        (9876, "9,876"),
    ],
)
def test_three_digits_are_shown(value: float, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("value", "most", "verdict"),
    [
        (1.9, False, "missed"),
        (2.0, False, "met"),
        (3.0, False, "stretch"),
        (0.9, True, "stretch"),
        (2.0, True, "met"),
        (2.1, True, "missed"),
    ],
)
def test_a_goal_says_what_is_reached(value: float, most: bool, verdict: str) -> None:
    goal = Goal("", "", 2.0, 1.0 if most else 3.0, most=most)
    assert goal.verdict(value) == verdict
    assert (goal.share(value) >= 1.0) == (verdict != "missed")


def test_only_what_misses_its_goal_is_missed() -> None:
    assert [figure.name for figure in sheet().missed] == ["open streams"]


def test_a_figure_without_values_or_with_an_unknown_goal_is_refused() -> None:
    made = sheet()
    with pytest.raises(ValueError, match="no value"):
        made.add("nothing", "x", [])
    with pytest.raises(KeyError):
        made.add("something", "x", [1.0], "G99")
    assert len(made.figures) == 3


def test_a_sheet_comes_back_from_its_file(tmp_path: Path) -> None:
    sheet().write(tmp_path / "out")
    sheet().write(tmp_path / "out", part="mixed")
    assert read_sheets(tmp_path / "out") == [sheet(), sheet()]


def test_the_table_says_goal_and_verdict() -> None:
    lines = list(sheet().lines())
    assert re.search(r"stock +3\.50 \[2\.90\.\.8\.00\] x +≥ 3, stretch 7 \(met\)", lines[0])
    assert "(missed)" in lines[1]
    assert lines[3] == "calibration 50.0 [40.0..90.0] ns"


def test_every_goal_names_a_bench_that_there_is() -> None:
    assert {goal.bench for goal in GOALS.values()} <= {*BENCHES, *WITH_KAFKA, *BY_ITSELF}
    assert {*AGAINST.values()} <= GOALS.keys()


@pytest.mark.parametrize("bench", [*BENCHES, *WITH_KAFKA, *BY_ITSELF])
def test_every_bench_is_there_to_be_run(bench: str) -> None:
    """Most are run by hand only: what they need of others may have gone meanwhile."""
    module = import_module(f"tests.bench.{bench}")
    assert isinstance(module.BENCH, Bench)


def test_each_of_the_eighteen_goals_of_the_design_has_a_bench_or_a_reason() -> None:
    numbers = {key.partition("-")[0] for key in (*GOALS, *NOT_MEASURED)}
    assert {f"G{number}" for number in range(1, 19)} <= numbers


def test_the_report_is_made_of_what_benches_left(tmp_path: Path) -> None:
    out, docs = tmp_path / "out", tmp_path / "docs"
    docs.mkdir()
    sheet().write(out)
    assert report.main([str(out), "--note", "A busy machine."], docs) == 0
    page = (docs / "performance.md").read_text("utf-8")
    assert "A busy machine." in page
    assert "| ours over stock | transport | 3.50 [2.90..8.00] x | ≥ 3 | ≥ 7 | met |" in page
    assert "| wall | 1,234 [1,234..1,234] | MB/s |" in page
    assert "calibration 50.0 [40.0..90.0] ns" in page
    assert GOALS["G9"].text in page  # has no figure here
    assert NOT_MEASURED["G2"] in page
    kept = json.loads((docs / "performance.json").read_text("utf-8"))
    assert kept["sheets"][0]["figures"][0]["values"] == [3.5, 2.9, 8.0]
    before = [path.read_bytes() for path in sorted(docs.iterdir())]
    assert report.main([], docs) == 0
    assert [path.read_bytes() for path in sorted(docs.iterdir())] == before


def test_a_figure_that_is_missed_has_its_reason_below_the_table(tmp_path: Path) -> None:
    made = sheet()
    made.add("500 over 50", "x", [3.7], "connections")
    text = report.page([made])
    assert f"* {GOALS['connections'].text}: {NOT_REACHED['connections']}." in text
    assert NOT_REACHED["active"] not in text  # is not missed here
    assert set(NOT_REACHED) <= set(GOALS)


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        report.main([str(tmp_path)], tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_page_is_what_its_figures_say() -> None:
    sheets, note = report.kept(report.DOCS)
    assert (report.DOCS / report.PAGE).read_text("utf-8") == report.page(sheets, note)
    missed = {each.goal for _, each in report.with_goals(sheets) if each.verdict == "missed"}
    assert missed <= set(NOT_REACHED)


def test_the_chart_has_a_row_for_each_figure_with_a_goal_and_fits_its_axis() -> None:
    made = sheet()
    made.add("a hundredfold & more", "x", [300.0, 0.001, 300.0], "G1")
    svg = ElementTree.fromstring(chart(made.figures, "Figures"))
    space = "{http://www.w3.org/2000/svg}"
    dots = svg.findall(f"{space}circle")
    assert [dot.get("class") for dot in dots] == ["met", "missed", "met"]
    ends = place(LEAST), place(GREATEST)
    for dot in dots:
        assert ends[0] <= float(dot.get("cx", "0")) <= ends[1]
    texts = [text.text for text in svg.findall(f"{space}text")]
    assert "a hundredfold & more" in texts
    assert "wall" not in texts


def test_the_axis_grows_with_the_share_and_one_is_where_the_goal_is() -> None:
    places = [place(share) for share in (0.01, LEAST, 0.5, 1.0, 2.0, GREATEST, 100.0)]
    assert places == sorted(places)
    assert place(1.0) - place(0.5) == pytest.approx(place(2.0) - place(1.0))


def test_a_page_gets_the_table_of_a_sheet_and_keeps_the_rest() -> None:
    made = Sheet("triggers", "t")
    for line, (age, rate) in {"none": (5.0, 7_000.0), "1 s": (600.0, 9_000.0)}.items():
        made.add(f"{line}: age", "ms", [age])
        made.add(f"{line}: rows", "", [rate])
    page = "before\n<!-- triggers -->\nold\n<!-- end -->\nbehind\n"
    with_it = report.with_table(page, made)
    table = ["| Trigger | age, ms | rows |", "|---|---|---|", "| none | 5.00 | 7,000 |"]
    assert with_it.startswith("\n".join(["before", "<!-- triggers -->", "", *table]))
    assert "| 1 s | 600 | 9,000 |\n" in with_it
    assert "old" not in with_it
    assert with_it.endswith("<!-- end -->\nbehind\n")
    assert report.with_table(with_it, made) == with_it
    with pytest.raises(ValueError, match="no place for the table of triggers"):
        report.with_table("a page", made)
