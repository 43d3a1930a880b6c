"""The options of a write: a typed, frozen object, made at the door; one that exists is legal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aqueduct_spark.model.access import DialTls, TokenSource, token_source
from aqueduct_spark.model.option_parsing import conflict, missing, parse_options
from aqueduct_spark.model.option_spec import Kind
from aqueduct_spark.model.values import Endpoint


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """A batch write. Durations in seconds, sizes in bytes."""

    endpoint: Endpoint
    channel: str | None
    reliability: str
    writer_id: str | None
    ack_timeout: float
    max_in_flight_bytes: int
    finish: bool
    max_loss_ratio: float
    tls: DialTls
    auth: TokenSource | None
    transport: str
    max_message_bytes: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Raises InvalidOption."""
        found = parse_options(options, Kind.BATCH_WRITE)
        if found["endpoint"] is None:
            raise missing("endpoint", "whom to send to, such as aqueduct://host:4433")
        target: Endpoint = found["endpoint"]
        insecure: bool = found["tls.insecure"]
        if insecure and not all(address.loopback for address in target.addresses):
            raise conflict(
                "tls.insecure=true is for loopback addresses only, and endpoint is " + str(target),
                "Set tls.caFile to the authority of the endpoint",
            )
        if insecure and found["tls.caFile"] is not None:
            raise conflict("tls.insecure=true and tls.caFile are both set", "Set one of them")
        return cls(
            endpoint=target,
            channel=found["channel"],
            reliability=found["reliability"],
            writer_id=found["writerId"],
            ack_timeout=found["ackTimeout"],
            max_in_flight_bytes=found["maxInFlightBytes"],
            finish=True if found["finish"] is None else found["finish"],
            max_loss_ratio=found["maxLossRatio"],
            tls=DialTls(found["tls.caFile"], found["tls.serverName"], insecure),
            auth=token_source(found),
            transport=found["transport"],
            max_message_bytes=found["maxMessageBytes"],
        )
