"""Rows of the table of options: how rows are sent."""

from __future__ import annotations

from aqueduct_spark.model import values
from aqueduct_spark.model.option_spec import BATCH_WRITE, WRITE, OptionSpec

WRITE_SPECS: tuple[OptionSpec, ...] = (
    OptionSpec(
        "channel",
        values.short_text(256),
        None,
        WRITE,
        BATCH_WRITE,
        "Name of the channel for all rows; beats the column of that name.",
    ),
    OptionSpec(
        "reliability",
        values.choice("ordered", "unordered", "unreliable"),
        "ordered",
        WRITE,
        BATCH_WRITE,
        "How rows are sent where they have no column reliability.",
    ),
    OptionSpec(
        "writerId",
        values.short_text(48),
        None,
        WRITE,
        BATCH_WRITE,
        "Who writes; a fresh id by default. Told to the receiver as the producer.",
    ),
    OptionSpec(
        "ackTimeout",
        values.positive_duration,
        "120s",
        WRITE,
        BATCH_WRITE,
        "A task fails when messages wait longer than that for their acks.",
    ),
    OptionSpec(
        "maxInFlightBytes",
        values.size,
        "32m",
        WRITE,
        BATCH_WRITE,
        "Bytes sent and not yet acked, for each connection.",
    ),
    OptionSpec(
        "finish",
        values.boolean,
        None,
        WRITE,
        BATCH_WRITE,
        "Finish the channels at the end: true for a batch, false for a stream.",
    ),
    OptionSpec(
        "maxLossRatio",
        values.ratio,
        "1.0",
        WRITE,
        BATCH_WRITE,
        "Fail when a larger share of the unreliable messages was lost.",
    ),
)
