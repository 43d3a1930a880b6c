"""What a bench says: figures over repetitions, with their goals, as a table and as JSON.

A figure is what each repetition gave, so that its median and its range can be told; where it is a
ratio, each value is that of one repetition. A sheet is the figures of one run of a bench, and how
loaded the machine was meanwhile.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.goals import GOALS, Goal

LIBRARIES = ("aioquic", "pyspark", "pyarrow", "numpy", "cryptography")
LOOP = 200_000
"""Iterations of the loop that tells how loaded the machine is."""


class Figure(NamedTuple):
    """``values``: of each repetition, at least one. ``goal``: its key in ``GOALS``, or none."""

    name: str
    unit: str
    values: tuple[float, ...]
    goal: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def aim(self) -> Goal | None:
        return GOALS[self.goal] if self.goal else None

    @property
    def verdict(self) -> str:
        """Which part of its goal the median reaches; empty without a goal."""
        return self.aim.verdict(self.median) if self.aim else ""

    def __str__(self) -> str:
        return f"{shown(self.median)} [{shown(min(self.values))}..{shown(max(self.values))}]"


@dataclass
class Sheet:
    """Figures of one run of the bench ``name``; ``calibration``: nanoseconds of one iteration of a
    fixed loop, before each repetition."""

    name: str
    title: str
    figures: list[Figure] = field(default_factory=list)
    calibration: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    machine: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, unit: str, values: Iterable[float], goal: str = "") -> Figure:
        """Raises KeyError for a goal that nobody set, ValueError without a value."""
        figure = Figure(name, unit, tuple(values), goal)
        if not figure.values:
            raise ValueError(f"{self.name}: {name} has no value")
        if goal:
            GOALS[goal]
        self.figures.append(figure)
        return figure

    def calibrate(self) -> None:
        """Note how loaded the machine is now."""
        self.calibration.append(calibration())

    @property
    def missed(self) -> list[Figure]:
        return [figure for figure in self.figures if figure.verdict == "missed"]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "machine": self.machine,
            "calibration": self.calibration,
            "notes": self.notes,
            "figures": [{**each._asdict(), "values": list(each.values)} for each in self.figures],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Sheet:
        figures = [
            Figure(each["name"], each["unit"], tuple(each["values"]), each["goal"])
            for each in data["figures"]
        ]
        return cls(
            data["name"],
            data["title"],
            figures,
            data["calibration"],
            data["notes"],
            data["machine"],
        )

    def write(self, folder: Path, part: str = "") -> None:
        """Keep it as NAME.json in ``folder``; a ``part`` of the bench beside others."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False)
        self._file(folder, part).write_text(text + "\n", "utf-8")

    def forget(self, folder: Path, part: str = "") -> None:
        """Away with what an earlier run has kept there: of the part, or of the bench and all of its
        parts. So a run that fails leaves no figures of another one for its own."""
        self._file(folder, part).unlink(missing_ok=True)
        if not part:
            for path in folder.glob(f"{self.name}.*.json"):
                path.unlink()

    def _file(self, folder: Path, part: str) -> Path:
        return folder / f"{self.name}{part and '.'}{part}.json"

    def lines(self) -> Iterator[str]:
        """The table for a terminal."""
        width = max((len(figure.name) for figure in self.figures), default=0)
        for figure in self.figures:
            goal = f"  {figure.aim} ({figure.verdict})" if figure.aim else ""
            yield f"{figure.name:{width}}  {figure!s:>24} {figure.unit:<6}{goal}".rstrip()
        if self.calibration:
            yield f"calibration {Figure('', 'ns', tuple(self.calibration))} ns"
        yield from self.notes


def read_sheets(folder: Path) -> list[Sheet]:
    """All that benches have left in ``folder``, by their names."""
    return [
        Sheet.from_json(json.loads(path.read_text("utf-8")))
        for path in sorted(folder.glob("*.json"))
    ]


def shown(value: float) -> str:
    """Three digits that count, and thousands apart."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def calibration() -> float:
    """Nanoseconds of one iteration of a fixed loop: how loaded the machine is."""
    begin = time.perf_counter()
    for _ in range(LOOP):
        pass
    return (time.perf_counter() - begin) / LOOP * 1e9


def machine() -> dict[str, str]:
    """What figures depend on, as far as it is no name of anybody."""
    return {
        "cpus": str(len(os.sched_getaffinity(0))),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in LIBRARIES if name in _installed()},
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _installed() -> set[str]:
    return {each.name.lower() for each in metadata.distributions(path=sys.path)}
