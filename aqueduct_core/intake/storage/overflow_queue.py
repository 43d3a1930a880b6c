"""What waits for room in the spool, in the order in which it came."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from aqueduct_core.intake.storage.pending import (
    GroupListener,
    PendingBatch,
    PendingEvent,
    Receipt,
    notify,
)

LISTENER_ITEMS = 256
"""Batches and events of one connection that wait before it is brought to rest."""

ALL_ITEMS = 16_384
"""The same over all connections; then each that brings one more is brought to rest."""

ITEM_BYTES = 1024
"""What a batch or an event that waits takes beside its payload, about."""

Item: TypeAlias = PendingBatch | PendingEvent


class OverflowQueue:
    """Holds batches and events, and lets connections rest that bring too many.

    ``size`` is the memory that it takes, in bytes, about. The payload in it is bounded by the
    transport's windows of the connections; everything else by the two bounds above, and one burst
    of each connection. Every call costs what it moves, not what waits.
    """

    def __init__(self) -> None:
        self.size = 0
        self._order: deque[int] = deque()
        self._items: dict[int, Item] = {}
        self._next = 0
        self._of: dict[GroupListener, dict[int | None, deque[int]]] = {}
        self._counts: dict[GroupListener, int] = {}
        self._resting: dict[GroupListener, None] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def memory_of(self, listener: GroupListener) -> int:
        """What the items of one connection take beside their payload, about."""
        return ITEM_BYTES * self._counts.get(listener, 0)

    @property
    def crowded(self) -> bool:
        return len(self._items) >= ALL_ITEMS

    def add(self, item: Item) -> None:
        listener, number = item.listener, self._next
        self._next += 1
        self._order.append(number)
        self._items[number] = item
        self._of.setdefault(listener, {}).setdefault(_channel(item), deque()).append(number)
        self.size += _size(item)
        mine = self._counts[listener] = self._counts.get(listener, 0) + 1
        if (mine >= LISTENER_ITEMS or self.crowded) and listener not in self._resting:
            self.rest(listener)

    def rest(self, listener: GroupListener) -> None:
        """Bring a connection to rest until nothing waits any more."""
        self._resting[listener] = None
        listener.pause()

    def take(self) -> Item:
        """The oldest; there must be one. When it was the last one `wake` has work."""
        while (number := self._order.popleft()) not in self._items:
            pass  # withdrawn
        item = self._items[number]
        numbers = self._of[item.listener][_channel(item)]
        numbers.popleft()
        if not numbers:
            del self._of[item.listener][_channel(item)]
            if not self._of[item.listener]:
                del self._of[item.listener]
        self._forget(number, item)
        return item

    def wake(self) -> None:
        """Let all connections go on, if nothing waits."""
        if not self._items and self._resting:
            resting, self._resting = self._resting, {}
            for listener in resting:
                notify(listener, listener.resume)

    def withdraw(self, listener: GroupListener, channel: int | None) -> tuple[list[Receipt], bool]:
        """Take out the batches of a channel, or of a connection that is over (``channel`` None),
        and its finish, which has not come true then: the receipts of the batches, and whether there
        was one. Other events stay: what they say has happened."""
        if channel is None:
            self._resting.pop(listener, None)
        lists = self._of.get(listener, {})
        gone: list[Receipt] = []
        finish = False
        for key in list(lists) if channel is None else [channel] if channel in lists else []:
            kept: deque[int] = deque()
            for number in lists[key]:
                item = self._items[number]
                if isinstance(item, PendingBatch):
                    gone.append(item.receipt)
                elif item.confirms:
                    finish = True
                else:
                    kept.append(number)
                    continue
                self._forget(number, item)
            if kept:
                lists[key] = kept
            else:
                del lists[key]
        if listener in self._of and not lists:
            del self._of[listener]
        if len(self._order) > 2 * len(self._items) + 64:
            self._order = deque(self._items)
        return gone, finish

    def clear(self) -> list[Item]:
        """Take out everything, in order; nobody rests any more, and nobody is called."""
        items = list(self._items.values())
        for holder in (self._order, self._items, self._of, self._counts, self._resting):
            holder.clear()
        self.size = 0
        return items

    def _forget(self, number: int, item: Item) -> None:
        del self._items[number]
        self.size -= _size(item)
        left = self._counts[item.listener] - 1
        if left:
            self._counts[item.listener] = left
        else:
            del self._counts[item.listener]


def _size(item: Item) -> int:
    payload = len(item.batch.payload) if isinstance(item, PendingBatch) else item.event.size
    return ITEM_BYTES + payload


def _channel(item: Item) -> int | None:
    return item.batch.channel if isinstance(item, PendingBatch) else item.event.channel_id
