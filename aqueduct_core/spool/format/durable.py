"""What is known to be on the disk, as it is written down; and entries for partitions, as a spool
of fewer partitions wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

_Entry = TypeVar("_Entry")


class Durable(NamedTuple):
    """All groups up to ``group``, and with it rows up to ``ends``, are on the disk.

    ``segment`` is the newest segment that holds something durable, ``stamp`` its stamp (`record`).
    ``boot`` is set where only the kernel of this id was given it: to that kernel it is the newest
    word; after another boot there may have been a newer one.
    """

    segment: int = 0
    group: int = 0
    ends: tuple[int, ...] = ()
    stamp: str = ""
    boot: str = ""

    @property
    def of_this_boot(self) -> bool:
        """Nothing newer was written: the kernel has not been started again since."""
        return bool(self.boot) and self.boot == boot_id()

    @property
    def order(self) -> tuple[int, int]:
        """By which the newer of two is known."""
        return self.group, self.segment

    @classmethod
    def from_json(cls, entries: list[Any], partitions: int) -> Durable:
        """Of so many partitions, perhaps written of fewer, or without a stamp or a boot."""
        segment, group, ends, *texts = entries
        durable = cls(int(segment), int(group), tuple(map(int, ends)), *texts[:2])
        return durable.with_partitions(partitions)

    def with_partitions(self, partitions: int) -> Durable:
        """With an end for each of so many partitions."""
        ends = tuple(padded(self.ends, partitions, 0)) if self.ends else ()
        return self._replace(ends=ends)


NOTHING = Durable()


def padded(entries: Sequence[_Entry], partitions: int, fill: _Entry) -> list[_Entry]:
    """An entry for each partition: those added later begin empty, and nobody has read them."""
    return [*entries, *[fill] * (partitions - len(entries))]


def state_with_partitions(state: dict[str, Any], partitions: int) -> dict[str, Any]:
    """The state of a head (`record`) with an entry for each of so many partitions."""
    if len(state["ends"]) >= partitions:
        return state
    cursors = {name: padded(ends, partitions, None) for name, ends in state["cursors"].items()}
    return state | {
        "partitions": partitions,
        "ends": padded(state["ends"], partitions, 0),
        "cursors": cursors,
    }


@cache
def boot_id() -> str:
    """Of the kernel, another one after each start of the machine; empty where it tells none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
