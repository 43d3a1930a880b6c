"""When an empty batch is worth having: a pure function.

Spark calls ``commit`` for batch N only when it builds batch N+1. On a quiet stream that would be
with the next message, so the planner raises ``tick`` once after a batch with data.
"""

from __future__ import annotations

from collections.abc import Mapping

from aqueduct_spark.model.offsets import StreamOffset
from aqueduct_spark.planning.views import Seen


def commit_is_due(
    start: StreamOffset, seen: Mapping[int, Seen], ticked: StreamOffset | None
) -> bool:
    """Whether a commit of ``start`` is outstanding and a tick would bring it.

    ``ticked`` is the offset of the last tick of this process: one tick for each position, so that
    an intake that cannot take commits does not make the query spin.
    """
    if ticked is not None and ticked.spool == start.spool:
        return False
    for intake, position in start.spool.items():
        status = seen.get(intake)
        if status is None or status.id != position.id:
            continue
        if any(to > done for to, done in zip(position.to, status.committed, strict=True)):
            return True
    return False
