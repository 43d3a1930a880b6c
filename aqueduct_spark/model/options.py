"""Options become one typed, frozen object per kind of query, at the door.

A value of these classes that exists is legal. Each refusal names the option, the value, and what
to write instead. No class holds a secret: of a token they know only where it is.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aqueduct_core.errors import InvalidOption
from aqueduct_spark.model.option_spec import Kind
from aqueduct_spark.model.option_specs import OPTION_SPECS, PLANNED_PREFIX, SPEC_OF
from aqueduct_spark.model.starting import Specific, Starting
from aqueduct_spark.model.values import Address, Endpoint


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Where the bearer token is: exactly one of a file and an environment variable."""

    file: str | None
    env: str | None


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """The certificate of a listener: two files, or one that is made (both None)."""

    cert_file: str | None
    key_file: str | None

    @property
    def self_signed(self) -> bool:
        return self.cert_file is None


@dataclass(frozen=True, slots=True)
class DialTls:
    """How a dialled endpoint is verified."""

    ca_file: str | None
    server_name: str | None
    insecure: bool


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
        found = _parse(options, Kind.STREAM_READ)
        if found["listen"] is None:
            raise _missing(
                "listen", "the address:port to accept producers on, such as 0.0.0.0:4433"
            )
        if found["spool"] is None:
            raise _missing("spool", "the directory of the durable log")
        listen: Address = found["listen"]
        if listen.port and listen.port + found["numIntakes"] - 1 > 65_535:
            raise _bad("numIntakes", str(found["numIntakes"]), "few enough for the ports above it")
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
            tls=_listener_tls(found, listen),
            auth=_token_source(found),
            spool_max_bytes=found["spoolMaxBytes"],
            launch_timeout=found["launchTimeout"],
            lease=found["lease"],
            fetch_timeout=found["fetchTimeout"],
            fail_on_data_loss=found["failOnDataLoss"],
            retention=found["retention"],
            max_message_bytes=found["maxMessageBytes"],
            transport=found["transport"],
        )


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
        found = _parse(options, Kind.BATCH_WRITE)
        if found["endpoint"] is None:
            raise _missing("endpoint", "whom to send to, such as aqueduct://host:4433")
        target: Endpoint = found["endpoint"]
        insecure: bool = found["tls.insecure"]
        if insecure and not all(address.loopback for address in target.addresses):
            raise _conflict(
                "tls.insecure=true is for loopback addresses only, and endpoint is " + str(target),
                "Set tls.caFile to the authority of the endpoint",
            )
        if insecure and found["tls.caFile"] is not None:
            raise _conflict("tls.insecure=true and tls.caFile are both set", "Set one of them")
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
            auth=_token_source(found),
            transport=found["transport"],
            max_message_bytes=found["maxMessageBytes"],
        )


def _parse(options: Mapping[str, str], kind: Kind) -> dict[str, Any]:
    """All options of the table by their written names; None where there is no value."""
    given = {key.lower(): value for key, value in options.items()}
    for key in given:
        _refuse_foreign(key, kind)
    found: dict[str, Any] = {}
    for spec in OPTION_SPECS:
        value = given.get(spec.name.lower(), spec.default)
        if value is None or kind not in spec.built:
            found[spec.name] = None
            continue
        try:
            found[spec.name] = spec.parse(value)
        except ValueError as error:
            raise _bad(spec.name, value, str(error)) from None
        if spec.only and found[spec.name] not in spec.only:
            raise _bad(
                spec.name,
                value,
                " or ".join(spec.only) + " (other values are not supported by this version)",
            )
    return found


def _refuse_foreign(key: str, kind: Kind) -> None:
    """Refuse an option that is not known, or not for this kind of query, or not built yet."""
    spec = SPEC_OF.get(key)
    if spec is None and key.startswith(PLANNED_PREFIX):
        raise InvalidOption(
            "NOT_FOR_QUERY_TYPE",
            f"Option '{key}' is not supported by this version",
            "Remove it; the limits have finite defaults",
        )
    if spec is None:
        near = difflib.get_close_matches(key, SPEC_OF, n=1, cutoff=0.5)
        hint = f"The nearest one is '{SPEC_OF[near[0]].name}'" if near else "Remove it"
        raise InvalidOption("UNKNOWN", f"Option '{key}' is not known to format aqueduct", hint)
    if kind in spec.built:
        return
    if kind in spec.kinds:
        raise InvalidOption(
            "NOT_FOR_QUERY_TYPE",
            f"Option '{spec.name}' is not supported by this version for {kind.value}",
            "Remove it, or use a version that has it",
        )
    fitting = " or ".join(sorted(k.value for k in spec.kinds))
    raise InvalidOption(
        "NOT_FOR_QUERY_TYPE",
        f"Option '{spec.name}' is not for {kind.value} but for {fitting}",
        "Remove it",
    )


def _check_starting(found: Mapping[str, Any]) -> None:
    starting = found["startingOffsets"]
    if not isinstance(starting, Specific):
        return
    intakes, partitions = found["numIntakes"], found["partitionsPerIntake"]
    named = {intake: len(offsets) for intake, offsets in starting.offsets.items()}
    if named != dict.fromkeys(range(intakes), partitions):
        raise _bad(
            "startingOffsets",
            str({i: list(o) for i, o in starting.offsets.items()}),
            f"offsets of intakes 0 to {intakes - 1} (numIntakes={intakes}) with partitions 0 to "
            f"{partitions - 1} each (partitionsPerIntake={partitions})",
        )


def _listener_tls(found: Mapping[str, Any], listen: Address) -> ListenerTls:
    cert, key, self_signed = (found[f"tls.{n}"] for n in ("certFile", "keyFile", "selfSigned"))
    if (cert is None) != (key is None):
        given, absent = ("certFile", "keyFile") if key is None else ("keyFile", "certFile")
        raise _missing(f"tls.{absent}", f"it belongs to tls.{given}")
    if cert is not None and self_signed:
        raise _conflict("tls.selfSigned=true and tls.certFile are both set", "Set one of them")
    if cert is None and self_signed is not True and (self_signed is False or not listen.loopback):
        raise _missing(
            "tls.certFile",
            f"a listener on {listen} needs a certificate (tls.certFile and tls.keyFile, or "
            "tls.selfSigned=true)",
        )
    return ListenerTls(cert, key)


def _token_source(found: Mapping[str, Any]) -> TokenSource | None:
    file, env = found["auth.tokenFile"], found["auth.tokenEnv"]
    if file is not None and env is not None:
        raise _conflict("auth.tokenFile and auth.tokenEnv are both set", "Set one of them")
    return None if file is None and env is None else TokenSource(file, env)


def _missing(name: str, what: str) -> InvalidOption:
    return InvalidOption("MISSING", f"Option '{name}' is missing: {what}", f"Set '{name}'")


def _bad(name: str, value: str, allowed: str) -> InvalidOption:
    return InvalidOption(
        "BAD_VALUE", f"Option '{name}' is '{value}'; it must be {allowed}", f"Correct '{name}'"
    )


def _conflict(what: str, remedy: str) -> InvalidOption:
    return InvalidOption("CONFLICT", f"Options contradict each other: {what}", remedy)
