"""The formulas of docs/sizing.md are those of its table, and near to what was measured."""

from __future__ import annotations

import json
import math
import re
from statistics import median

import pytest

from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "sizing.md").read_text("utf-8")
SHEETS = json.loads((ROOT / "docs" / "performance.json").read_text("utf-8"))["sheets"]
FIGURES = {
    (sheet["name"], figure["name"]): median(figure["values"])
    for sheet in SHEETS
    for figure in sheet["figures"]
}
EXAMPLES = re.findall(
    r"^\| ([\d,]+) messages a second of ([\d,]+) bytes"
    r" \| ([\d.]+) \| (\d+) \| (\d+) GB \| ([\d.]+) \|$",
    PAGE,
    re.MULTILINE,
)


def formula(name: str) -> tuple[float, float]:
    """Microseconds for a message, and nanoseconds for a byte of it."""
    [(message, byte)] = re.findall(
        rf"^{name} += m · \(([\d.]+) µs \+ b · ([\d.]+) ns\)", PAGE, re.M
    )
    return float(message), float(byte)


def microseconds(name: str, size: int) -> float:
    message, byte = formula(name)
    return message + size * byte / 1000


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_table_follows_from_the_formulas(example: tuple[str, ...]) -> None:
    rate, size, *said = (float(text.replace(",", "")) for text in example)
    processors = rate * microseconds("intake processors", int(size)) / 1e6
    spark = rate * microseconds("Spark processors", int(size)) / 1e6 + 0.2
    spool = rate * size * 3600 * 1.2 / 1e9
    expected = [processors, math.ceil(processors / 0.5), spool, spark]
    assert said == pytest.approx(expected, abs=0.5, rel=0.02)
    assert said[0] == pytest.approx(processors, abs=0.006)
    assert said[3] == pytest.approx(spark, abs=0.006)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize("size", ["100", "1,000", "65,536"])
def test_formulas_are_near_to_what_was_measured(size: str) -> None:
    count = int(size.replace(",", ""))
    at = f"{size} B: wire → durable"
    small = FIGURES["pipeline", f"{at} in datagrams of 1,200 bytes, receivers' CPU a message"]
    large = FIGURES["pipeline", f"{at}, receivers' CPU a message"]
    everything = FIGURES["pipeline", f"{size} B: wire → DataFrame, receivers' CPU a message"]
    assert microseconds("intake processors", count) == pytest.approx(small, rel=0.2)
    assert small == pytest.approx(2 * large, rel=0.2)
    assert microseconds("Spark processors", count) == pytest.approx(everything - large, rel=0.2)


@pytest.mark.parametrize(
    ("part", "kind", "said"),
    [("1 KB in task and intake together", "1,000 B", 10), ("100 bytes,", "100 B", 2)],
)
def test_the_sink(part: str, kind: str, said: float) -> None:
    assert part in PAGE
    found = sum(FIGURES["sink_task", f"{kind}: {whose} CPU"] for whose in ("task's", "intake's"))
    assert found == pytest.approx(said, rel=0.2)
