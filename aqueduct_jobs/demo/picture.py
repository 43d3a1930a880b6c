"""The picture of the demo: load per core, end-to-end latency, and the ledger as bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from aqueduct_jobs.demo.ledger import Line

# A palette that stays apart for colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
LATENCY_STEPS = (
    ("stored", "timestamp", "producer to intake"),
    ("visible", "written", "producer to table"),
)


def draw(table: DataFrame, lines: Sequence[Line], path: Path) -> None:
    """Write one PNG with three panels to ``path``."""
    figure, axes = plt.subplots(3, 1, figsize=(10, 11), layout="constrained")
    figure.suptitle("This machine's telemetry, through Aqueduct channels into a Spark table")
    _load(axes[0], table)
    _latency(axes[1], table)
    _ledger(axes[2], lines)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _load(axis: Any, table: DataFrame) -> None:
    text = F.col("value").cast("string")
    rows = (
        table.where("channel = 'load'")
        .select(
            F.get_json_object(text, "$.at").cast("double").alias("at"),
            F.from_json(F.get_json_object(text, "$.cores"), "array<double>").alias("cores"),
        )
        .orderBy("at")
        .collect()
    )
    begun = rows[0]["at"] if rows else 0.0
    width = len(rows[0]["cores"]) if rows else 0
    half = 12  # a centred mean over half a second at 50 Hz: single ticks are either 0 or 100
    for core in range(width):
        series = [row["cores"][core] for row in rows]
        means = [
            sum(series[max(0, i - half) : i + half + 1])
            / len(series[max(0, i - half) : i + half + 1])
            for i in range(len(series))
        ]
        times = [row["at"] - begun for row in rows]
        axis.plot(times, means, label=f"core {core}", color=COLOURS[core % len(COLOURS)], lw=1.4)
    axis.set(title="Load per core (mean over 0.5 s)", xlabel="seconds", ylabel="percent busy")
    axis.set_ylim(0, 105)
    if width <= len(COLOURS):
        axis.legend(loc="upper right")


def _latency(axis: Any, table: DataFrame) -> None:
    sent = F.get_json_object(F.col("value").cast("string"), "$.at").cast("double")
    channels = [row[0] for row in table.select("channel").distinct().orderBy("channel").collect()]
    quantiles = [i / 100 for i in range(1, 100)]
    for style, (_, column, label) in zip(("--", "-"), LATENCY_STEPS, strict=True):
        delay = (F.col(column).cast("double") - sent) * 1000
        for index, channel in enumerate(channels):
            values = (
                table.where(F.col("channel") == channel)
                .agg(F.percentile_approx(delay, F.array(*map(F.lit, quantiles))))
                .first()
            )
            if values is not None and values[0]:
                milliseconds = [max(value, 0.1) for value in values[0]]
                axis.plot(
                    milliseconds,
                    [q * 100 for q in quantiles],
                    style,
                    color=COLOURS[index],
                    label=f"{channel}, {label}",
                )
    axis.set_xscale("log")
    axis.set(
        title="End-to-end latency",
        xlabel="milliseconds since the producer read the value (log scale)",
        ylabel="percent of messages",
    )
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)


def _ledger(axis: Any, lines: Sequence[Line]) -> None:
    bars = (("sent", "sent"), ("stored (rows)", "rows"), ("lost on the way (nacked)", "nacked"))
    for index, (label, name) in enumerate(bars):
        values = [getattr(line, name) for line in lines]
        places = [i + (index - 1) * 0.27 for i in range(len(lines))]
        drawn = axis.bar(places, values, width=0.25, label=label, color=COLOURS[index])
        axis.bar_label(drawn, fmt="{:,.0f}", fontsize=8)
    axis.set_xticks(range(len(lines)), [f"{line.channel}\n{line.mode}" for line in lines])
    axis.margins(y=0.15)
    axis.set(title="Every message accounted for", ylabel="messages")
    axis.legend()
