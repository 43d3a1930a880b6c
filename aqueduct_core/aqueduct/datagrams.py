"""Datagram messages on their way out: which ones the transport may still refuse as too large
(AQ-SEND-5), and which ones have not left the link, so that they are not declared (AQ-SEND-6)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from aqueduct_core.aqueduct.news import Attachment, Headers


class DatagramMessage(NamedTuple):
    channel: int
    number: int
    headers: Headers
    attachments: tuple[Attachment, ...]
    payload: bytes


class Refusable:
    """Messages by token, of the orders not taken yet and of the last ones with datagrams.

    A transport refuses while it carries out orders, so older ones cannot come back.
    """

    __slots__ = ("_fresh", "_handed_over")

    def __init__(self) -> None:
        self._fresh: dict[int, DatagramMessage] = {}
        self._handed_over: dict[int, DatagramMessage] = {}

    def add(self, token: int, message: DatagramMessage) -> None:
        self._fresh[token] = message

    def turn(self) -> None:
        """Orders are taken: with new datagrams in them, the earlier ones are past refusal."""
        if self._fresh:
            self._handed_over, self._fresh = self._fresh, {}

    def refused(self, token: int) -> DatagramMessage | None:
        return self._handed_over.pop(token, None)


class LinkQueue:
    """Datagrams handed to the link that have not left it, oldest first.

    ``room``: bytes of them that the link wants to hold; None: it does not tell what has left, so
    each counts as gone at once.
    """

    __slots__ = ("_refused", "_waiting", "room", "size")

    def __init__(self) -> None:
        self.room: int | None = None
        self.size = 0
        self._waiting: deque[tuple[int, int, int]] = deque()  # token, channel, bytes
        self._refused: dict[int, bool] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def takes(self, size: int) -> bool:
        """Whether a datagram of ``size`` bytes may be handed over now."""
        return self.room is None or not self._waiting or self.size + size <= self.room

    def add(self, token: int, channel: int, size: int) -> bool:
        """Note a datagram that is handed over; whether it waits now."""
        if self.room is None:
            return False
        self._waiting.append((token, channel, size))
        self.size += size
        return True

    def left(self, token: int) -> list[int]:
        """All up to ``token`` have left; the channel of each, oldest first."""
        gone = []
        waiting, refused = self._waiting, self._refused
        while waiting and (waiting[0][0] <= token or waiting[0][0] in refused):
            first, channel, size = waiting.popleft()
            self.size -= size
            if refused.pop(first, True):
                gone.append(channel)
        return gone

    def refused(self, token: int, *, sent: bool) -> list[int]:
        """The link will not carry this one; ``sent``: it counts as sent, when those before it
        have left. The channels of those that are gone by that."""
        if self._waiting:
            self._refused[token] = sent
        return self.left(-1)

    def clear(self) -> None:
        """The link is gone."""
        self._waiting.clear()
        self._refused.clear()
        self.size = 0
