"""What is known to be on the disk."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from aqueduct_core.spool.width import padded


class Durable(NamedTuple):
    """All groups up to ``group``, and with it rows up to ``ends``, are on the disk.

    ``segment`` is the newest segment that holds something durable, ``stamp`` its stamp (`record`).
    ``boot`` is set where it was only told to the kernel that had this id: to it, it is the newest
    word; after another boot there may have been a newer one.
    """

    segment: int = 0
    group: int = 0
    ends: tuple[int, ...] = ()
    stamp: str = ""
    boot: str = ""

    @property
    def told_here(self) -> bool:
        """Nothing newer was told: the kernel has not been started again since."""
        return bool(self.boot) and self.boot == boot_id()

    @classmethod
    def told(cls, entries: list[Any], partitions: int) -> Durable:
        """From its JSON, perhaps of fewer logs, without a stamp or a boot."""
        segment, group, ends, *texts = entries
        return cls(int(segment), int(group), tuple(map(int, ends)), *texts[:2]).wide(partitions)

    def wide(self, partitions: int) -> Durable:
        """Told of so many logs."""
        ends = tuple(padded(self.ends, partitions, 0)) if self.ends else ()
        return self._replace(ends=ends)


NOTHING = Durable()


@cache
def boot_id() -> str:
    """Of the kernel, another one after each start of the machine; empty where it tells none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
