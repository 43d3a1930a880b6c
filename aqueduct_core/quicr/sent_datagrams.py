"""Pieces of media that left as datagrams: what is repeated, and when all of a media is there."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from aqueduct_core.engine.inputs import DatagramFate
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.sending import MediaSender

ENTRY_BYTES = 400
"""Memory of a datagram that is awaited, beside its data."""


class SentPiece(NamedTuple):
    """A piece of a media; ``sent_at``: when it left first. ``fragment`` has the queue delay with
    which it came to this hop. ``again``: it is, or is to be, sent once more."""

    sender: MediaSender
    fragment: Fragment
    sent_at: float
    again: bool = False

    def repeated(self, now: float) -> Fragment:
        """The piece as it is sent again: it has waited here (Q31)."""
        waited = round((now - self.sent_at) * 1_000)
        return self.fragment._replace(queue_delay=self.fragment.queue_delay + waited)


class SentDatagrams:
    """What is not acknowledged yet, by token, and what is to be sent again.

    Where the link does not tell what becomes of datagrams, each one is sent once more after
    ``repeat_after`` seconds, and counts as received then (`expire`).
    """

    def __init__(self, repeat_after: float) -> None:
        self._repeats: deque[SentPiece] = deque()
        self.told = False
        """The link tells what becomes of each datagram."""
        self.size = 0
        """Bytes of memory, about."""
        self._pieces: dict[int, SentPiece] = {}
        self._expiring: deque[tuple[float, int]] = deque()
        self._repeat_after = repeat_after

    @property
    def repeats(self) -> int:
        """Pieces that are to be sent again."""
        return len(self._repeats)

    @property
    def wake_at(self) -> float | None:
        return self._expiring[0][0] if self._expiring else None

    def add(self, token: int, piece: SentPiece, now: float) -> None:
        """It was handed to the link. It counts in `MediaSender.unconfirmed` already."""
        self._pieces[token] = piece
        self.size += _size(piece)
        if not self.told:
            self._expiring.append((now + self._repeat_after, token))

    def outcome(self, token: int, fate: DatagramFate, now: float) -> MediaSender | None:
        """What became of a datagram; the sender, where that may be its last one."""
        if fate is DatagramFate.LEFT:
            return None
        piece = self._take(token)
        if piece is None:
            return None
        if fate is DatagramFate.ACKED:
            piece.sender.unconfirmed -= 1
            return piece.sender
        self._repeat(piece)
        return None

    def take_repeat(self) -> SentPiece:
        """The piece that is to be sent again before the others; there is one."""
        piece = self._repeats.popleft()
        self.size -= _size(piece)
        return piece

    def expire(self, now: float) -> list[MediaSender]:
        """Without word from the link: repeat what has left long enough ago; the senders of what was
        repeated before."""
        done = []
        while self._expiring and self._expiring[0][0] <= now:
            piece = self._take(self._expiring.popleft()[1])
            if piece is None:
                continue
            if piece.again:
                piece.sender.unconfirmed -= 1
                done.append(piece.sender)
            else:
                self._repeat(piece)
        return done

    def forget(self, sender: MediaSender) -> None:
        """The transaction is over: what it sent is not repeated any more."""
        for token in [t for t, piece in self._pieces.items() if piece.sender is sender]:
            self._take(token)
        for piece in self._repeats:
            if piece.sender is sender:
                self.size -= _size(piece)
        self._repeats = deque(piece for piece in self._repeats if piece.sender is not sender)

    def _repeat(self, piece: SentPiece) -> None:
        self.size += _size(piece)
        self._repeats.append(piece._replace(again=True))

    def _take(self, token: int) -> SentPiece | None:
        piece = self._pieces.pop(token, None)
        if piece is not None:
            self.size -= _size(piece)
        return piece


def _size(piece: SentPiece) -> int:
    return ENTRY_BYTES + len(piece.fragment.data)
