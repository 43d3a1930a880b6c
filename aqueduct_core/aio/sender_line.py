"""Senders that have more to send than there is room for, in the order in which they came.

To wake all of them when there is room costs each of thousands a look at what the first few have
taken. Here they are called a few at a time, and each that is called may send its share.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import Protocol

CALLED = 256
"""Senders that are called at once: enough to fill a turn with one short message of each, and few
to be called in vain where the first one has enough for all the room."""

SHARE = 64 << 10
"""Bytes that a sender may send when it is called while others wait. Many short messages of one
channel cost little; behind ten thousand such shares a message waits some seconds, not minutes."""


STEPS = 16
"""Steps of its task in which a sender may come back for more of its share, at most. One that waits
for something else between its messages is not waited for."""


class Blocked(Protocol):
    """Who has more to send than there is room for."""

    def wake(self) -> None:
        """There may be room again."""


class SenderLine:
    """Who waits, first come first served; nobody is in it twice.

    A sender that was called and found no room all the same keeps its place; one that has sent goes
    to the end when it has more. Who is called and does not come back has left the line.

    Holds: in ``_called`` what each may still send, in bytes, until the next ``call``; ``_sent`` is
    how often one of them did since ``goes_on`` was asked.
    """

    def __init__(self) -> None:
        self._back: dict[Blocked, None] = {}
        self._front: dict[Blocked, None] = {}  # called in vain
        self._called: dict[Blocked, int] = {}
        self._sent = self._steps = 0

    def __len__(self) -> int:
        return len(self._front) + len(self._back)

    @property
    def refused(self) -> bool:
        """One of those called last has found no room."""
        return bool(self._front)

    def join(self, sender: Blocked) -> None:
        """It waits for room."""
        if self._called.pop(sender, 0) == SHARE:
            self._front[sender] = None
        elif sender not in self._front:
            self._back[sender] = None

    def may_pass(self, sender: Blocked) -> bool:
        """Whether it may send although others wait: it was called, or nobody waits."""
        if not (self._front or self._back):
            return True
        return self._called.get(sender, 0) > 0

    def charge(self, sender: Blocked, size: int) -> None:
        """It has sent so many bytes."""
        if sender in self._called:
            self._called[sender] -= size
            self._sent += 1

    def goes_on(self) -> bool:
        """A step of the tasks later: whether to wait for one more before the next call, as half of
        those called have sent something in this one and may have more. A message beside others of
        its channel costs a part of one by itself."""
        sent, self._sent = self._sent, 0
        self._steps += 1
        return self._steps < STEPS and 2 * sent >= len(self._called) > 0

    def call(self, most: int = CALLED) -> None:
        """Wake the first ones; none of those called before may pass any more."""
        called = list(islice(chain(self._front, self._back), most))
        for sender in called:
            (self._front if sender in self._front else self._back).pop(sender)
        self._called = dict.fromkeys(called, SHARE)
        self._sent = self._steps = 0
        for sender in called:
            sender.wake()

    def clear(self) -> None:
        """Nobody waits any more."""
        for senders in (self._front, self._back, self._called):
            senders.clear()
