"""The order in which streams are served, of those only that have something to send.

Stock aioquic walks a list of all open streams for each packet that it builds, also when the packet
has been full for long. Here a stream stands in the order while it has work, is taken from its front
while the packet has room, and goes to its end, or out of it until something wakes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from aioquic.quic.packet_builder import QuicPacketBuilder

from aqueduct_core.transport.aioquic.streams import Stream, StreamSender

DATA_OVERHEAD = 19
"""Bytes of a STREAM frame beside its data at most: type, length, stream and offset."""

CONTROL_SIZE = 42
"""Bytes of a STOP_SENDING and a RESET_STREAM at most. aioquic gives up the whole flight where one
of them does not fit the packet."""

LEAST_FLIGHT = 64
"""Bytes that the congestion window has left below which no stream is asked. To find out of each of
many that it cannot send costs as much as to send, and a peer that acknowledges nothing keeps its
window full for as long as it likes."""


class Credit(Protocol):
    @property
    def out_of_credit(self) -> bool:
        """The peer takes no more new bytes of any stream."""


class ServiceOrder:
    """Streams with something to send, to repeat, to reset or to stop; each has its turn, those
    with something urgent ahead of all others.

    Whoever builds packets calls ``begin`` for a flight, then for each packet ``take`` while it
    gives a stream, with the room that is left, and ``settle`` at the end. To aioquic it is the list
    of streams that it walks once and replaces by a new one for each packet: walking takes streams,
    and ``replaced`` settles.

    Holds: each stream once (``Stream.queued``); in ``starved`` those that lack nothing but credit
    of the connection.
    """

    def __init__(self, credit: Credit) -> None:
        self.starved: dict[int, Stream] = {}
        self._credit = credit
        self._waiting: deque[Stream] = deque()
        self._urgent: deque[Stream] = deque()
        self._controlled: dict[int, Stream] = {}
        self._taken: Stream | None = None
        self._builder: QuicPacketBuilder | None = None
        self._left = self._urgent_left = 0  # streams that this packet may still ask
        self._walked = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._urgent) + (self._taken is not None)

    def add(self, stream: Stream) -> None:
        """It has something to do. Does nothing where it stands in the order already."""
        if not stream.queued:
            stream.queued = True
            self._place(stream)
        if _controls(stream):
            self._controlled[stream.number] = stream

    def hurry(self, stream: Stream, until: int) -> None:
        """What it has to send before this offset is urgent; said before these bytes are written."""
        stream.urgent_until = until
        if stream.queued and not stream.hurried:
            self._waiting.remove(stream)  # rare: it had something to send that was not urgent
            stream.queued = False
            self.add(stream)

    def feed(self) -> None:
        """The connection has credit again: those who starved go on."""
        starved, self.starved = self.starved, {}
        for stream in starved.values():
            self.add(stream)

    def clear(self) -> None:
        """Nobody has anything to do, and nobody starves."""
        for queue in (self._waiting, self._urgent):
            for stream in queue:
                stream.queued = False
            queue.clear()
        self._controlled.clear()
        self.starved.clear()

    # A flight of packets

    def begin(self, builder: QuicPacketBuilder) -> None:
        """Serve streams into the packets of this builder, if they may send anything at all."""
        most = builder.max_flight_bytes
        full = most is not None and most - builder._flight_bytes < LEAST_FLIGHT
        self._builder = None if full else builder
        self.replaced()

    def end(self) -> None:
        """The flight is built."""
        self.settle()
        self._builder = None

    def take(self, room: int) -> Stream | None:
        """The next stream, for a packet that has so many bytes left; None: it is full, or all have
        been asked. Settles the one before."""
        self.settle()
        while True:
            urgent = self._urgent_left > 0 and bool(self._urgent)
            queue = self._urgent if urgent else self._waiting
            if not (queue and (urgent or self._left > 0)):
                return None
            stream = queue[0]
            if stream.is_finished:
                queue.popleft()
                stream.queued = False
                continue
            if room < (CONTROL_SIZE if _controls(stream) else DATA_OVERHEAD):
                return None
            if urgent:
                self._urgent_left -= 1
            else:
                self._left -= 1
            self._taken = queue.popleft()
            return self._taken

    @property
    def alone(self) -> bool:
        """No other stream than the one taken is in the order."""
        return not (self._waiting or self._urgent)

    @property
    def controls(self) -> bool:
        """A stream that stands here is to be reset or stopped."""
        controlled = self._controlled
        while controlled:
            number, stream = next(iter(controlled.items()))
            if stream.queued and not stream.is_finished and _controls(stream):
                return True
            del controlled[number]
        return False

    def settle(self) -> None:
        """Let the stream that was taken wait for its next turn, or park it until it is woken."""
        stream, self._taken = self._taken, None
        if stream is None:
            return
        if self._has_more(stream):
            self._place(stream)
        else:
            stream.queued = False

    def _place(self, stream: Stream) -> None:
        stream.hurried = stream.hurries
        (self._urgent if stream.hurried else self._waiting).append(stream)

    def _has_more(self, stream: Stream) -> bool:
        sender = stream.sender
        if stream.is_finished:
            return False
        if _controls(stream):
            return True
        if stream.is_blocked or sender.buffer_is_empty or not isinstance(sender, StreamSender):
            return False
        offset = sender.offers
        if offset is None:
            return not sender.rests()
        if offset >= stream.max_stream_data_remote:
            return False
        if offset >= sender.highest_offset and self._credit.out_of_credit:
            self.starved[stream.number] = stream
            return False
        return True

    # As the list that aioquic walks

    def __bool__(self) -> bool:
        """Streams may want to send in this flight."""
        return self._builder is not None and bool(self._waiting or self._urgent)

    def __iter__(self) -> Iterator[Stream]:
        if self._walked or self._builder is None:
            return iter(())  # aioquic sorts out what it has walked
        self._walked = True
        return self

    def __next__(self) -> Stream:
        assert self._builder is not None
        stream = self.take(self._builder.remaining_flight_space)
        if stream is None:
            raise StopIteration
        return stream

    def extend(self, served: object) -> None:
        """They have their places already."""

    def replaced(self) -> None:
        """A packet is over: the next one may ask all streams that stand here now."""
        self.settle()
        self._left, self._urgent_left = len(self._waiting), len(self._urgent)
        self._walked = False


def _controls(stream: Stream) -> bool:
    """It is to be reset or stopped."""
    return stream.receiver.stop_pending or stream.sender.reset_pending
