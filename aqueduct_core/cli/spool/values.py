"""How values of rows, ranges, skips, moments, ages and sizes are written, by all that looks into
a spool."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from aqueduct_core.cli.console.output import json_value
from aqueduct_core.escape import escaped
from aqueduct_core.spool import OffsetRange, Skip


def offsets(rows: OffsetRange) -> str:
    return f"partition {rows.partition}, offsets {rows.start} to {rows.end} (exclusive)"


def skip_values(skip: Skip) -> dict[str, Any]:
    """For JSON."""
    return {
        "partition": skip.partition,
        "start": skip.start,
        "end": skip.end,
        "reason": skip.reason,
        "time": moment(skip.time),
    }


def skip_line(skip: dict[str, Any]) -> str:
    """For people, of `skip_values`."""
    rows = OffsetRange(skip["partition"], skip["start"], skip["end"])
    return f"skipped: {offsets(rows)}, {age(skip['time'])} ago: {escaped(skip['reason'])}"


def moment(seconds: float) -> str:
    """ISO 8601 of seconds since 1970."""
    stamp = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")


def plain(value: Any) -> Any:
    """A value of a row as JSON has it: bytes as text where they are UTF-8, else in base64."""
    match value:
        case bytes():
            return json_value(value)
        case datetime():
            return _exact(value)
        case list():
            return [plain(each) for each in value]
        case dict():
            return {key: plain(each) for key, each in value.items()}
    return value


def _exact(at: datetime) -> str:
    """ISO 8601 of a time of receipt, to the microsecond."""
    stamp = at.astimezone(UTC).isoformat(timespec="microseconds")
    return stamp.replace("+00:00", "Z")


def age(moment: str) -> str:
    """How long ago that was, in the largest unit of which it is two at least."""
    seconds = max(0, int(time.time() - datetime.fromisoformat(moment).timestamp()))
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def size(count: float) -> str:
    """Bytes, in the largest binary unit of which it is one at least."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
