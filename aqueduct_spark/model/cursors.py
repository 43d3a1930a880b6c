"""Names of cursors: the positions of queries that a spool keeps."""

from __future__ import annotations

from aqueduct_spark.model import values

DEFAULT_CURSORS = {"messages": "query", "events": "events"}
"""By view, where option ``cursor`` names none."""

SUFFIX = ".cancels"
"""Behind the name of a query's cursor: the name of the one for its look at cancels."""

_short = values.short_text(64)


def cursor_name(value: str) -> str:
    """A name that a user may give to a cursor."""
    name = _short(value).strip()
    if name.endswith(SUFFIX):
        raise ValueError(f"a name that does not end with {SUFFIX}")
    return name
