"""The table of all options: one row each, the source of the parsing and of docs/options.md.

An option is known when it has a row, and usable for the kinds of query in ``built``. The kinds in
``kinds`` but not in ``built`` are planned: such an option is refused by its name, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from aqueduct_spark.model import values
from aqueduct_spark.model.starting import parse_starting


class Kind(Enum):
    """What a query does with the format."""

    STREAM_READ = "a stream read"
    BATCH_READ = "a batch read"
    STREAM_WRITE = "a stream write"
    BATCH_WRITE = "a batch write"


READ = frozenset({Kind.STREAM_READ, Kind.BATCH_READ})
WRITE = frozenset({Kind.STREAM_WRITE, Kind.BATCH_WRITE})
STREAM_READ = frozenset({Kind.STREAM_READ})
BATCH_READ = frozenset({Kind.BATCH_READ})
BATCH_WRITE = frozenset({Kind.BATCH_WRITE})
NOT_YET: frozenset[Kind] = frozenset()


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option.

    Args:
        name: as users write it; case does not count.
        parse: text to value; raises ``ValueError`` with what is allowed.
        default: as a user would write it; None where there is none.
        kinds: the kinds of query it is meant for.
        built: the kinds of query that this version does it for.
        doc: one sentence for users.
        only: values that are planned but not built are refused when this is not empty.
    """

    name: str
    parse: Callable[[str], Any]
    default: str | None
    kinds: frozenset[Kind]
    built: frozenset[Kind]
    doc: str
    only: tuple[str, ...] = ()


PLANNED_PREFIX = "limits."
"""A family of options that a later version brings: bounds against hostile peers."""

_positive = values.integer(1)

OPTION_SPECS: tuple[OptionSpec, ...] = (
    OptionSpec(
        "endpoint",
        values.endpoint,
        None,
        READ | WRITE,
        BATCH_WRITE,
        "Whom to dial: aqueduct://host:port[,host:port…].",
    ),
    OptionSpec(
        "listen",
        values.listen_address,
        None,
        READ,
        STREAM_READ,
        "address:port on which producers are accepted; intake i listens on port + i, port 0 lets "
        "the system choose.",
    ),
    OptionSpec("subscribe", values.names, None, READ, NOT_YET, "Names to ask the remote for."),
    OptionSpec(
        "subscribeHeaders",
        values.json_object,
        None,
        READ,
        NOT_YET,
        "Headers of the request for a name, as JSON.",
    ),
    OptionSpec(
        "subscribePayload",
        str,
        None,
        READ,
        NOT_YET,
        "Payload of the request for a name; {name} is put in.",
    ),
    OptionSpec(
        "intakes",
        values.names,
        None,
        READ,
        NOT_YET,
        "host:port,… of standalone intakes to read from.",
    ),
    OptionSpec(
        "spool",
        values.path,
        None,
        READ,
        STREAM_READ,
        "Directory of the durable log; executors that may run its intake have to see it.",
    ),
    OptionSpec(
        "numIntakes",
        values.integer(1, 1000),
        "1",
        STREAM_READ,
        STREAM_READ,
        "Intakes to launch on executors.",
    ),
    OptionSpec(
        "partitionsPerIntake",
        values.integer(1, 1000),
        "2",
        STREAM_READ,
        STREAM_READ,
        "Spool partitions of each intake; a channel stays on one of them.",
    ),
    OptionSpec("channels", values.names, None, READ, NOT_YET, "Restrict to these channel names."),
    OptionSpec(
        "channelsPattern",
        values.text,
        None,
        READ,
        NOT_YET,
        "Restrict to channel names that a regular expression matches in full.",
    ),
    OptionSpec("producers", values.names, None, READ, NOT_YET, "Restrict to these producers."),
    OptionSpec(
        "startingOffsets",
        parse_starting,
        "earliest",
        READ,
        STREAM_READ,
        "Where a new query starts: earliest, latest, or JSON of offsets by intake and partition.",
    ),
    OptionSpec(
        "endingOffsets", parse_starting, "latest", BATCH_READ, NOT_YET, "Where a batch read ends."
    ),
    OptionSpec(
        "startingTimestamp",
        values.text,
        None,
        READ,
        NOT_YET,
        "Where a new query starts, as an ISO-8601 receive time.",
    ),
    OptionSpec(
        "endingTimestamp",
        values.text,
        None,
        BATCH_READ,
        NOT_YET,
        "Where a batch read ends, as an ISO-8601 receive time.",
    ),
    OptionSpec(
        "until",
        values.text,
        None,
        BATCH_READ,
        NOT_YET,
        "What ends a batch read: finish, idle:<duration> or offset.",
    ),
    OptionSpec(
        "untilTimeout",
        values.positive_duration,
        None,
        BATCH_READ,
        NOT_YET,
        "The longest wait of a batch read for its end.",
    ),
    OptionSpec(
        "maxOffsetsPerTrigger",
        _positive,
        None,
        STREAM_READ,
        STREAM_READ,
        "Messages of one micro-batch at most, shared out in proportion to what waits; each "
        "partition with data gives at least one.",
    ),
    OptionSpec(
        "maxBytesPerTrigger", values.size, "256m", STREAM_READ, NOT_YET, "Bytes of one micro-batch."
    ),
    OptionSpec(
        "minOffsetsPerTrigger",
        _positive,
        None,
        STREAM_READ,
        NOT_YET,
        "Wait for that many messages before a micro-batch.",
    ),
    OptionSpec(
        "maxTriggerDelay",
        values.positive_duration,
        "15m",
        STREAM_READ,
        NOT_YET,
        "The longest wait for minOffsetsPerTrigger.",
    ),
    OptionSpec("minPartitions", _positive, None, READ, NOT_YET, "Least tasks of a micro-batch."),
    OptionSpec("maxRecordsPerPartition", _positive, None, READ, NOT_YET, "Most rows of one task."),
    OptionSpec(
        "maxBytesPerPartition", values.size, "64m", READ, NOT_YET, "Most bytes of one task."
    ),
    OptionSpec(
        "failOnDataLoss",
        values.boolean,
        "true",
        READ,
        STREAM_READ,
        "Stop when messages that were asked for are gone; false goes on behind the hole.",
    ),
    OptionSpec(
        "onCancel",
        values.choice("keep", "fail"),
        "keep",
        READ,
        STREAM_READ,
        "What becomes of the stored messages of a cancelled channel.",
        only=("keep",),
    ),
    OptionSpec(
        "view",
        values.choice("messages", "events", "status"),
        "messages",
        READ,
        STREAM_READ,
        "What the rows are.",
        only=("messages",),
    ),
    OptionSpec(
        "includeHeaders",
        values.boolean,
        "false",
        READ,
        STREAM_READ,
        "Add headers, channelHeaders and connectionHeaders.",
    ),
    OptionSpec(
        "includeMetadata",
        values.boolean,
        "false",
        READ,
        STREAM_READ,
        "Add the connection, the place in the channel tree, and the attachments.",
    ),
    OptionSpec(
        "payloadFormat",
        values.choice("binary", "text", "json", "arrow"),
        "binary",
        READ | WRITE,
        STREAM_READ | BATCH_WRITE,
        "How payloads become values.",
        only=("binary",),
    ),
    OptionSpec(
        "mode",
        values.choice("permissive", "dropMalformed", "failFast"),
        "permissive",
        READ,
        NOT_YET,
        "What becomes of a payload that does not parse.",
    ),
    OptionSpec(
        "spoolMaxBytes",
        values.size_within("1m", "1024t"),
        "10g",
        READ,
        STREAM_READ,
        "Size of the spool of each intake; when full, producers wait and nothing is deleted.",
    ),
    OptionSpec(
        "retention",
        values.duration,
        "0s",
        READ,
        STREAM_READ,
        "How long messages that Spark is done with are kept.",
    ),
    OptionSpec(
        "groupCommit",
        values.duration_within("0ms", "10s"),
        "20ms",
        READ,
        STREAM_READ,
        "The longest wait before messages are made durable together and acked.",
    ),
    OptionSpec(
        "launchTimeout",
        values.positive_duration,
        "60s",
        STREAM_READ,
        STREAM_READ,
        "The longest wait for an intake to appear.",
    ),
    OptionSpec(
        "lease",
        values.duration_within("1s", "1d"),
        "15s",
        STREAM_READ,
        STREAM_READ,
        "An intake without its query ends itself after this time.",
    ),
    OptionSpec(
        "fetchTimeout",
        values.positive_duration,
        "120s",
        READ,
        STREAM_READ,
        "The longest wait of a task for an intake.",
    ),
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
    OptionSpec(
        "tls.caFile",
        values.path,
        None,
        READ | WRITE,
        BATCH_WRITE,
        "Authorities that the endpoint is verified with; those of the system by default.",
    ),
    OptionSpec(
        "tls.serverName",
        values.text,
        None,
        READ | WRITE,
        BATCH_WRITE,
        "The name that the certificate of the endpoint must carry; the host by default.",
    ),
    OptionSpec(
        "tls.insecure",
        values.boolean,
        "false",
        READ | WRITE,
        BATCH_WRITE,
        "Do not verify the endpoint; for loopback addresses only.",
    ),
    OptionSpec(
        "tls.certFile",
        values.path,
        None,
        READ,
        STREAM_READ,
        "Certificate chain of the listener, PEM, on the executors.",
    ),
    OptionSpec(
        "tls.keyFile",
        values.path,
        None,
        READ,
        STREAM_READ,
        "Private key of the listener, PEM, on the executors.",
    ),
    OptionSpec(
        "tls.selfSigned",
        values.boolean,
        None,
        READ,
        STREAM_READ,
        "Make a certificate and tell its fingerprint; the default on a loopback address.",
    ),
    OptionSpec(
        "auth.tokenFile",
        values.path,
        None,
        READ | WRITE,
        STREAM_READ | BATCH_WRITE,
        "File with the bearer token.",
    ),
    OptionSpec(
        "auth.tokenEnv",
        values.text,
        None,
        READ | WRITE,
        STREAM_READ | BATCH_WRITE,
        "Environment variable of the driver with the bearer token.",
    ),
    OptionSpec(
        "transport",
        values.choice("aioquic", "qh3"),
        "aioquic",
        READ | WRITE,
        STREAM_READ | BATCH_WRITE,
        "The QUIC library.",
        only=("aioquic",),
    ),
    OptionSpec(
        "maxMessageBytes",
        values.size_within("1b", "1g"),
        "16m",
        READ | WRITE,
        STREAM_READ | BATCH_WRITE,
        "The largest message.",
    ),
)

SPEC_OF: dict[str, OptionSpec] = {spec.name.lower(): spec for spec in OPTION_SPECS}
