"""The options of format ``aqueduct``: its own ones, and with those of every format its table, the
source of docs/options.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aqueduct_core.intake.aqueduct.limits import AqueductLimits
from aqueduct_spark.options import values
from aqueduct_spark.options.read_specs import READ_SPECS
from aqueduct_spark.options.source_specs import SOURCE_SPECS, limit_specs
from aqueduct_spark.options.spec import BATCH_WRITE, READ, WRITE, OptionSpec
from aqueduct_spark.options.table import OptionTable, behind
from aqueduct_spark.options.write_specs import WRITE_SPECS

CONTROL_COLUMNS = ("channel", "headers", "reliability")
"""Columns of a frame to be written that say where and how a row goes; others are its payload."""

SOURCE_COLUMNS = ("spool", "partition", "offset")
"""Columns that say where a row comes from; with idempotence=source they are no payload either."""

LONGEST_CHANNEL = 256
"""Bytes of the name of a channel."""

_ENDPOINT = frozenset({"endpoint"})


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent on the entrypoint channel to ask for one name; the intake puts it in where
    headers and payload have ``{name}``. They may hold secrets."""

    name: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    payload: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AqueductRead:
    """``requests`` go to each endpoint that is dialled."""

    include_headers: bool = False
    include_metadata: bool = False
    requests: tuple[Request, ...] = ()

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> AqueductRead:
        headers, payload = found["subscribeHeaders"] or (), found["subscribePayload"] or ""
        return cls(
            found["includeHeaders"],
            found["includeMetadata"],
            tuple(Request(name, headers, payload) for name in found["subscribe"]),
        )


@dataclass(frozen=True, slots=True)
class AqueductWrite:
    """``trusts_superseded``: what cannot be compared of a batch below one that is stored counts as
    stored."""

    channel: str | None
    reliability: str
    trusts_superseded: bool

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> AqueductWrite:
        trusts = found["supersededBatch"] == "trust"
        return cls(found["channel"], found["reliability"], trusts)


_SUBSCRIBING: tuple[OptionSpec, ...] = (
    OptionSpec(
        "subscribe",
        values.subscriptions,
        "",
        READ,
        READ,
        "Names to ask the remote for; one request with one attached channel of that name each. "
        "By default one request without a name.",
        ways=_ENDPOINT,
    ),
    OptionSpec(
        "subscribeHeaders",
        values.header_object,
        None,
        READ,
        READ,
        "Headers of each request: a JSON object of texts, or lists of texts where a key is "
        "repeated; {name} is put in.",
        private=True,
        ways=_ENDPOINT,
    ),
    OptionSpec(
        "subscribePayload",
        str,
        None,
        READ,
        READ,
        "Payload of each request, empty by default; {name} is put in.",
        private=True,
        ways=_ENDPOINT,
    ),
)
_INCLUDING: tuple[OptionSpec, ...] = (
    OptionSpec(
        "includeHeaders",
        values.boolean,
        "false",
        READ,
        READ,
        "Add headers, channelHeaders and connectionHeaders.",
        messages_only=True,
    ),
    OptionSpec(
        "includeMetadata",
        values.boolean,
        "false",
        READ,
        READ,
        "Add the connection, the place in the channel tree, and the attachments.",
        messages_only=True,
    ),
)
_SENDING: tuple[OptionSpec, ...] = (
    OptionSpec(
        "channel",
        values.short_text(LONGEST_CHANNEL),
        None,
        WRITE,
        WRITE,
        "Name of the channel for all rows; beats the column of that name. Rows without a name go "
        "to the channel spark.",
    ),
    OptionSpec(
        "reliability",
        values.choice("ordered", "unordered", "unreliable"),
        "ordered",
        WRITE,
        WRITE,
        "How rows are sent where they have no column reliability.",
    ),
)
_SUPERSEDED: tuple[OptionSpec, ...] = (
    OptionSpec(
        "supersededBatch",
        values.choice("fail", "trust"),
        "fail",
        BATCH_WRITE,
        BATCH_WRITE,
        "Of a batchId below one that the writer has stored, no row is stored any more. They are "
        "compared with what is stored; where the receiver does not know that any more (it does for "
        "the last few batches of a channel) fail, or trust: take them for stored, as of input "
        "that is known to be the same.",
    ),
)

AQUEDUCT_OPTIONS = OptionTable(
    "aqueduct",
    ("aqueduct",),
    (
        *behind("spool", SOURCE_SPECS, _SUBSCRIBING),
        *limit_specs(AqueductLimits),
        *behind("producers", READ_SPECS, _INCLUDING),
        *_SENDING,
        *behind("batchId", WRITE_SPECS, _SUPERSEDED),
    ),
    limits=AqueductLimits,
    own_read=AqueductRead.of,
    own_write=AqueductWrite.of,
)
