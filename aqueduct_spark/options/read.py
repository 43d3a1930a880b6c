"""The options of a read: one typed, frozen object per kind of query, made at the door.

A value of these classes that exists is legal. No class holds a secret: of a token they know only
where it is. Durations in seconds, sizes in bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.settings.service import ServiceSettings
from aqueduct_spark.options.read_parts import (
    AdmissionOptions,
    RowOptions,
    SplitOptions,
    bound,
    service_settings,
)
from aqueduct_spark.options.refusals import bad_value, conflict, missing
from aqueduct_spark.options.source import Dial, Source, Standalone, StoredSpools, find_source
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.starting import Specific, Starting
from aqueduct_spark.options.table import OptionTable
from aqueduct_spark.options.until import Until, UntilFinish, UntilOffset

DEFAULT_CURSORS = {"messages": "query", "events": "events"}
"""By view, where option ``cursor`` names none."""


@dataclass(frozen=True, slots=True)
class StreamReadOptions:
    """A streaming read.

    Args:
        source: never `StoredSpools`; a `Dial` has a spool.
        intakes: how many there are: to launch, or named as standalone.
        partitions_per_intake: of the spools of launched intakes; None: as standalone ones have.
        cursor: the name under which the query's position is kept in each spool.
        take_cursor: a cursor of another query is taken, where the checkpoint knows nothing of the
            spool.
        lost_spools: ids of those that somebody has given up.
        stall_timeout, refusal_timeout: seconds after which what keeps the query waiting is an
            error, of what may go away by itself, and of what does not; None: never.
    """

    source: Source
    rows: RowOptions
    starting: Starting
    admission: AdmissionOptions
    split: SplitOptions
    intake: ServiceSettings
    intakes: int
    partitions_per_intake: int | None
    cursor: str
    take_cursor: bool
    on_cancel: str
    fail_on_data_loss: bool
    lost_spools: frozenset[str]
    launch_timeout: float
    stall_timeout: float | None
    refusal_timeout: float | None
    lease: float
    fetch_timeout: float

    @classmethod
    def parse(cls, options: Mapping[str, str], table: OptionTable) -> StreamReadOptions:
        """Raises InvalidOption."""
        found, given = table.parse(options, OptionKind.STREAM_READ), table.given(options)
        if found["view"] == "status":
            raise bad_value("view", "status", "messages or events (status is for spark.read)")
        if found["view"] == "events" and found["onCancel"] == "fail":
            raise conflict(
                "onCancel=fail and view=events, where each cancel is a row", "Remove 'onCancel'"
            )
        source = find_source(found, given, OptionKind.STREAM_READ, table)
        rows = RowOptions.of(found, given, table)
        starting = bound(found, given, "starting")
        intakes: int = found["numIntakes"]
        partitions: int | None = found["partitionsPerIntake"]
        if isinstance(source, Standalone):
            intakes, partitions = len(source.addresses), None
        if rows.view == "events":
            _check_offsets("startingOffsets", starting, intakes, 1)
        else:
            _check_offsets("startingOffsets", starting, intakes, partitions)
        return cls(
            source=source,
            rows=rows,
            starting=starting,
            admission=AdmissionOptions.of(found, given),
            split=SplitOptions.of(found),
            intake=service_settings(found, table.limits),
            intakes=intakes,
            partitions_per_intake=partitions,
            cursor=found["cursor"] or DEFAULT_CURSORS[rows.view],
            take_cursor=found["takeCursor"],
            on_cancel=found["onCancel"],
            fail_on_data_loss=found["failOnDataLoss"],
            lost_spools=frozenset(found["lostSpools"] or ()),
            launch_timeout=found["launchTimeout"],
            stall_timeout=found["stallTimeout"],
            refusal_timeout=found["refusalTimeout"],
            lease=found["lease"],
            fetch_timeout=found["fetchTimeout"],
        )


@dataclass(frozen=True, slots=True)
class BatchReadOptions:
    """A bounded read.

    Args:
        source: `Dial`, `Standalone` or `StoredSpools`.
        until: what ends it; `UntilOffset` unless intakes run that could bring more.
        until_timeout: set whenever ``until`` waits for something, else None.
        on_cancel: ``fail`` unless chosen otherwise where the read is to be whole (`UntilFinish`).
    """

    source: Source
    rows: RowOptions
    starting: Starting
    ending: Starting
    until: Until
    until_timeout: float | None
    split: SplitOptions
    intake: ServiceSettings
    on_cancel: str
    fail_on_data_loss: bool
    fetch_timeout: float

    @classmethod
    def parse(cls, options: Mapping[str, str], table: OptionTable) -> BatchReadOptions:
        """Raises InvalidOption."""
        found, given = table.parse(options, OptionKind.BATCH_READ), table.given(options)
        source = find_source(found, given, OptionKind.BATCH_READ, table)
        if found["view"] == "status":
            _check_status(given, source)
        until = _until(found, given, source)
        starting = bound(found, given, "starting")
        ending = bound(found, given, "ending")
        intakes = len(source.addresses) if isinstance(source, Standalone) else None
        for name, position in (("startingOffsets", starting), ("endingOffsets", ending)):
            _check_offsets(name, position, intakes, None)
        return cls(
            source=source,
            rows=RowOptions.of(found, given, table),
            starting=starting,
            ending=ending,
            until=until,
            until_timeout=found["untilTimeout"],
            split=SplitOptions.of(found),
            intake=service_settings(found, table.limits),
            on_cancel=_on_cancel(found, given, until),
            fail_on_data_loss=found["failOnDataLoss"],
            fetch_timeout=found["fetchTimeout"],
        )


def rows_of(options: Mapping[str, str], table: OptionTable) -> tuple[RowOptions, Source]:
    """What a read gives and from where, when it is not known yet whether it is a stream.

    Raises:
        InvalidOption: no kind of read has these options; the refusal is of the kind that they
            speak for, or of both.
    """
    try:
        stream = StreamReadOptions.parse(options, table)
    except InvalidOption as refused:
        as_stream = refused
    else:
        return stream.rows, stream.source
    try:
        batch = BatchReadOptions.parse(options, table)
    except InvalidOption as as_batch:
        raise _refusal(options, table, as_stream, as_batch) from None
    return batch.rows, batch.source


def _refusal(
    options: Mapping[str, str],
    table: OptionTable,
    as_stream: InvalidOption,
    as_batch: InvalidOption,
) -> InvalidOption:
    """The one to tell of a read that is neither a stream nor bounded."""
    given = table.given(options)
    way = next((name for name in ("listen", "endpoint", "intakes") if name in given), None)
    of_streams = table.only(given, OptionKind.STREAM_READ)
    of_batches = table.only(given, OptionKind.BATCH_READ)
    if options.get("view", "").strip().lower() == "status":
        of_batches = ["view=status", *of_batches]
    if of_streams and of_batches:
        return InvalidOption(
            "NOT_FOR_QUERY_TYPE",
            f"Option '{of_streams[0]}' is for a stream read and '{of_batches[0]}' for a batch read",
            f"Remove '{of_batches[0]}' with spark.readStream, '{of_streams[0]}' with spark.read",
        )
    if of_streams:
        if way is not None or "spool" not in given:
            return as_stream
        return InvalidOption(
            "NOT_FOR_QUERY_TYPE",
            f"Option '{of_streams[0]}' is for a stream read, and 'spool' alone is read as a batch",
            f"Remove '{of_streams[0]}', or name 'listen', 'endpoint' or 'intakes' for a stream",
        )
    if of_batches or (way is None and "spool" in given):
        return as_batch
    if as_stream.subclass == as_batch.subclass == "MISSING" and as_stream.what != as_batch.what:
        return InvalidOption(
            "MISSING",
            f"With spark.readStream: {as_stream.what}. With spark.read: {as_batch.what}",
            f"{as_stream.remedy}, or {as_batch.remedy[0].lower()}{as_batch.remedy[1:]}",
        )
    return as_stream


def _check_status(given: frozenset[str], source: Source) -> None:
    """A status is of all there is, as it is now, and of intakes that run before the read does."""
    if isinstance(source, Dial):
        raise conflict(
            "view=status and endpoint, whose intakes run only while a read lasts",
            "Name 'intakes' or 'spool'",
        )
    for name in sorted(_OF_ROWS & given):
        raise conflict(f"'{name}' has no meaning with view=status", f"Remove '{name}'")


_OF_ROWS = frozenset(
    {
        "channels",
        "channelsPattern",
        "producers",
        "startingOffsets",
        "startingTimestamp",
        "endingOffsets",
        "endingTimestamp",
        "until",
        "untilTimeout",
        "minPartitions",
        "maxRecordsPerPartition",
        "maxBytesPerPartition",
    }
)


def _on_cancel(found: Mapping[str, Any], given: frozenset[str], until: Until) -> str:
    chosen = "onCancel" in given or not isinstance(until, UntilFinish)
    return str(found["onCancel"]) if chosen else "fail"


def _until(found: Mapping[str, Any], given: frozenset[str], source: Source) -> Until:
    default: Until = UntilFinish() if isinstance(source, Dial) else UntilOffset()
    until: Until = default if found["until"] is None else found["until"]
    waits = not isinstance(until, UntilOffset)
    if isinstance(source, Dial) and not waits:
        raise conflict("until=offset and endpoint", "Set until=finish or until=idle:<duration>")
    if isinstance(source, StoredSpools) and waits:
        raise conflict(
            "'until' waits for more, and 'spool' alone reads what is stored",
            "Remove 'until', or name the 'intakes' that bring more",
        )
    if waits and found["untilTimeout"] is None:
        raise missing("untilTimeout", "the longest wait for the end of the read, such as 10m")
    if not waits and found["untilTimeout"] is not None:
        raise conflict("untilTimeout and until=offset, which waits for nothing", "Remove one")
    ends = {"endingOffsets", "endingTimestamp"} & given
    if waits and ends:
        raise conflict(f"{sorted(ends)[0]} and an 'until' that waits", "Set one of them")
    return until


def _check_offsets(
    name: str, position: Starting, intakes: int | None, partitions: int | None
) -> None:
    """Offsets as JSON have to name what there is, as far as the options tell; None: they do not."""
    if not isinstance(position, Specific):
        return
    named = {intake: len(offsets) for intake, offsets in position.offsets.items()}
    if intakes is not None and sorted(named) != list(range(intakes)):
        allowed = f"offsets of intakes 0 to {intakes - 1}, no more and no less"
    elif partitions is not None and set(named.values()) != {partitions}:
        allowed = f"offsets of partitions 0 to {partitions - 1} for each intake"
    else:
        return
    given = {i: dict(enumerate(offsets)) for i, offsets in position.offsets.items()}
    raise bad_value(name, json.dumps(given), allowed)
