"""One direction of a path with a rate, for links in memory, and how a transport sends over it."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from aqueduct_core.engine.actions import SendDatagram
from aqueduct_core.engine.inputs import StreamBytes

PACKET = 1_200
"""Bytes of a stream that go at once; a datagram goes whole."""
FIRST_WINDOW = 10 * PACKET
LEAST_WINDOW = 2 * PACKET


class Passage(NamedTuple):
    """What has left, and when it reaches the other end; None: it was dropped on the way."""

    item: SendDatagram | StreamBytes
    arrives: float | None


class _Answer(NamedTuple):
    """When the sender learns what became of a packet."""

    at: float
    size: int
    sent: float
    carried: bool


class MemoryPath:
    """A queue with a tail in front of a slow line, and a sender that feels its way (RFC 9002 §7:
    slow start, then one more packet each round trip, half the window after a loss).

    Args:
        rate: bytes per second of the line.
        queue: bytes that wait for the line; what comes on top is dropped.
        delay: seconds from one end to the other, apart from the queue.

    ``datagrams`` and ``pieces`` of streams wait in the sender and take turns; append to them, then
    ``advance``. A piece that was dropped is sent again a round trip later, ahead of all others.
    """

    def __init__(self, rate: float, queue: int, delay: float) -> None:
        self.datagrams: deque[SendDatagram] = deque()
        self.pieces: deque[StreamBytes] = deque()
        self.left: dict[int, int] = {}
        """Bytes that have left for the first time, by stream; whoever reads it takes them out."""
        self.window = FIRST_WINDOW
        self.dropped = 0
        self._rate, self._queue, self._delay = rate, queue, delay
        self._threshold: float | None = None
        self._in_flight = 0
        self._free_at = 0.0
        self._answers: deque[_Answer] = deque()  # the line keeps order, so these come in order too
        self._halved_at = -1.0
        self._repeats_at = -1.0
        self._repeats = False  # the first of the pieces has left before
        self._stream_next = False

    @property
    def waiting(self) -> int:
        """Bytes that have not left."""
        streams = sum(len(piece.data) for piece in self.pieces)
        return streams + sum(len(datagram.data) for datagram in self.datagrams)

    @property
    def next_at(self) -> float | None:
        """When ``advance`` is wanted next; None: nothing is under way."""
        return self._answers[0].at if self._answers else None

    def advance(self, now: float) -> list[Passage]:
        """Learn what is known by now, and send what the window has room for."""
        while self._answers and self._answers[0].at <= now:
            self._learn(self._answers.popleft(), now)
        passages: list[Passage] = []
        while self._send(now, passages):
            pass
        return passages

    def _learn(self, answer: _Answer, now: float) -> None:
        self._in_flight -= answer.size
        if not answer.carried:
            if answer.sent > self._halved_at:  # once for what was under way together
                self._halved_at = now
                self.window = max(self.window // 2, LEAST_WINDOW)
                self._threshold = self.window
        elif self._threshold is None:
            self.window += answer.size
        else:
            self.window += PACKET * answer.size // self.window

    def _send(self, now: float, passages: list[Passage]) -> bool:
        """Send one packet; False: there is none, or the window has no room for it."""
        streams = bool(self.pieces) and now >= self._repeats_at
        if not (streams or self.datagrams):
            return False
        stream = streams and (self._stream_next or not self.datagrams)
        size = len(self.pieces[0].data if stream else self.datagrams[0].data)
        if stream:
            size = min(size, PACKET)
        if self._in_flight and self._in_flight + size > self.window:
            return False
        self._stream_next = not stream
        if stream and not self._repeats:
            number = self.pieces[0].stream_id
            self.left[number] = self.left.get(number, 0) + size
        self._in_flight += size
        waiting = max(0.0, self._free_at - now) * self._rate
        carried = waiting + size <= self._queue
        if carried:
            self._free_at = max(self._free_at, now) + size / self._rate
        known = max(self._free_at, now) + 2 * self._delay
        self._answers.append(_Answer(known, size, now, carried))
        if not carried:
            self.dropped += 1
            if stream:
                self._repeats_at = known
                self._repeats = True
                return True
        self._repeats = self._repeats and not stream
        item = self._packet() if stream else self.datagrams.popleft()
        passages.append(Passage(item, self._free_at + self._delay if carried else None))
        return True

    def _packet(self) -> StreamBytes:
        """Take what fits a packet from the next piece."""
        piece = self.pieces.popleft()
        if len(piece.data) <= PACKET:
            return piece
        self.pieces.appendleft(piece._replace(data=piece.data[PACKET:]))
        return piece._replace(data=piece.data[:PACKET], end=False)

    def take_back(self, stream_id: int) -> int:
        """A stream is abandoned: forget what of it has not left; how many bytes."""
        if self.pieces and self.pieces[0].stream_id == stream_id:
            self._repeats = False
        kept = [piece for piece in self.pieces if piece.stream_id != stream_id]
        taken = sum(len(piece.data) for piece in self.pieces) - sum(len(p.data) for p in kept)
        self.pieces = deque(kept)
        return taken

    def clear(self) -> None:
        """The link is closed."""
        self.datagrams.clear()
        self.pieces.clear()
        self._answers.clear()
