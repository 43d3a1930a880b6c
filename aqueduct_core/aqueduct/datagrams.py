"""Datagram messages on their way out: their numbers, which ones the transport may still refuse as
too large (AQ-SEND-5), and which ones have not left the link, so are not declared (AQ-SEND-6)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from aqueduct_core.aqueduct.faults import Code, PeerFault
from aqueduct_core.engine.message_batch import Attachment, Headers
from aqueduct_core.primitives.ranges import Range


class DatagramNumbers:
    """The number space of one sender's datagram messages.

    Holds: ``answered`` ≤ ``sent``, and ``declared`` ≤ ``sent`` − ``in_link``: the last ``in_link``
    of those that were numbered have not left the link.
    """

    __slots__ = ("acked", "answered", "declared", "in_link", "sent")

    def __init__(self) -> None:
        self.sent = 0
        self.in_link = 0
        self.declared = 0
        self.answered = 0
        self.acked = 0

    def declare(self) -> int:
        """Declare all that has left; how many more than before these are."""
        more = self.sent - self.in_link - self.declared
        self.declared += more
        return more

    def may_take_back(self, number: int) -> bool:
        """Whether it is the last one, and nobody was told of it (AQ-SEND-5)."""
        return number == self.sent - 1 and number >= self.declared

    def take_back(self) -> None:
        """The last one goes by another way."""
        self.sent -= 1
        self.in_link = max(0, self.in_link - 1)

    def answer(self, lengths: tuple[int, ...]) -> tuple[list[Range], list[Range]]:
        """The numbers acked and nacked by an ACK_NACK_UNRELIABLE; it goes on from the last one.

        Raises:
            PeerFault: a number that was never sent (AQ-ACK-8).
        """
        position = self.answered
        if position + sum(lengths) > self.sent:
            raise PeerFault(Code.ACK, "an ack of a datagram never sent")
        answers: tuple[list[Range], list[Range]] = ([], [])
        for i, length in enumerate(lengths):
            if length:
                answers[i % 2].append((position, position + length))
            position += length
        self.acked += sum(lengths[::2])
        self.answered = position
        return answers

    @property
    def open(self) -> list[Range]:
        """Those that were neither acked nor nacked."""
        return [(self.answered, self.sent)] if self.answered < self.sent else []


class DatagramMessage(NamedTuple):
    channel: int
    number: int
    headers: Headers
    attachments: tuple[Attachment, ...]
    payload: bytes


class Refusable:
    """Messages by token, of the actions not taken yet and of the last ones with datagrams.

    A transport refuses while it carries out actions, so older ones cannot come back.
    """

    __slots__ = ("_fresh", "_handed_over")

    def __init__(self) -> None:
        self._fresh: dict[int, DatagramMessage] = {}
        self._handed_over: dict[int, DatagramMessage] = {}

    def add(self, token: int, message: DatagramMessage) -> None:
        self._fresh[token] = message

    def hand_over(self) -> None:
        """Actions are taken: with new datagrams in them, the earlier ones are past refusal."""
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
