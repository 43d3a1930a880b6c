"""Lists with an entry for each log, as a spool of fewer logs wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

_Entry = TypeVar("_Entry")


def padded(entries: Sequence[_Entry], width: int, fill: _Entry) -> list[_Entry]:
    """At least ``width`` entries: logs that were added later begin empty, and nobody read them."""
    return [*entries, *[fill] * (width - len(entries))]


def widened(state: dict[str, Any], width: int) -> dict[str, Any]:
    """The state of a head (`record`), told of ``width`` logs."""
    if len(state["ends"]) >= width:
        return state
    cursors = {name: padded(ends, width, None) for name, ends in state["cursors"].items()}
    return state | {
        "partitions": width,
        "ends": padded(state["ends"], width, 0),
        "cursors": cursors,
    }
