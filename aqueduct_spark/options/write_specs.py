"""Rows of the table of options: how rows are sent."""

from __future__ import annotations

from aqueduct_core.aqueduct.conventions.dedupe.numbering import MAX_BATCH
from aqueduct_spark.options import values
from aqueduct_spark.options.spec import BATCH_WRITE, WRITE, OptionSpec

WRITE_SPECS: tuple[OptionSpec, ...] = (
    OptionSpec(
        "writerId",
        values.short_text(48),
        None,
        WRITE,
        WRITE,
        "Who writes, the scope of idempotence; told to the receiver as the producer. The id of the "
        "query for a stream (not its name, which a new checkpoint may have too), a fresh id for a "
        "batch. Rows that are written again with the same "
        "writerId, batchId, partition and place are the same rows: an intake stores them once.",
    ),
    OptionSpec(
        "batchId",
        values.integer(0, MAX_BATCH),
        None,
        BATCH_WRITE,
        BATCH_WRITE,
        "Number of this write among those with the same writerId, rising, such as that of "
        "foreachBatch; required with writerId, but for idempotence=source.",
    ),
    OptionSpec(
        "idempotence",
        values.choice("auto", "headers", "source", "none"),
        "auto",
        WRITE,
        WRITE,
        "How rows say who they are: auto numbers them for each channel, and puts headers batch and "
        "row on each where the receiver does not say that it stores numbers once; headers does "
        "both always; source knows each reliable row by its columns spool, partition and "
        "offset, as they come from a read with includeSpool, whatever Spark does in between (not "
        "with payloadFormat=arrow); none neither, for input whose rows change from one attempt to "
        "the next.",
    ),
    OptionSpec(
        "endpointPolicy",
        values.choice("hash", "failover"),
        "hash",
        WRITE,
        WRITE,
        "With several addresses: hash sends each channel to one of them by its name and fails when "
        "one is down; failover goes on with the next one that answers. Both dial a lost "
        "connection again (connectTimeout).",
    ),
    OptionSpec(
        "connectTimeout",
        values.duration,
        None,
        WRITE,
        WRITE,
        "A task dials an endpoint that does not answer, or not any more, for so long before it "
        "fails, and says so in the log of its executor: 60s for a stream; 0s for a batch, which "
        "dials once, and for 2 s when it has lost the connection.",
    ),
    OptionSpec(
        "ackTimeout",
        values.positive_duration,
        "120s",
        WRITE,
        WRITE,
        "A task fails when messages wait that long for their acks while the path takes nothing "
        "of them.",
    ),
    OptionSpec(
        "maxInFlightBytes",
        values.size,
        "32m",
        WRITE,
        WRITE,
        "Bytes sent and not yet acked, for each connection.",
    ),
    OptionSpec(
        "sessionDirectory",
        values.path,
        None,
        WRITE,
        WRITE,
        "Directory on the executors, of their user alone, where TLS sessions and address tokens of "
        "the endpoint are kept for other worker processes; by default each has its own in memory.",
    ),
    OptionSpec(
        "finish",
        values.boolean,
        None,
        WRITE,
        WRITE,
        "Finish the channels at the end: true for a batch, false for a stream.",
    ),
    OptionSpec(
        "maxLossRatio",
        values.ratio,
        "1.0",
        WRITE,
        WRITE,
        "Fail when a larger share of the unreliable messages was lost.",
    ),
)
