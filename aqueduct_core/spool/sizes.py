"""How many bytes rows take, from the positions of their records alone."""

from __future__ import annotations

import math
from collections.abc import Iterable

from aqueduct_core.spool.format.segment import Span


def measured(spans: Iterable[Span], start: int, end: int, step: int) -> list[tuple[int, int]]:
    """Ascending (offset, bytes from ``start``), a mark when ``step`` more bytes were reached.

    The last mark is that of ``end``. Rows of one record count alike, so marks inside a record are
    estimates; those at its ends are exact.
    """
    marks: list[tuple[int, int]] = []
    total = told = 0.0
    for span in spans:
        at, stop = max(span.first, start), min(span.stop, end)
        each = (span.end - span.position) / (span.stop - span.first)
        while at < stop:
            rows = min(stop - at, max(1, math.ceil((told + step - total) / each)))
            at += rows
            total += rows * each
            if total - told >= step:
                marks.append((at, round(total)))
                told = total
    if not marks or marks[-1][0] != end:
        marks.append((end, round(total)))
    return marks
