"""Where the log ends: what a crash tore off, and what is damage of rows that were durable. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aqueduct_core.spool.format.record import Record
from aqueduct_core.spool.format.scan import Scan

_Damage = tuple[int, int]
_Item = tuple[int, Record | _Damage]


@dataclass(frozen=True, slots=True)
class Tail:
    """``group`` is the last whole group; ``cut`` the (segment, position) from where on nothing is
    kept."""

    group: int
    cut: tuple[int, int] | None


def find_tail(scans: Sequence[Scan], durable: int, durable_is_before: bool) -> Tail:
    """Judge the scanned segments, which are the newest of a log, in order.

    Groups are written in order and each is whole or void. A record says which group was durable
    when it was written, so every group up to the newest such statement (``durable``) had reached
    the disk: what is missing of those is damage, kept as a hole. What comes after them was never
    reported: it is kept as long as whole groups follow each other, and cut from the first flaw on.

    Args:
        durable: the newest group known to be durable, from the records and the catalog.
        durable_is_before: that group is in a segment older than these.
    """
    items = list(_items(scans))
    safe = 0
    head = scans[0].head if scans else None
    whole = durable_is_before or durable == 0 or (head is not None and head.group >= durable)
    for i, (_, item) in enumerate(items):
        if isinstance(item, Record) and item.state is None and item.group <= durable:
            safe = i + 1
            whole = whole or (item.group == durable and item.last)
    group, part = durable, 0
    start: tuple[int, int] | None = None
    for segment, item in items[safe:]:
        if not isinstance(item, Record):
            if not whole and group == durable and start is None:
                continue
            return Tail(group, start or (segment, item[0]))
        if item.state is not None:
            continue
        if item.group != group + 1 or item.part != part:
            return Tail(group, start or (segment, item.at))
        start = start or (segment, item.at)
        part += 1
        if item.last:
            group, part, start = item.group, 0, None
    return Tail(group, start)


def _items(scans: Sequence[Scan]) -> Iterator[_Item]:
    for scan in scans:
        items: list[tuple[int, Record | _Damage]] = [(record.at, record) for record in scan.records]
        items += [(stretch[0], stretch) for stretch in scan.damage]
        for _, item in sorted(items, key=lambda pair: pair[0]):
            yield scan.number, item
