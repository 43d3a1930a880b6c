"""From the peer's bytes to frames at the right machine: streams, datagrams, holding, credit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from aqueduct_core.aqueduct.channels import ChannelHalf, Channels
from aqueduct_core.aqueduct.context import ConnectionContext, Timer
from aqueduct_core.aqueduct.credit import DATAGRAM
from aqueduct_core.aqueduct.dispatch import Dispatch
from aqueduct_core.aqueduct.faults import Code, PeerFault
from aqueduct_core.aqueduct.handshake import Handshake
from aqueduct_core.aqueduct.receiver import ReceiverHalf
from aqueduct_core.aqueduct.wire import codec
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.frames import (
    AckNackUnreliable,
    AckReliable,
    AckVersion,
    Block,
    ConnectionHeaders,
    ForgetChannel,
    Frame,
    MessageFrame,
    RouteTo,
    Version,
)
from aqueduct_core.aqueduct.wire.grammar import SequenceReader
from aqueduct_core.engine.inputs import StreamBytes
from aqueduct_core.primitives import varint

CHANNEL = 8
"""The work of a channel that a message brings, in that of a plain message; measured."""
ROUTE = 4
"""The same of a sequence."""
IN_A_BLOCK = 1 / 8
"""The same of a message in a row of plain ones, and of a range of acks."""
ARRIVALS = 4_096
"""Pieces of streams that wait in the order in which they came; beyond it those of a stream that
waits already are taken in with what came of it before."""
SOON = 1e-6
"""Seconds: in the next turn, and not in this one."""


class Inbound:
    """One stream or datagram of the peer on its way in: its reader, its machine, its credit.

    Holds: ``early``, the bytes of the incomplete frame whose credit went back already;
    ``held``, the bytes that wait for the gate. ``cut``: a reset came while frames waited.
    ``counted``: its bytes in the total of what waits; ``queued``: how often it waits for a turn."""

    __slots__ = ("_settled", "counted", "cut", "early", "ended", "half", "held", "queued", "reader",
                 "stream_id")  # fmt: skip

    def __init__(self, stream_id: int, reader: SequenceReader) -> None:
        self.stream_id = stream_id
        self.reader = reader
        self.half: ChannelHalf | None = None
        self.ended = False
        self.cut = False
        self.early = 0
        self.counted = 0
        self.held = 0
        self.queued = 0
        self._settled = 0

    @property
    def datagram(self) -> bool:
        return self.stream_id == DATAGRAM

    def parsed(self) -> int:
        """Bytes parsed since the last call whose credit did not go back yet."""
        fresh = self.reader.parsed - self._settled
        self._settled = self.reader.parsed
        covered = min(self.early, fresh)
        self.early -= covered
        return fresh - covered

    def waiting(self) -> int:
        """Bytes of the incomplete frame whose credit goes back now, ahead of the frame."""
        more = self.reader.waiting - self.early
        self.early = self.reader.waiting
        return more


class Ingress:
    """Every sequence of the peer that is not over.

    Bytes of incomplete frames are bounded by ``max_partial_bytes``, what is held until the
    peer's headers come by ``max_prehandshake_bytes`` and ``max_prehandshake_datagrams``.
    Streams take turns: beyond ``work_per_turn`` their bytes wait for ``proceed``, by ``timers``.
    """

    def __init__(
        self,
        *,
        peer: Side,
        context: ConnectionContext,
        handshake: Handshake,
        channels: Channels,
        dispatch: Dispatch,
        headers_came: Callable[[], None],
    ) -> None:
        self._peer = peer
        self._config = config = context.config
        self._handshake = handshake
        self._channels = channels
        self._dispatch = dispatch
        self._outbox = context.outbox
        self._timers = context.timers
        self._headers_came = headers_came
        self._streams: dict[int, Inbound] = {}
        self._held: dict[Inbound, None] = {}
        self._held_bytes = 0
        self._held_datagrams = 0
        self._partial = 0
        self._withheld: dict[int, dict[Inbound, None]] = {}
        self._paused = False
        self._waiting: deque[tuple[Inbound, int]] = deque()
        self._work = float(config.work_per_turn)
        self.datagrams_dropped = 0
        self.unread = 0
        """Bytes that are no whole frame yet, or wait for the peer's headers or for ``resume``."""

    @property
    def streams(self) -> int:
        """Sequences of the peer that are not over, and datagrams that wait."""
        return len(self._streams) + self._held_datagrams

    def stream_bytes(self, input: StreamBytes, now: float) -> None:
        stream_id = input.stream_id
        inbound = self._streams.get(stream_id)
        if inbound is None:
            if stream_id & 3 != 2 | self._peer:
                raise PeerFault(Code.PROTOCOL, f"stream {stream_id} is not one for frames")
            reader = SequenceReader(self._peer, self._handshake, self._config)
            inbound = self._streams[stream_id] = Inbound(stream_id, reader)
        inbound.reader.feed(input.data)
        inbound.ended = input.end
        if self._paused or self._work <= 0 or self._waiting:
            self._wait(inbound, now)
        else:
            self._pump(inbound, now)
        self._count(inbound)

    def _wait(self, inbound: Inbound, now: float) -> None:
        """What is here of it now is taken in behind all that came before."""
        upto = inbound.reader.parsed + inbound.reader.waiting
        if self._waiting and self._waiting[-1][0] is inbound:
            self._waiting[-1] = inbound, upto
        elif not inbound.queued or len(self._waiting) < ARRIVALS:
            self._waiting.append((inbound, upto))
            inbound.queued += 1
        if not self._paused:
            self._timers.sooner((Timer.PROCEED, 0), now + SOON)

    def _count(self, inbound: Inbound) -> None:
        waiting = inbound.reader.waiting
        self.unread += waiting - inbound.counted
        inbound.counted = waiting

    def pause(self) -> None:
        """Take no frames in until ``resume``; transport credit bounds the bytes that wait."""
        self._paused = True

    def resume(self, now: float) -> None:
        """Take in what has waited."""
        self._paused = False
        self.proceed(now)

    def turn(self) -> None:
        """All that came in this turn is taken in, or waits for the next one."""
        self._work = self._config.work_per_turn

    def proceed(self, now: float) -> None:
        """Go on with what waits, in order of arrival, as far as a turn goes."""
        self.turn()
        while self._waiting and self._work > 0 and not self._paused:
            inbound, upto = self._waiting[0]
            whole = self._pump(inbound, now, upto if inbound.queued > 1 else None)
            self._count(inbound)
            if whole:
                self._waiting.popleft()
                inbound.queued -= 1
                if inbound.cut and not inbound.queued:
                    self.stream_reset(inbound.stream_id)
        if self._waiting and not self._paused:
            self._timers.sooner((Timer.PROCEED, 0), now + SOON)

    def stream_reset(self, stream_id: int) -> None:
        """Forget a frame that is only partly there; whole ones count (AQ-SEQ-4)."""
        inbound = self._streams.get(stream_id)
        if inbound is None:
            return
        if inbound.queued:
            inbound.cut = True
            return
        del self._streams[stream_id]
        inbound.reader.discard()
        self._count(inbound)
        self._partial -= inbound.early
        self._outbox.consumed(stream_id, inbound.parsed())
        if inbound in self._held:
            del self._held[inbound]
            self._held_bytes -= inbound.held

    def datagram(self, data: bytes, now: float) -> None:
        if self._paused:
            self.datagrams_dropped += 1  # the same as loss: nacked in its time
        elif not self._plain_datagram(data, now):
            self._any_datagram(data, now)

    def _plain_datagram(self, data: bytes, now: float) -> bool:
        """The common case without a reader: one whole MESSAGE to a receiver that is here.

        A receiver of ours is there only where the peer is the sender, so the context is right.
        """
        if data[:1] != b"\x03" or not self._handshake.headers_known:
            return False  # they came behind a VERSION, so that is owed no more
        end = len(data)
        try:
            channel, pos = varint.decode(data, 1, end)
            half = self._channels.halves.get(channel)
            if not isinstance(half, ReceiverHalf) or data[pos : pos + 1] != b"\x04":
                return False
            message, stop = codec.decode_message(data, pos, end, self._config, self._peer)
        except (varint.NeedMore, varint.Malformed):
            return False
        if stop != end:
            return False
        self._dispatch.frame(half, message, stream_id=DATAGRAM, credit=0, now=now)
        return True

    def _any_datagram(self, data: bytes, now: float) -> None:
        reader = SequenceReader(self._peer, self._handshake, self._config, datagram=True)
        inbound = Inbound(DATAGRAM, reader)
        reader.feed(data)
        inbound.ended = True
        self._pump(inbound, now)
        if inbound in self._held:
            self._count(inbound)

    def release(self, now: float) -> None:
        """The gate is open: process what was held, in order of arrival (AQ-HDR-4)."""
        held, self._held = self._held, {}
        self._held_bytes = self._held_datagrams = 0
        for inbound in held:
            if inbound.datagram or not self._waiting:
                self._pump(inbound, now)
                self._count(inbound)
            else:
                self._wait(inbound, now)

    def _pump(self, inbound: Inbound, now: float, upto: int | None = None) -> bool:
        """Process every frame that is all here, or begins before ``upto`` bytes; False: there are
        more, which wait, since the turn is over."""
        reader = inbound.reader
        self._partial -= inbound.early
        while True:
            if inbound.half is not None and inbound.half.gone:
                self._unbind(inbound)
            later = upto is not None and reader.parsed >= upto
            if later or (self._work <= 0 and reader.waiting and not inbound.datagram):
                self._consumed(inbound, inbound.parsed())
                self._partial += inbound.early
                if not (later or inbound.queued):
                    self._wait(inbound, now)
                return later
            frame = reader.next(int(self._work))
            credit = inbound.parsed()
            if frame is None:
                break
            self._work -= _work(frame)
            if not self._frame(inbound, frame, credit, now):
                self._consumed(inbound, credit)
        self._consumed(inbound, credit)
        if reader.held:
            self._hold(inbound)
            return True
        if inbound.ended:
            reader.end()
            self._streams.pop(inbound.stream_id, None)
            return True
        self._give_early(inbound)
        self._partial += inbound.early
        if self._partial > self._config.max_partial_bytes:
            raise PeerFault(Code.RESOURCE_LIMIT, "too many bytes of incomplete frames")
        return True

    def _give_early(self, inbound: Inbound) -> None:
        """Credit for an incomplete frame, which could never be completed without; but a peer
        that is ahead of the application has to wait like everybody."""
        half = inbound.half
        if half is not None and self._dispatch.behind(half.channel):
            self._withheld.setdefault(half.channel, {})[inbound] = None
        else:
            self._consumed(inbound, inbound.waiting())

    def caught_up(self, channel: int) -> None:
        """The application consumed some of this channel: give what was withheld, if it may go."""
        if channel not in self._withheld or self._dispatch.behind(channel):
            return
        for inbound in self._withheld.pop(channel):
            if self._streams.get(inbound.stream_id) is inbound:
                self._partial -= inbound.early
                self._consumed(inbound, inbound.waiting())
                self._partial += inbound.early

    def flush(self) -> None:
        """Once a burst: a channel that ended has nothing to consume any more."""
        for channel in list(self._withheld):
            self.caught_up(channel)

    def _consumed(self, inbound: Inbound, credit: int) -> None:
        if credit and inbound.stream_id != DATAGRAM:
            self._outbox.consumed(inbound.stream_id, credit)

    def _unbind(self, inbound: Inbound) -> None:
        """The machine of this sequence has ended (AQ-SEQ-11)."""
        inbound.half = None
        if self._channels.remote(inbound.reader.channel):
            inbound.reader.skip()
        else:
            inbound.reader.discard()

    def _hold(self, inbound: Inbound) -> None:
        if inbound.datagram:
            if self._held_datagrams >= self._config.max_prehandshake_datagrams:
                self.datagrams_dropped += 1
                return
            self._held_datagrams += 1
        else:
            self._held_bytes += inbound.reader.waiting - inbound.held
            inbound.held = inbound.reader.waiting
        self._held[inbound] = None
        if self._handshake.peer_headers is not None:
            return  # the peer did its part; transport credit bounds what waits for accept()
        if self._held_bytes > self._config.max_prehandshake_bytes:
            raise PeerFault(Code.RESOURCE_LIMIT, "too many bytes before connection headers")

    def _frame(self, inbound: Inbound, frame: Frame, credit: int, now: float) -> bool:
        """Process one frame; whether its credit is kept until the application consumed it."""
        if isinstance(frame, Version | AckVersion | ConnectionHeaders):
            if self._handshake.receive(frame):
                self._headers_came()
            return False
        channel = inbound.reader.channel
        if isinstance(frame, RouteTo):
            if channel not in self._channels.halves:
                self._work -= CHANNEL
            inbound.half = self._channels.route(channel, inbound.reader, now)
            return False
        if isinstance(frame, ForgetChannel):
            self._channels.forgotten(channel, now)
            return False
        if inbound.half is None:
            return False
        return self._dispatch.frame(
            inbound.half, frame, stream_id=inbound.stream_id, credit=credit, now=now
        )


def _work(frame: Frame) -> float:
    """To take a frame in, in the work of a plain message."""
    if isinstance(frame, Block):
        plain = len(frame.lengths) - len(frame.headers)
        return 1 + IN_A_BLOCK * plain + len(frame.headers)
    if isinstance(frame, MessageFrame):
        return 1 + CHANNEL * len(frame.attachments)
    if isinstance(frame, RouteTo):
        return ROUTE
    if isinstance(frame, AckReliable):
        return 1 + IN_A_BLOCK * len(frame.ranges)
    if isinstance(frame, AckNackUnreliable):
        return 1 + IN_A_BLOCK * len(frame.lengths)
    return 1
