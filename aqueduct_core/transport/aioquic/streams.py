"""Streams that tell their connection when they have work, and which of them there are.

A unidirectional stream has one half; the other is a shared inert object, which halves the memory
of an open stream.
"""

from __future__ import annotations

from typing import Any, Protocol

from aioquic.quic.connection import Limit, QuicConnectionError
from aioquic.quic.events import StreamDataReceived, StreamReset
from aioquic.quic.packet import QuicErrorCode, QuicFrameType, QuicStreamFrame
from aioquic.quic.packet_builder import QuicDeliveryState
from aioquic.quic.stream import (
    FinalSizeError,
    QuicStream,
    QuicStreamReceiver,
    QuicStreamSender,
    StreamFinishedError,
)

from aqueduct_core.engine.streams import is_bidirectional
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.primitives.reassembly import Reassembly, TooScattered
from aqueduct_core.transport.aioquic.sent_ranges import SentRanges


class StreamOwner(Protocol):
    """What the halves of a stream ask of their connection."""

    unacknowledged: int
    untaken: int

    def wake(self, stream_id: int) -> None:
        """The stream has something to send, to repeat, or to be discarded for."""

    def release(self, count: int) -> None:
        """Bytes that will never reach the application no longer count as held."""

    def scatter(self, ranges: int, size: int) -> None:
        """So many ranges and bytes more, or less, wait behind holes in a stream.

        Raises:
            QuicConnectionError: the connection has too many of them.
        """


MAX_RANGES = 256
"""Ranges behind holes that a stream may have. A path that loses so much at once that an honest peer
needs more has made it slow down long before."""

MAX_CRYPTO = 256 << 10
"""Bytes of CRYPTO streams that a peer may send in all, of each epoch: far more than certificates
take. What is not a whole message of TLS yet is held, and joined anew with each piece."""

FEW_STREAMS = 16
"""Streams left to a peer up to which it is told of each further one: an engine keeps the last ones
for what is urgent (H12), and would wait for ever for one that is not told."""

MAX_CONNECTION_RANGES = 8_192
"""The same for all streams of a connection: about a megabyte of what is beside the bytes."""


class StreamKind:
    """The streams of one kind, unidirectional or bidirectional, of both ends.

    Who uses a stream opens all lower ones of its kind (RFC 9000 section 2.1). Those are ranges of
    numbers until they are used, too.

    Attributes:
        limit: how many the peer may open in all, and has opened, as aioquic counts them.
        implicit: numbers of those of the peer that it has skipped over.
        skipped: of ours. An engine numbers its streams as it opens them, and may write to them in
            another order: what is urgent goes first.
    """

    __slots__ = ("_most", "implicit", "limit", "skipped")

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.implicit = RangeSet()
        self.skipped = RangeSet()
        self._most = 0

    @property
    def ranges(self) -> int:
        return len(self.implicit) + len(self.skipped)

    @property
    def due(self) -> bool:
        """MAX_STREAMS goes in batches: once the peer has fewer streams left than it would gain, or
        few at all, and again after the last one told was lost (then ``sent`` is 0)."""
        limit = self.limit
        left, gain = limit.sent - limit.used, limit.value - limit.sent
        return left < gain or (gain > 0 and left <= FEW_STREAMS)

    def offer(self, streams: int) -> None:
        """Let the peer have so many open at once, before it is told so for the first time."""
        self.limit.value = self.limit.sent = self._most = streams

    def grant(self, streams: int) -> None:
        """Let it have so many, but never fewer than before."""
        self.limit.value += max(0, streams - self._most)
        self._most = max(streams, self._most)

    def begin(self, index: int, frame_type: int) -> None:
        """The peer uses its stream ``index`` of this kind, which is not there.

        Raises:
            StreamFinishedError: it was there.
            QuicConnectionError: it may not open so many.
        """
        limit = self.limit
        if index < limit.used:
            if not self.implicit.remove(index, index + 1):
                raise StreamFinishedError
        elif index >= limit.value:
            raise QuicConnectionError(
                error_code=QuicErrorCode.STREAM_LIMIT_ERROR,
                frame_type=frame_type,
                reason_phrase="Too many streams open",
            )
        else:
            self.implicit.add(limit.used, index)
            limit.used = index + 1


class StreamTable(dict[int, Any]):
    """All open streams by id. ``values`` has those whose limit is due and no others: aioquic
    walks over values for one purpose only, to write limits (``check`` makes sure of it).

    ``halves``: of all of them together.
    """

    def __init__(self, due: dict[int, Stream]) -> None:
        super().__init__()
        self.halves = 0
        self._due = due

    def values(self) -> Any:
        # A copy, because the loop over it removes what it has written.
        return list(self._due.values())

    def open(self, stream: Stream) -> Stream:
        self[stream.number] = stream
        self.halves += 1 + is_bidirectional(stream.number)
        return stream

    def pop(self, stream_id: int) -> Any:  # type: ignore[override]  # as aioquic calls it
        self.halves -= 1 + is_bidirectional(stream_id)
        return super().pop(stream_id)


class Stream(QuicStream):
    """A stream of either kind.

    ``queued``: it is in the ready queue or being served, and ``hurried`` in that of urgent ones.
    ``consumed``: bytes that the application is done with. ``urgent_until``: the offset before which
    all that it has to send is urgent.
    """

    def __init__(
        self,
        stream_id: int,
        *,
        receiver: QuicStreamReceiver,
        sender: QuicStreamSender,
        local: int = 0,
        remote: int = 0,
    ) -> None:
        self.is_blocked = False
        self.max_stream_data_local = local
        self.max_stream_data_local_sent = local
        self.max_stream_data_remote = remote
        self.receiver = receiver
        self.sender = sender
        self.stream_id = stream_id
        self.number = stream_id
        self.consumed = 0
        self.queued = False
        self.hurried = False
        self.urgent_until = 0

    @property
    def hurries(self) -> bool:
        """The next bytes that it has to send are urgent."""
        return 0 < self.urgent_until > self.sender.next_offset


class StreamSender(QuicStreamSender):
    """A sending half that counts what is not acknowledged."""

    _left_before = 0
    """Bytes that had left when it was rewound."""

    def __init__(self, owner: StreamOwner, stream_id: int) -> None:
        super().__init__(stream_id, writable=True)
        self._acked = SentRanges()
        self._pending = SentRanges()
        self._owner = owner
        self._number = stream_id
        self._held = 0
        self._waits = False  # for the peer to acknowledge bytes, or a reset

    def write(self, data: bytes, end_stream: bool = False) -> None:
        super().write(data, end_stream)
        self._held += len(data)
        self._owner.unacknowledged += len(data)
        if not self._waits:
            self._note()
        self._owner.wake(self._number)

    def reset(self, error_code: int) -> None:
        super().reset(error_code)
        self._drop(self._held)
        # What was not sent never will be; free it at once rather than when the reset is acked.
        self._buffer.clear()
        self._note()
        self._owner.wake(self._number)

    def on_data_delivery(
        self, delivery: QuicDeliveryState, start: int, stop: int, fin: bool
    ) -> None:
        super().on_data_delivery(delivery, start, stop, fin)
        if delivery == QuicDeliveryState.ACKED:
            self._drop(stop - start)
            if self.is_finished:
                self._owner.wake(self._number)
        else:
            self._owner.wake(self._number)

    def on_reset_delivery(self, delivery: QuicDeliveryState) -> None:
        super().on_reset_delivery(delivery)
        self._note()
        self._owner.wake(self._number)

    def rewind(self) -> None:
        """Send everything once more from the first byte, as if nothing had been sent.

        Only while nothing was acknowledged, for what was is no longer there.
        """
        assert self._buffer_start == 0
        self._left_before = self.highest_offset
        self.highest_offset = 0
        if self._reset_error_code is not None:
            self.reset_pending = True
            return
        if self._buffer_stop:
            self._pending.add(0, self._buffer_stop)
        self._pending_eof = self._buffer_fin is not None
        self.buffer_is_empty = not (self._buffer_stop or self._pending_eof)

    @property
    def abandoned(self) -> bool:
        """It was reset: by our engine, or because the peer asked to end it."""
        return self._reset_error_code is not None

    @property
    def left(self) -> int:
        """Bytes that have left, once each."""
        return max(self.highest_offset, self._left_before)

    @property
    def written(self) -> int:
        """Bytes that were written."""
        return self._buffer_stop

    @property
    def offers(self) -> int | None:
        """The offset of the first byte that waits to be sent; None: at most an end waits."""
        return self.next_offset if len(self._pending) else None

    def rests(self) -> bool:
        """Whether it has neither bytes nor an end to send. aioquic would find that out when it asks
        for the next frame; who knows it before need not ask."""
        if len(self._pending) == 0 and not self._pending_eof:
            self.buffer_is_empty = True
        return self.buffer_is_empty

    def _drop(self, count: int) -> None:
        count = min(count, self._held)
        self._held -= count
        self._owner.unacknowledged -= count
        if not self._held:
            self._note()

    def _note(self) -> None:
        """Whether it waits may have changed."""
        reset = self._reset_error_code is not None and not self.is_finished
        waits = reset or self._held > 0
        self._owner.untaken += waits - self._waits
        self._waits = waits


class StreamReceiver(QuicStreamReceiver):
    """A receiving half that keeps what is behind holes in ordered ranges, a bounded number of them,
    and gives back the credit of what it will not deliver."""

    def __init__(self, owner: StreamOwner, stream_id: int) -> None:
        super().__init__(stream_id, readable=True)
        self._owner = owner
        self._number = stream_id
        self._waiting = Reassembly(MAX_RANGES)

    def starting_offset(self) -> int:
        return self._waiting.position

    def advance(self, start: int, stop: int) -> bool:
        """Take ``start`` to ``stop`` as delivered if they are simply the next bytes, and no frame,
        not even an empty one, was ahead of them."""
        waiting = self._waiting
        if (
            start != waiting.position
            or start != self.highest_offset
            or self.is_finished
            or self._final_size is not None
        ):
            return False
        waiting.position = stop
        self.highest_offset = stop
        return True

    def handle_frame(self, frame: QuicStreamFrame) -> StreamDataReceived | None:
        stop = frame.offset + len(frame.data)
        if self._final_size is not None and stop > self._final_size:
            raise FinalSizeError("Data received beyond final size")
        if frame.fin:
            if self._final_size not in (None, stop):
                raise FinalSizeError("Cannot change final size")
            if stop < self.highest_offset:
                raise FinalSizeError("Data received beyond final size")
            self._final_size = stop
        self.highest_offset = max(self.highest_offset, stop)
        if self.is_finished:
            return None
        data = self._take(frame)
        ended = self._waiting.position == self._final_size
        if ended:
            self.is_finished = True
            self._owner.wake(self._number)
        if not data and not ended:
            return None
        return StreamDataReceived(data=data, end_stream=ended, stream_id=self._number)

    def _take(self, frame: QuicStreamFrame) -> bytes:
        waiting = self._waiting
        before, held = waiting.ranges, waiting.held
        try:
            data = waiting.add(frame.offset, frame.data)
        except TooScattered as error:
            raise _too_scattered(QuicErrorCode.INTERNAL_ERROR, str(error)) from None
        if waiting.held != held:
            self._owner.scatter(waiting.ranges - before, waiting.held - held)
        return data

    def handle_reset(
        self, *, final_size: int, error_code: int = QuicErrorCode.NO_ERROR
    ) -> StreamReset | None:
        event = super().handle_reset(final_size=final_size, error_code=error_code)
        if event is not None:
            self._owner.release(final_size - self._waiting.position)
            self._owner.scatter(-self._waiting.ranges, -self._waiting.held)
            self._waiting.clear()
        self._owner.wake(self._number)
        return event

    def stop(self, error_code: int = QuicErrorCode.NO_ERROR) -> None:
        super().stop(error_code)
        self._owner.wake(self._number)

    def rewind(self) -> None:
        """Ask once more what was asked, as if nothing had been sent."""
        self.stop_pending = self._stop_error_code is not None

    def on_stop_sending_delivery(self, delivery: QuicDeliveryState) -> None:
        if not self.is_finished:
            super().on_stop_sending_delivery(delivery)
        self._owner.wake(self._number)


NO_SENDER = QuicStreamSender(None, writable=False)
NO_RECEIVER = QuicStreamReceiver(None, readable=False)


CRYPTO = -1
"""In place of the number of a stream."""


class CryptoReceiver(QuicStreamReceiver):
    """The receiving half of a CRYPTO stream, in ordered ranges as those of other streams are."""

    def __init__(self) -> None:
        super().__init__(None, readable=True)
        self._waiting = Reassembly(MAX_RANGES)

    @property
    def held(self) -> int:
        """Bytes that came, at most: those that TLS has, and those behind a hole."""
        return self._waiting.position + self._waiting.held

    def starting_offset(self) -> int:
        return self._waiting.position

    def handle_frame(self, frame: QuicStreamFrame) -> StreamDataReceived | None:
        if frame.offset + len(frame.data) > MAX_CRYPTO:
            raise _too_scattered(
                QuicErrorCode.CRYPTO_BUFFER_EXCEEDED, f"more than {MAX_CRYPTO} bytes of a handshake"
            )
        try:
            data = self._waiting.add(frame.offset, frame.data)
        except TooScattered as error:
            raise _too_scattered(QuicErrorCode.CRYPTO_BUFFER_EXCEEDED, str(error)) from None
        if not data:
            return None
        return StreamDataReceived(data=data, end_stream=False, stream_id=CRYPTO)


def _too_scattered(code: QuicErrorCode, reason: str) -> QuicConnectionError:
    return QuicConnectionError(
        error_code=code, frame_type=QuicFrameType.PADDING, reason_phrase=reason
    )
