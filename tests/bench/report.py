"""``docs/performance.md`` with its chart and its figures, from what benches left as JSON.

    python -m tests.bench.report DIRECTORY [--note TEXT] [--add]

Writes ``docs/performance.json`` (all figures, of each repetition) and makes the page and the
picture of it, and the table of triggers in ``docs/tuning.md``; without a DIRECTORY it makes these
again of the JSON that is there. With ``--add`` the figures of other benches, and the note, stay.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.bench.chart import chart
from tests.bench.goals import GOALS, NOT_MEASURED, NOT_REACHED
from tests.bench.sheet import Figure, Sheet, read_sheets, shown
from tests.support.repository import ROOT

DOCS = ROOT / "docs"
FIGURES, PAGE, PICTURE = "performance.json", "performance.md", "performance.svg"
TUNING, TRIGGERS = "tuning.md", "triggers"
"""A page with the table of a bench, whose figures are called ``line: column``."""
BEGIN, END = f"<!-- {TRIGGERS} -->\n", "<!-- end -->\n"
TITLE = "Figures over what they must be; more is better"
MARKS = {"missed": "missed", "met": "met", "stretch": "stretch"}

HEAD = """# How fast it is

Made by `python -m tests.bench.report` of what `make bench` and `make bench-kafka` leave; not
written by hand. What has a goal is a ratio to a reference of the same minute on the same machine,
or says its unit; an absolute figure is that of one small machine. Each is the median of the
repetitions, and in brackets the least and the greatest of them. Reference and candidate run in
opposite order by turns, and the calibration (nanoseconds of a turn of an empty Python loop) tells
how loaded the machine was: the same in all repetitions on a quiet one.

![Figures and their goals](performance.svg)
"""


def page(sheets: Sequence[Sheet], note: str = "") -> str:
    """The page as Markdown."""
    return "\n".join(_lines(sheets, note)).rstrip() + "\n"


def _lines(sheets: Sequence[Sheet], note: str) -> Iterator[str]:
    yield HEAD
    if note:
        yield f"{note}\n"
    yield "## What has a goal\n"
    yield "| Figure | Bench | Median [range] | Must | Stretch | |"
    yield "|---|---|---|---|---|---|"
    for sheet, figure in with_goals(sheets):
        goal = figure.aim
        assert goal is not None
        sign = "≤" if goal.most else "≥"
        further = "" if goal.stretch is None else f"{sign} {goal.stretch:g}"
        yield (
            f"| {figure.name} | {sheet.name} | {figure} {goal.unit} | {sign} {goal.must:g} "
            f"| {further} | {MARKS[figure.verdict]} |"
        )
    missed = {figure.goal for _, figure in with_goals(sheets) if figure.verdict == "missed"}
    if missed:
        yield "\nWhy figures are missed:\n"
        for key in [key for key in GOALS if key in missed]:
            yield f"* {GOALS[key].text}: {NOT_REACHED.get(key, 'not known yet')}."
    reached = {figure.goal for _, figure in with_goals(sheets)}
    if missing := [goal for key, goal in GOALS.items() if key not in reached]:
        yield "\nWithout a figure here, though there is a bench for it:\n"
        for goal in missing:
            yield f"* {goal.text}: `make bench{_suffix(goal.bench)} ONLY={goal.bench}`"
    yield "\nWithout a bench:\n"
    for key, reason in NOT_MEASURED.items():
        yield f"* {key}: {reason}"
    for sheet in sheets:
        yield f"\n## {sheet.name}: {sheet.title}\n"
        yield "| Figure | Median [range] | Unit |"
        yield "|---|---|---|"
        for figure in sheet.figures:
            yield f"| {figure.name} | {figure} | {figure.unit} |"
        yield ""
        yield _conditions(sheet)
        for text in sheet.notes:
            yield f"\n{text}"


def _suffix(bench: str) -> str:
    return "-kafka" if bench.startswith("kafka") else "-long" if bench == "long" else ""


def _conditions(sheet: Sheet) -> str:
    parts = [f"{key} {value}" for key, value in sheet.machine.items()]
    if sheet.calibration:
        parts.append(f"calibration {Figure('', 'ns', tuple(sheet.calibration))} ns")
    most = max((len(figure.values) for figure in sheet.figures), default=0)
    return f"{most} repetitions; {', '.join(parts)}."


def with_goals(sheets: Sequence[Sheet]) -> list[tuple[Sheet, Figure]]:
    """In the order of the goals."""
    found = [(sheet, figure) for sheet in sheets for figure in sheet.figures if figure.goal]
    order = {key: number for number, key in enumerate(GOALS)}
    return sorted(found, key=lambda each: order[each[1].goal])


def write(sheets: Sequence[Sheet], docs: Path, note: str = "") -> None:
    """All three files."""
    data: dict[str, Any] = {"note": note, "sheets": [sheet.to_json() for sheet in sheets]}
    (docs / FIGURES).write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")
    (docs / PAGE).write_text(page(sheets, note), "utf-8")
    for sheet in sheets:
        if sheet.name == TRIGGERS:
            tuning = (docs / TUNING).read_text("utf-8")
            (docs / TUNING).write_text(with_table(tuning, sheet), "utf-8")
    figures = [figure for _, figure in with_goals(sheets)]
    (docs / PICTURE).write_text(chart(figures, TITLE), "utf-8")


def with_table(text: str, sheet: Sheet) -> str:
    """A page whose table is that of the sheet. Raises ValueError where it has no place for one."""
    before, begin, rest = text.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not end:
        raise ValueError(f"the page has no place for the table of {sheet.name}")
    lines: dict[str, dict[str, Figure]] = {}
    for figure in sheet.figures:
        line, _, column = figure.name.rpartition(": ")
        lines.setdefault(line, {})[f"{column}, {figure.unit}".removesuffix(", ")] = figure
    columns = list(next(iter(lines.values())))
    table = [f"| Trigger | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for line, figures in lines.items():
        cells = " | ".join(shown(figures[column].median) for column in columns)
        table.append(f"| {line} | {cells} |")
    made = "\n".join(("", *table, "", _conditions(sheet), ""))
    return f"{before}{begin}{made}\n{end}{behind}"


def kept(docs: Path) -> tuple[list[Sheet], str]:
    """The sheets and the note of an earlier report."""
    data = json.loads((docs / FIGURES).read_text("utf-8"))
    return [Sheet.from_json(each) for each in data["sheets"]], data["note"]


def main(arguments: list[str] | None = None, docs: Path = DOCS) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--note", default="", help="what a reader should know of these runs")
    parser.add_argument("--add", action="store_true", help="keep the figures of other benches")
    options = parser.parse_args(arguments)
    sheets, note = kept(docs) if options.add or options.directory is None else ([], options.note)
    if options.directory is not None:
        found = read_sheets(options.directory)
        if not found:
            parser.error(f"{options.directory} has no figures")
        names = {sheet.name for sheet in found}
        sheets = [*(sheet for sheet in sheets if sheet.name not in names), *found]
        sheets.sort(key=lambda sheet: sheet.name)
    write(sheets, docs, note)
    for sheet, figure in with_goals(sheets):
        print(f"{sheet.name}: {figure.name}: {shown(figure.median)} ({figure.verdict})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
