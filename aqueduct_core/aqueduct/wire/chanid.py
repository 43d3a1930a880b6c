"""Channel identifiers (AQ-CHANID-1…4).

Bit 0 says who created the channel, bit 1 who sends on it (0 client, 1 server), bit 2 that it
carries at most one message; the rest is the index. Channel 0 is the entrypoint.
"""

from __future__ import annotations

from enum import IntEnum


class Side(IntEnum):
    """An end of the connection; the value is its bit in a channel identifier."""

    CLIENT = 0
    SERVER = 1

    @property
    def other(self) -> Side:
        return Side.SERVER if self is Side.CLIENT else Side.CLIENT


ENTRYPOINT = 0
INDEX_LIMIT = 1 << 60
"""Indexes end below it, so that every identifier is below 2^63."""


def creator(channel: int) -> Side:
    return Side.SERVER if channel & 1 else Side.CLIENT


def sender(channel: int) -> Side:
    return Side.SERVER if channel & 2 else Side.CLIENT


def oneshot(channel: int) -> bool:
    return bool(channel & 4)


def index(channel: int) -> int:
    return channel >> 3


def make(created_by: Side, sent_by: Side, oneshot: bool, index: int) -> int:
    """The identifier of these parts.

    Raises:
        ValueError: the index is not in [0, 2^60).
    """
    if not 0 <= index < INDEX_LIMIT:
        raise ValueError(f"a channel index must lie in [0, 2^60), not {index}")
    return created_by | sent_by << 1 | int(oneshot) << 2 | index << 3


class ChannelCounters:
    """The indexes that one side has still to give out, apart for each sender and kind."""

    __slots__ = ("_next", "_side")

    def __init__(self, side: Side) -> None:
        self._side = side
        self._next = {(sent_by, once): 0 for sent_by in Side for once in (False, True)}
        if side is Side.CLIENT:
            self._next[Side.CLIENT, False] = 1  # index 0 is the entrypoint

    def upcoming(self, kinds: list[tuple[Side, bool]]) -> list[int]:
        """The identifiers that ``kinds`` (sender, oneshot) will get; nothing is taken yet.

        Raises:
            ValueError: a counter is used up (AQ-CHANID-4).
        """
        ahead = dict(self._next)
        out = []
        for kind in kinds:
            out.append(make(self._side, kind[0], kind[1], ahead[kind]))
            ahead[kind] += 1
        return out

    def take(self, kinds: list[tuple[Side, bool]]) -> None:
        """Use up the next index of each kind, for ever (AQ-CHANID-4)."""
        for kind in kinds:
            self._next[kind] += 1

    def allocated(self, channel: int) -> bool:
        """Whether this side has ever given out ``channel``."""
        return index(channel) < self._next[sender(channel), oneshot(channel)]
