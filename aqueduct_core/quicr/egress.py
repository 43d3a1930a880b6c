"""What one connection sends: control messages at once, media as there is room for it in the link.

Media waits here and not in QUIC, where it could not be given up any more, and where nothing more
urgent could overtake it. Pieces go by their rank (`sending.Rank`), repeats before all others.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

from aqueduct_core.engine.actions import Action, ResetStream, SendDatagram, WriteStream
from aqueduct_core.engine.inputs import DatagramFate, DatagramOutcome, LinkReady
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.events import Pressure
from aqueduct_core.quicr.media.drop_level import DropLevel
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.sending import MediaSender, SendRank
from aqueduct_core.quicr.sent_datagrams import SentDatagrams, SentPiece
from aqueduct_core.quicr.wire.codec import LONGEST_DATA, encode, encode_fragment
from aqueduct_core.quicr.wire.datagrams import HEADER_OVERHEAD, encode_header
from aqueduct_core.quicr.wire.messages import FinMessage, StartPointMessage

LEAST_PIECE = 1_000
"""Bytes: no piece of a stream is cut smaller, however little room there is."""
PARTS = 8
"""So many parts of its room are not used: the link says at once what has left, and gets more in the
same turn. What lies in it cannot be given up, and waits as long again as all that is under way."""
LEAST_ROOM = 4 * 1_200
LEAST_DATAGRAM = 256
"""A peer that takes no longer ones takes none: it would have us make one for every few bytes. QUIC
carries ones of more than 1,000 on every path."""


STALL = 0.05
"""Seconds in which nothing leaves of a full link. After that what is in it is said to wait for its
readers and not for the path, and others may send beside it."""


@dataclass(slots=True)
class _StreamProgress:
    """Bytes that were written on a stream, and those of them that have left. ``stalled``: what has
    not waits for the peer to read, and is not counted as waiting for the path."""

    written: int = 0
    left: int = 0
    stalled: bool = False

    @property
    def waiting(self) -> int:
        return self.written - self.left


class MediaEgress:
    """The senders of one connection.

    ``level`` is None where nothing is ever given up.
    """

    def __init__(self, config: QuicrConfig) -> None:
        dropping = config.dropping
        self.level = (
            DropLevel(dropping.reading, dropping.threshold, dropping.interval) if dropping else None
        )
        self.sent = SentDatagrams(config.repeat_after)
        self.max_datagram = 0
        self._write_ahead = self._room = config.write_ahead
        self._stream_progress = False
        self._streams: dict[int, _StreamProgress] = {}
        self._waiting = 0  # bytes of streams in the link
        self._stalls_at: float | None = None
        self._datagrams: deque[tuple[int, int]] = deque()  # tokens and sizes of those in the link
        self._datagram_bytes = 0
        self._tokens = 0
        self._senders: dict[int, MediaSender] = {}
        self._ranks: dict[int, SendRank] = {}
        self._heap: list[tuple[SendRank, int]] = []
        self._parts: dict[int, list[bytes]] = {}
        self._ends: set[int] = set()
        self._resets: list[ResetStream] = []
        self._out: list[Action] = []
        self._finished: list[MediaSender] = []
        self._dropping: dict[int, None] = {}

    # what the link says

    def link_ready(self, ready: LinkReady) -> None:
        self.max_datagram = ready.max_datagram_size
        self.sent.told = ready.datagram_outcomes
        self._stream_progress = ready.stream_progress

    def room(self, size: int) -> None:
        self._room = min(max(size // PARTS, LEAST_ROOM), self._write_ahead)

    def stream_left(self, stream: int, total: int) -> None:
        progress = self._streams.get(stream)
        self._stalls_at = None
        if progress is not None and total > progress.left:
            if progress.stalled:
                progress.stalled = False
                self._waiting += progress.waiting
            self._waiting -= total - progress.left
            progress.left = total

    def datagram_outcome(self, outcome: DatagramOutcome, now: float) -> None:
        token, fate = outcome
        queue = self._datagrams
        if fate is DatagramFate.LEFT:
            self._stalls_at = None
            while queue and queue[0][0] <= token:
                self._datagram_bytes -= queue.popleft()[1]
            return
        if fate is DatagramFate.REFUSED:
            for index, (refused, size) in enumerate(queue):
                if refused == token:
                    del queue[index]
                    self._datagram_bytes -= size
                    break
        sender = self.sent.outcome(token, fate, now)
        if sender is not None:
            self._settle(sender)

    # what the transactions say

    def write(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """A control message, or the end of our side, behind what was written before."""
        self._append(stream, data)
        if end:
            self._ends.add(stream)

    def reset(self, stream: int, code: int) -> None:
        """Break off our side, behind what was written before."""
        self._resets.append(ResetStream(stream, code))

    def unsent(self, stream: int) -> int:
        """Bytes of a stream that wait in the link, as far as it tells."""
        progress = self._streams.get(stream)
        return progress.waiting if progress is not None else 0

    def add(self, sender: MediaSender) -> None:
        self._senders[sender.stream] = sender
        self.wake(sender.stream)

    def wake(self, stream: int) -> None:
        """Its source may have a piece again, or its final point."""
        sender = self._senders.get(stream)
        if sender is None or stream in self._ranks:
            return
        rank = sender.rank
        if rank is None:
            self._settle(sender)
        else:
            self._ranks[stream] = rank
            heapq.heappush(self._heap, (rank, stream))

    def remove(self, stream: int) -> None:
        """The transaction is over: nothing of it is sent any more, but what is written already."""
        sender = self._senders.pop(stream, None)
        if sender is not None:
            self._ranks.pop(stream, None)
            self.sent.forget(sender)

    def forget_stream(self, stream: int) -> None:
        """The stream has ended both ways."""
        progress = self._streams.pop(stream, None)
        if progress is not None and not progress.stalled:
            self._waiting -= progress.waiting

    # turns

    @property
    def wake_at(self) -> float | None:
        level = self.level.due(bool(self._ranks)) if self.level is not None else None
        due = [at for at in (level, self.sent.wake_at, self._stalls_at) if at is not None]
        return min(due, default=None)

    def tick(self, now: float) -> Pressure | None:
        for sender in self.sent.expire(now):
            self._settle(sender)
        if self._stalls_at is not None and now >= self._stalls_at:
            self._stalls_at = None
            for progress in self._streams.values():
                if progress.waiting and not progress.stalled:
                    progress.stalled = True
                    self._waiting -= progress.waiting
        return self._adjust(now)

    def _adjust(self, now: float) -> Pressure | None:
        """Move the drop level, where it is time to; what there is to say of it."""
        level = self.level
        due = None if level is None else level.due(bool(self._ranks))
        if level is None or due is None or now < due:
            return None
        live = [rank.since for rank in self._ranks.values() if not rank.history]
        # history says nothing of the path: neither that it is too narrow nor that it is free
        if not live and self._ranks:
            delay: float | None = 0.0
        else:
            delay = now - min(live) if live else None
        if not level.adjust(delay, now):
            return None
        return Pressure(level.level, delay or 0.0, len(live))

    def actions(self, now: float) -> list[Action]:
        """What has to be sent now."""
        self._pump(now)
        if self._parts or self._ends:
            streams = self._parts
            for stream in self._ends:
                streams.setdefault(stream, [])
            writes: list[Action] = [
                WriteStream(stream, b"".join(parts), stream in self._ends)
                for stream, parts in streams.items()
            ]
            self._parts, self._ends = {}, set()
            self._out += writes
        self._out += self._resets
        self._resets.clear()
        taken, self._out = self._out, []
        return taken

    def finished(self) -> list[MediaSender]:
        """Take the senders that have sent all, the final point included."""
        taken, self._finished = self._finished, []
        return taken

    def dropping(self) -> list[int]:
        """Take the transactions that have given up objects since the last call."""
        taken, self._dropping = self._dropping, {}
        return list(taken)

    # the inside

    def _pump(self, now: float) -> None:
        while self.sent.repeats:
            if not self._may_send_datagram():
                self._expect_stall(now)
                break
            self._repeat(self.sent.take_repeat(), now)
        heap = self._heap
        blocked: list[tuple[SendRank, int]] = []
        while heap:
            rank, stream = heap[0]
            if self._ranks.get(stream) is not rank:
                heapq.heappop(heap)  # of a transaction that is over
                continue
            sender = self._senders[stream]
            allowed = self._allowed(sender)
            if allowed is None:
                self._expect_stall(now)
                break
            heapq.heappop(heap)
            if not allowed:
                blocked.append((rank, stream))
                continue
            del self._ranks[stream]
            self._send(sender, allowed, now)
            self.wake(stream)
        for entry in blocked:
            heapq.heappush(heap, entry)

    def _expect_stall(self, now: float) -> None:
        """Something has no room: where that lasts, it may be for readers that do not read."""
        if self._stalls_at is None and self._waiting:
            self._stalls_at = now + STALL

    def _allowed(self, sender: MediaSender) -> int | None:
        """How many bytes of a media may go now; 0: none of this one, None: none of any.

        Each stream has a part of the room, so that one whose reader does not read, which waits in
        the link, leaves room to others; and where they fill it all, they count no more (`STALL`).
        """
        room = self._room - self._waiting - self._datagram_bytes
        if sender.datagram_id is not None:
            if not self._may_send_datagram():
                return None
            return max(1, self.max_datagram - HEADER_OVERHEAD)
        if room <= 0:
            return None
        progress = self._streams.get(sender.stream)
        if progress is None:
            return min(LONGEST_DATA, max(LEAST_PIECE, room))
        part = self._room // (1 + len(self._senders)) - progress.waiting
        if progress.stalled or (part <= 0 and progress.waiting):
            return 0
        return min(LONGEST_DATA, max(LEAST_PIECE, min(part, room)))

    def _may_send_datagram(self) -> bool:
        if not self._datagrams and not self._waiting:
            return True
        return self._datagram_bytes + self._waiting + self.max_datagram <= self._room

    def _send(self, sender: MediaSender, most: int, now: float) -> None:
        if sender.datagram_id is None and not sender.begun:
            self._tell_start(sender)
        piece = sender.piece(most)
        if sender.dropped:
            self._dropping[sender.stream] = None
        if piece is None:
            return
        if sender.datagram_id is None:
            self._append(sender.stream, encode_fragment(piece))
            return
        self._tell_start(sender)
        sender.unconfirmed += 1
        self._datagram(SentPiece(sender, piece, now), piece, now)

    def _repeat(self, sent: SentPiece, now: float) -> None:
        """Send a piece again; in several, where datagrams are smaller by now (Q32)."""
        fragment = sent.repeated(now) if sent.sent_at < now else sent.fragment
        most = max(1, self.max_datagram - HEADER_OVERHEAD)
        pieces = _cut(sent.fragment, most)
        sent.sender.unconfirmed += len(pieces) - 1
        for piece in pieces:
            out = piece._replace(queue_delay=fragment.queue_delay)
            self._datagram(sent._replace(fragment=piece), out, now)

    def _datagram(self, sent: SentPiece, piece: Fragment, now: float) -> None:
        assert sent.sender.datagram_id is not None
        data = encode_header(sent.sender.datagram_id, piece) + piece.data
        self._tokens = token = self._tokens + 1
        self.sent.add(token, sent, now)
        self._datagrams.append((token, len(data)))
        self._datagram_bytes += len(data)
        self._out.append(SendDatagram(data, token))

    def _tell_start(self, sender: MediaSender) -> None:
        """START_POINT, where it is not the beginning (Q15); on a stream before all fragments."""
        waiting = sender.source.peek() if sender.datagram_id is None else None
        start = sender.source.start if waiting is None else waiting.fragment.position
        if start != sender.start_told:
            sender.start_told = start
            self._append(sender.stream, encode(StartPointMessage(start)))

    def _settle(self, sender: MediaSender) -> None:
        """Tell the final point, if all before it is there (Q8, Q9, K2)."""
        if not sender.finished or sender.stream not in self._senders:
            return
        final = sender.source.final
        assert final is not None
        if sender.datagram_id is not None or not sender.begun:
            self._tell_start(sender)
        del self._senders[sender.stream]
        # a stream ends with its media; behind datagrams its end is the answer to the receiver's
        self.write(sender.stream, encode(FinMessage(final)), end=sender.datagram_id is None)
        self._finished.append(sender)

    def _append(self, stream: int, data: bytes) -> None:
        self._parts.setdefault(stream, []).append(data)
        if self._stream_progress:
            progress = self._streams.setdefault(stream, _StreamProgress())
            progress.written += len(data)
            if not progress.stalled:
                self._waiting += len(data)


def _cut(fragment: Fragment, most: int) -> list[Fragment]:
    """In pieces of at most ``most`` bytes."""
    if len(fragment.data) <= most:
        return [fragment]
    group, number, offset, data, last, flags, delay, previous = fragment
    return [
        Fragment(
            group,
            number,
            offset + at,
            data[at : at + most],
            last and at + most >= len(data),
            flags,
            delay,
            None if at else previous,
        )
        for at in range(0, len(data), most)
    ]
