"""What is known to be on the disk."""

from __future__ import annotations

from typing import Any, NamedTuple

from aqueduct_core.spool.width import padded


class Durable(NamedTuple):
    """All groups up to ``group``, and with it rows up to ``ends``, are on the disk.

    ``segment`` is the newest segment that holds something durable, ``stamp`` its stamp (`record`).
    """

    segment: int = 0
    group: int = 0
    ends: tuple[int, ...] = ()
    stamp: str = ""

    @classmethod
    def told(cls, entries: list[Any], partitions: int) -> Durable:
        """From its JSON, perhaps of fewer logs or without a stamp."""
        segment, group, ends, *stamp = entries
        return cls(int(segment), int(group), tuple(map(int, ends)), *stamp).wide(partitions)

    def wide(self, partitions: int) -> Durable:
        """Told of so many logs."""
        ends = tuple(padded(self.ends, partitions, 0)) if self.ends else ()
        return self._replace(ends=ends)


NOTHING = Durable()
