"""docs/comparison.md: its figures are those that were measured, and each ask has four answers."""

from __future__ import annotations

from tests.bench.report import kept
from tests.bench.sheet import shown
from tests.support.repository import ROOT

MEASURED = {
    "`df.write` until": [("kafka_write", "1,000 B: df.write, ours over Kafka, durable, TLS")],
    "the same, over": [("kafka_write", "1,000 B: df.write, ours over Kafka, page cache, plain")],
    "stored rows": [("kafka_rows", "1,000 B: stored → noop, ours over Kafka's backlog")],
    "wire → DataFrame": [
        ("kafka_rows", "1,000 B: wire → DataFrame, ours over Kafka, durable, TLS")
    ],
    "producer → durable, over librdkafka": [
        ("kafka_producers", "100 B: ours over librdkafka, durable, TLS"),
        ("kafka_producers", "1,000 B: ours over librdkafka, durable, TLS"),
    ],
    "producer → durable, over kafka-python": [
        ("kafka_producers", "1,000 B: ours over kafka-python, durable, TLS")
    ],
    "send → row": [
        ("kafka_latency", "send → row, p50, ours over Kafka's"),
        ("kafka_latency", "send → row, p99, ours over Kafka's"),
    ],
    "`start()` →": [
        ("kafka_start", "start() → first batch planned, ours over Kafka's"),
        ("kafka_start", "start() → first batch planned, ours"),
        ("kafka_start", "start() → first batch planned, Kafka"),
    ],
}
"""How a line of the table begins, and the figures that stand in it."""


def lines(heading: str) -> list[list[str]]:
    """The cells of the table below it, without its head."""
    page = (ROOT / "docs/comparison.md").read_text("utf-8")
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_the_figures_are_those_that_were_measured() -> None:
    sheets, _ = kept(ROOT / "docs")
    values = {
        (sheet.name, figure.name): shown(figure.median)
        for sheet in sheets
        for figure in sheet.figures
    }
    for (what, cell), (start, figures) in zip(lines("In figures"), MEASURED.items(), strict=True):
        assert what.startswith(start)
        for figure in figures:
            assert values[figure] in cell


def test_each_ask_has_four_answers() -> None:
    asks = lines("Twenty-five asks")
    assert [row[0] for row in asks] == [str(number) for number in range(1, 26)]
    assert all(len(row) == 6 and all(row) for row in asks)
