"""The options of a write: a typed, frozen object, made at the door; one that exists is legal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aqueduct_spark.options.access import DialTls, TokenSource, dial_tls, token_source
from aqueduct_spark.options.refusals import bad_value, conflict, missing
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.table import OptionTable
from aqueduct_spark.options.values import Endpoint

STREAM_CONNECT_SECONDS = 60.0
"""For which a task of a stream dials an endpoint that is not there."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """A batch write, or a streaming one. Durations in seconds, sizes in bytes.

    Args:
        writer_id: None: a fresh one for a batch, the id of the query for a stream.
        batch_id: of a batch write; None for a stream, whose batches have numbers.
        session_directory: where sessions are kept; None: in the memory of the worker process.
        keeps_connections: connections stay open from one micro-batch to the next.
        own: what the format makes of options that it alone has (`OptionTable.own_write`).
    """

    endpoint: Endpoint
    endpoint_policy: str
    payload_format: str
    writer_id: str | None
    batch_id: int | None
    idempotence: str
    connect_timeout: float
    ack_timeout: float
    max_in_flight_bytes: int
    finish: bool
    max_loss_ratio: float
    tls: DialTls
    auth: TokenSource | None
    transport: str
    early_data: bool
    session_directory: str | None
    max_message_bytes: int
    max_datagram_bytes: int
    keeps_connections: bool
    own: Any = None

    @property
    def by_source(self) -> bool:
        """Rows are known by the columns that name their place in a spool."""
        return self.idempotence == "source"

    @property
    def one_way(self) -> bool:
        """Every row of a channel goes to one address, in each attempt."""
        return self.endpoint_policy != "failover" or len(self.endpoint.addresses) == 1

    @classmethod
    def parse(
        cls,
        options: Mapping[str, str],
        table: OptionTable,
        kind: OptionKind = OptionKind.BATCH_WRITE,
    ) -> WriteOptions:
        """Raises InvalidOption."""
        found = table.parse(options, kind)
        streaming = kind is OptionKind.STREAM_WRITE
        if found["endpoint"] is None:
            raise missing("endpoint", f"whom to send to, such as {table.example}:4433")
        target: Endpoint = found["endpoint"]
        table.refuse_tls(target, table.given(options))
        if len(set(target.addresses)) != len(target.addresses):
            raise bad_value("endpoint", str(target), "addresses that differ from each other")
        if found["batchId"] is not None and found["writerId"] is None:
            raise missing("writerId", "'batchId' is a number among the writes of one writer")
        if found["idempotence"] == "source" and found["payloadFormat"] == "arrow":
            raise conflict(
                "idempotence=source knows single rows, and with payloadFormat=arrow a message is "
                "many rows",
                "Set another 'payloadFormat', or leave 'idempotence' out",
            )
        by_batch = not streaming and found["idempotence"] != "source"
        if by_batch and found["writerId"] is not None and found["batchId"] is None:
            raise missing(
                "batchId",
                "two writes with the same 'writerId' and 'batchId' are the same rows, so that the "
                "second one is stored only where the first one was not: give each write its own",
            )
        return cls(
            endpoint=target,
            endpoint_policy=found["endpointPolicy"],
            payload_format=found["payloadFormat"],
            writer_id=found["writerId"],
            batch_id=None if streaming else found["batchId"] or 0,
            idempotence=found["idempotence"] or "auto",
            connect_timeout=_connect_timeout(found["connectTimeout"], streaming),
            ack_timeout=found["ackTimeout"],
            max_in_flight_bytes=found["maxInFlightBytes"],
            finish=not streaming if found["finish"] is None else found["finish"],
            max_loss_ratio=1.0 if found["maxLossRatio"] is None else found["maxLossRatio"],
            tls=dial_tls(found, target),
            auth=token_source(found),
            transport=found["transport"],
            early_data=found["earlyData"],
            session_directory=found["sessionDirectory"],
            max_message_bytes=found["maxMessageBytes"],
            max_datagram_bytes=found["maxDatagramBytes"],
            keeps_connections=streaming,
            own=table.own_write(found),
        )


def _connect_timeout(found: float | None, streaming: bool) -> float:
    """A stream outlives a receiver that is restarted; a batch has somebody who waits for it."""
    return found if found is not None else STREAM_CONNECT_SECONDS if streaming else 0.0
