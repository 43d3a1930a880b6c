"""The parts that the options of streaming and bounded reads have in common: frozen values.

Durations in seconds, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aqueduct_core.intake.settings.service import HttpSettings, Limits, ServiceSettings
from aqueduct_spark.options.refusals import conflict, missing
from aqueduct_spark.options.selection import Selection
from aqueduct_spark.options.starting import AtTime, Starting
from aqueduct_spark.options.table import OptionTable


@dataclass(frozen=True, slots=True)
class RowOptions:
    """What the rows are, and which of them are wanted. ``own`` is what the format makes of options
    that it alone has (`OptionTable.own_read`)."""

    view: str = "messages"
    selection: Selection = field(default_factory=Selection)
    include_spool: bool = False
    payload_format: str = "binary"
    mode: str = "permissive"
    own: Any = None

    @classmethod
    def of(cls, found: Mapping[str, Any], given: frozenset[str], table: OptionTable) -> RowOptions:
        """Raises InvalidOption.CONFLICT."""
        if found["channels"] is not None and found["channelsPattern"] is not None:
            raise conflict("channels and channelsPattern are both set", "Set one of them")
        if found["view"] != "messages":
            for spec in table.specs:
                if spec.messages_only and spec.name in given:
                    raise conflict(
                        f"'{spec.name}' has no meaning with view={found['view']}",
                        f"Remove '{spec.name}'",
                    )
        return cls(
            view=found["view"],
            selection=Selection(found["channels"], found["channelsPattern"], found["producers"]),
            include_spool=found["includeSpool"],
            payload_format=found["payloadFormat"],
            mode=found["mode"],
            own=table.own_read(found),
        )


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How a range of offsets becomes tasks; None splits nothing."""

    min_partitions: int | None = None
    max_records: int | None = None
    max_bytes: int | None = None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> SplitOptions:
        return cls(
            found["minPartitions"], found["maxRecordsPerPartition"], found["maxBytesPerPartition"]
        )


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """How much one micro-batch takes, and how long it waits for how much."""

    max_offsets: int | None
    max_bytes: int | None
    min_offsets: int | None
    max_delay: float

    @classmethod
    def of(cls, found: Mapping[str, Any], given: frozenset[str]) -> AdmissionOptions:
        """Raises InvalidOption: CONFLICT or MISSING."""
        least, most = found["minOffsetsPerTrigger"], found["maxOffsetsPerTrigger"]
        if least is not None and most is not None and least > most:
            raise conflict(
                f"minOffsetsPerTrigger={least} is above maxOffsetsPerTrigger={most}",
                "Lower minOffsetsPerTrigger",
            )
        if least is None and "maxTriggerDelay" in given:
            raise missing("minOffsetsPerTrigger", "maxTriggerDelay bounds the wait for it")
        return cls(most, found["maxBytesPerTrigger"], least, found["maxTriggerDelay"])


def service_settings(found: Mapping[str, Any], limits: type[Limits]) -> ServiceSettings:
    """What an intake that this query starts is told, whatever its source."""
    http = HttpSettings(
        listen=None if found["http.listen"] is None else str(found["http.listen"]),
        token_file=found["http.tokenFile"],
    )
    return ServiceSettings.of_options(found, limits=limits.of_options(found), http=http)


def bound(found: Mapping[str, Any], given: frozenset[str], which: str) -> Starting:
    """Where a read starts or ends (``which`` is ``starting`` or ``ending``): offsets or a time."""
    offsets, moment = f"{which}Offsets", f"{which}Timestamp"
    if found[moment] is None:
        position: Starting = found[offsets]
        return position
    if offsets in given:
        raise conflict(f"{offsets} and {moment} are both set", "Set one of them")
    return AtTime(found[moment])
