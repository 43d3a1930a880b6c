"""Which file each segment must be, told by the catalog, the identity and the segments after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aqueduct_core.spool.durable import Durable
from aqueduct_core.spool.format.record import Damaged, verify
from aqueduct_core.spool.format.segment import Segment, map_file, segment_path


def expected_stamps(
    directory: Path,
    numbers: Sequence[int],
    entered: Mapping[int, Segment],
    durable: Durable,
    preamble: int,
) -> dict[int, str]:
    """The stamps of segments as far as they are told; empty or missing where nobody tells.

    From the newest on: a head is believed when it is itself in the file that was told of.

    Raises:
        OSError: the disk failed.
    """
    stamps = {number: segment.stamp for number, segment in entered.items()}
    stamps.setdefault(durable.segment, durable.stamp)
    for number in reversed(numbers):
        if number - 1 in entered:
            continue
        head = read_head(segment_path(directory, number), number, preamble)
        told = stamps.get(number)
        if head is not None and "stamp" in head and (not told or told == head["stamp"]):
            stamps.setdefault(*head["previous"])
    return stamps


def read_head(path: Path, number: int, at: int) -> dict[str, Any] | None:
    """The state in the head of a segment, which starts at that position; None when it is damaged.

    Raises:
        OSError: the disk failed.
    """
    if path.stat().st_size <= at:
        return None
    try:
        return verify(memoryview(map_file(path)), at, number).state
    except Damaged:
        return None
