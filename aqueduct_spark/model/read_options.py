"""The options of a read: one typed, frozen object per kind of query, made at the door.

A value of these classes that exists is legal. No class holds a secret: of a token they know only
where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aqueduct_spark.model.access import ListenerTls, TokenSource, listener_tls, token_source
from aqueduct_spark.model.option_parsing import bad_value, missing, parse_options
from aqueduct_spark.model.option_spec import Kind
from aqueduct_spark.model.starting import Specific, Starting
from aqueduct_spark.model.values import Address


@dataclass(frozen=True, slots=True)
class StreamReadOptions:
    """A streaming read. Durations in seconds, sizes in bytes."""

    listen: Address
    spool: str
    num_intakes: int
    partitions_per_intake: int
    starting: Starting
    max_offsets_per_trigger: int | None
    include_headers: bool
    include_metadata: bool
    group_commit: float
    tls: ListenerTls
    auth: TokenSource | None
    spool_max_bytes: int
    launch_timeout: float
    lease: float
    fetch_timeout: float
    fail_on_data_loss: bool
    retention: float
    max_message_bytes: int
    transport: str

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> StreamReadOptions:
        """Raises InvalidOption."""
        found = parse_options(options, Kind.STREAM_READ)
        if found["listen"] is None:
            raise missing("listen", "the address:port to accept producers on, such as 0.0.0.0:4433")
        if found["spool"] is None:
            raise missing("spool", "the directory of the durable log")
        listen: Address = found["listen"]
        if listen.port and listen.port + found["numIntakes"] - 1 > 65_535:
            raise bad_value(
                "numIntakes", str(found["numIntakes"]), "few enough for the ports above it"
            )
        _check_starting(found)
        return cls(
            listen=listen,
            spool=found["spool"],
            num_intakes=found["numIntakes"],
            partitions_per_intake=found["partitionsPerIntake"],
            starting=found["startingOffsets"],
            max_offsets_per_trigger=found["maxOffsetsPerTrigger"],
            include_headers=found["includeHeaders"],
            include_metadata=found["includeMetadata"],
            group_commit=found["groupCommit"],
            tls=listener_tls(found, listen),
            auth=token_source(found),
            spool_max_bytes=found["spoolMaxBytes"],
            launch_timeout=found["launchTimeout"],
            lease=found["lease"],
            fetch_timeout=found["fetchTimeout"],
            fail_on_data_loss=found["failOnDataLoss"],
            retention=found["retention"],
            max_message_bytes=found["maxMessageBytes"],
            transport=found["transport"],
        )


def _check_starting(found: Mapping[str, Any]) -> None:
    starting = found["startingOffsets"]
    if not isinstance(starting, Specific):
        return
    intakes, partitions = found["numIntakes"], found["partitionsPerIntake"]
    named = {intake: len(offsets) for intake, offsets in starting.offsets.items()}
    if named != dict.fromkeys(range(intakes), partitions):
        raise bad_value(
            "startingOffsets",
            str({i: list(o) for i, o in starting.offsets.items()}),
            f"offsets of intakes 0 to {intakes - 1} (numIntakes={intakes}) with partitions 0 to "
            f"{partitions - 1} each (partitionsPerIntake={partitions})",
        )
