"""Names of cursors: the positions of queries that a spool keeps."""

from __future__ import annotations

from aqueduct_core.flight.tickets import CANCELS
from aqueduct_spark.options import values

DEFAULT_CURSORS = {"messages": "query", "events": "events"}
"""By view, where option ``cursor`` names none."""

_short = values.short_text(64)


def cursor_name(value: str) -> str:
    """A name that a user may give to a cursor."""
    name = _short(value).strip()
    if name.endswith(CANCELS):
        raise ValueError(f"a name that does not end with {CANCELS}")
    return name
