"""Rows of the table of options: which rows a read gives, and in which portions."""

from __future__ import annotations

from aqueduct_core.primitives import units
from aqueduct_spark.options import values
from aqueduct_spark.options.spec import (
    BATCH_READ,
    READ,
    STREAM_READ,
    WRITE,
    OptionSpec,
)
from aqueduct_spark.options.starting import parse_starting
from aqueduct_spark.options.until import parse_until

READ_SPECS: tuple[OptionSpec, ...] = (
    OptionSpec(
        "view",
        values.choice("messages", "events", "status"),
        "messages",
        READ,
        READ,
        "What the rows are: messages, events of connections and channels, or (in a batch) the"
        " status of the intakes.",
    ),
    OptionSpec(
        "channels",
        values.names,
        None,
        READ,
        READ,
        "Restrict to these channel names.",
    ),
    OptionSpec(
        "channelsPattern",
        values.pattern,
        None,
        READ,
        READ,
        "Restrict to channel names that a regular expression matches in full.",
    ),
    OptionSpec(
        "producers",
        values.names,
        None,
        READ,
        READ,
        "Restrict to these producers.",
    ),
    OptionSpec(
        "includeSpool",
        values.boolean,
        "false",
        READ,
        READ,
        "Add spool, the identity of the spool that holds the row: with partition and offset it "
        "names the row for ever, as a write with idempotence=source needs it.",
        messages_only=True,
    ),
    OptionSpec(
        "payloadFormat",
        values.choice("binary", "text", "json", "arrow"),
        "binary",
        READ | WRITE,
        READ | WRITE,
        "How payloads become values, and values payloads: binary, text, json (an object for each "
        "row) or arrow (an IPC stream of up to 8,192 rows); the last two need .schema(…) on "
        "read.",
        messages_only=True,
    ),
    OptionSpec(
        "mode",
        values.choice("permissive", "dropMalformed", "failFast"),
        "permissive",
        READ,
        READ,
        "What becomes of a payload that does not parse: permissive gives a row of nulls, with the "
        "columns _corrupt and _corruptReason where the schema has them.",
        messages_only=True,
    ),
    OptionSpec(
        "cursor",
        values.cursor_name,
        None,
        STREAM_READ,
        STREAM_READ,
        "Name of the query's position in the spool, which keeps what the query still needs; "
        "queries on the same spool use different ones: a cursor belongs to the first query that "
        "comes under its name. By default query, and events for view=events.",
    ),
    OptionSpec(
        "takeCursor",
        values.boolean,
        "false",
        STREAM_READ,
        STREAM_READ,
        "A query whose checkpoint knows nothing of the spool takes the cursor from the query that "
        "it belongs to, when that one has stopped; that one is refused from then on. For "
        "checkpoints that are thrown away on purpose, as by the full refresh of a pipeline.",
    ),
    OptionSpec(
        "startingOffsets",
        parse_starting,
        "earliest",
        READ,
        READ,
        "Where a new query starts: earliest, latest, or JSON of offsets by intake and partition.",
    ),
    OptionSpec(
        "startingTimestamp",
        units.timestamp,
        None,
        READ,
        READ,
        "Where a new query starts, as an ISO-8601 receive time; UTC where no zone is given.",
    ),
    OptionSpec(
        "endingOffsets",
        parse_starting,
        "latest",
        BATCH_READ,
        BATCH_READ,
        "Where a batch read ends, in the same forms.",
    ),
    OptionSpec(
        "endingTimestamp",
        units.timestamp,
        None,
        BATCH_READ,
        BATCH_READ,
        "Where a batch read ends: before this ISO-8601 receive time.",
    ),
    OptionSpec(
        "until",
        parse_until,
        None,
        BATCH_READ,
        BATCH_READ,
        "What ends a batch read: finish (the default with endpoint), idle:<duration> or "
        "offset (the default else).",
    ),
    OptionSpec(
        "untilTimeout",
        values.positive_duration,
        None,
        BATCH_READ,
        BATCH_READ,
        "The longest wait of a batch read for its end; required with finish and idle.",
    ),
    OptionSpec(
        "maxOffsetsPerTrigger",
        values.integer(1),
        None,
        STREAM_READ,
        STREAM_READ,
        "Messages of one micro-batch at most, shared out evenly: what a quiet partition "
        "leaves goes to the busy ones.",
    ),
    OptionSpec(
        "maxBytesPerTrigger",
        values.size,
        "256m",
        STREAM_READ,
        STREAM_READ,
        "Stored bytes of one micro-batch, shared out in the same way; at least one message "
        "goes through.",
    ),
    OptionSpec(
        "minOffsetsPerTrigger",
        values.integer(1),
        None,
        STREAM_READ,
        STREAM_READ,
        "Wait for that many messages before a micro-batch; not where it is as large as it may be, "
        "or the spool takes no more until they are read. Without it one is planned as soon as "
        "there is a message, but under load (20,000 messages or 8 MB a second) about once a "
        "second; 1: as soon as there is one, under load too.",
    ),
    OptionSpec(
        "maxTriggerDelay",
        values.positive_duration,
        "15m",
        STREAM_READ,
        STREAM_READ,
        "The longest wait for minOffsetsPerTrigger.",
    ),
    OptionSpec(
        "minPartitions",
        values.integer(1, 100_000),
        None,
        READ,
        READ,
        "Tasks to aim at for a micro-batch or batch; ranges are split for it.",
    ),
    OptionSpec(
        "maxRecordsPerPartition",
        values.integer(1),
        None,
        READ,
        READ,
        "Most rows of one task.",
    ),
    OptionSpec(
        "maxBytesPerPartition",
        values.size,
        "64m",
        READ,
        READ,
        "Stored bytes of one task, as far as sizes are known when it is planned.",
    ),
    OptionSpec(
        "failOnDataLoss",
        values.boolean,
        "true",
        READ,
        READ,
        "Stop when messages that were asked for are gone; false goes on behind the hole, where the"
        " spool itself says so. What cannot be reached, or is damaged, is never passed over.",
    ),
    OptionSpec(
        "lostSpools",
        values.names,
        None,
        STREAM_READ,
        STREAM_READ,
        "Spools that are gone for good, by the id that the error names: the query goes on without"
        " what it has not read of them. Nothing else lets it go on with another spool.",
    ),
    OptionSpec(
        "onCancel",
        values.choice("keep", "fail"),
        "keep",
        READ,
        READ,
        "What becomes of the stored messages of a cancelled channel: they stay rows, or the "
        "query fails. A read with until=finish fails unless keep is written.",
    ),
    OptionSpec(
        "fetchTimeout",
        values.positive_duration,
        "120s",
        READ,
        READ,
        "The longest wait of a task for an intake.",
    ),
)
