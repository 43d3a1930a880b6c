"""The grammar of one frame sequence: a stream or a datagram of the peer (AQ-SEQ-1…11).

``SequenceReader.next()`` pulls one frame; None means that more bytes are needed, or that the
sequence is held until the peer's connection headers are here (AQ-HDR-4). Any split of the bytes
into pieces gives the same frames (AQ-SEQ-9).
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import Protocol

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.faults import Code, PeerFault
from aqueduct_core.aqueduct.wire import blocks, chanid, codec, header_blocks
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.frames import (
    AckVersion,
    CancelSender,
    CloseReceiver,
    ForgetChannel,
    Frame,
    RouteTo,
    Skipped,
    Tag,
    Version,
)
from aqueduct_core.primitives.byte_queue import ByteQueue
from aqueduct_core.primitives.varint import Malformed, NeedMore

_BLOCK_MOST = 1 << 18
"""Messages in one block: bounds the arrays made at once."""
HEADERS_MOST = 1024
"""The same where they have headers: bounds the time."""


class Gate(Protocol):
    """What the connection knows that decides how a sequence may begin."""

    @property
    def version_required(self) -> bool:
        """We have not sent ACK_VERSION: a sequence must begin with VERSION (AQ-VER-4)."""

    @property
    def headers_known(self) -> bool:
        """The peer's connection headers are here: routed frames may be processed."""


class _Phase(Enum):
    START = auto()
    PREAMBLE = auto()
    ROUTED = auto()
    SKIPPING = auto()
    """Routed to a state machine that is gone: parsed and checked, payloads thrown away."""
    DISCARDED = auto()
    """Not even parsed (AQ-SEQ-11)."""


class _From(IntEnum):
    """Which side may send a frame, by the routed channel (reference §2.2)."""

    SENDER = auto()
    RECEIVER = auto()
    CREATOR = auto()


_ORIGIN = {
    Tag.MESSAGE: _From.SENDER,
    Tag.SENT_UNRELIABLE: _From.SENDER,
    Tag.FINISH_SENDER: _From.SENDER,
    Tag.CANCEL_SENDER: _From.SENDER,
    Tag.ACK_RELIABLE: _From.RECEIVER,
    Tag.ACK_NACK_UNRELIABLE: _From.RECEIVER,
    Tag.CLOSE_RECEIVER: _From.RECEIVER,
    Tag.DEQUEUED: _From.RECEIVER,
    Tag.FORGET_CHANNEL: _From.CREATOR,
}
_ALLOWED = {
    (sends, created): frozenset(
        [_From.SENDER if sends else _From.RECEIVER, *([_From.CREATOR] if created else [])]
    )
    for sends in (False, True)
    for created in (False, True)
}
"""What a peer may say of a channel on which it sends, or that it created."""
_PREAMBLE = {Tag.VERSION, Tag.ACK_VERSION, Tag.CONNECTION_HEADERS}
_IN_DATAGRAM = {Tag.VERSION, Tag.ROUTE_TO, Tag.MESSAGE}
_TAGS: dict[int, Tag] = {tag.value: tag for tag in Tag}


class SequenceReader:
    """Reads the frames of one sequence of ``peer``.

    Holds the bytes of at most one incomplete frame, or of a held sequence; ``waiting`` is their
    number. ``parsed`` counts the bytes of all frames given out or thrown away.
    """

    __slots__ = (
        "_allowed",
        "_backlog",
        "_config",
        "_datagram",
        "_gate",
        "_payload_left",
        "_peer",
        "_phase",
        "channel",
        "held",
        "parsed",
    )  # fmt: skip

    def __init__(self, peer: Side, gate: Gate, config: Config, *, datagram: bool = False) -> None:
        self._peer = peer
        self._gate = gate
        self._config = config
        self._datagram = datagram
        self._backlog = ByteQueue()
        self._phase = _Phase.START
        self._payload_left = 0
        self._allowed: frozenset[_From] = frozenset()
        self.channel = -1
        self.held = False
        self.parsed = 0

    @property
    def waiting(self) -> int:
        return self._backlog.size

    def feed(self, data: bytes) -> None:
        if self._phase is _Phase.DISCARDED:
            self.parsed += len(data)
            return
        self._backlog.feed(data)

    def skip(self) -> None:
        """From here on the state machine is gone: check the frames, keep no payload."""
        self._phase = _Phase.SKIPPING
        self._backlog.want(1)

    def discard(self) -> None:
        """Throw away all that is here and all that comes."""
        self._phase = _Phase.DISCARDED
        self.parsed += self._backlog.size
        self._backlog.clear()

    def upcoming(self) -> int | None:
        """The next byte, if it is here already; it is not taken."""
        backlog = self._backlog
        return backlog.data[backlog.pos] if backlog.ready() else None

    def end(self) -> None:
        """The sequence is over.

        Raises:
            PeerFault: inside a frame (AQ-SEQ-5), or empty where VERSION was owed (AQ-SEQ-6).
        """
        if self._phase is _Phase.DISCARDED:
            return
        if self._phase is _Phase.START and not self._backlog.size and self._gate.version_required:
            raise PeerFault(Code.VERSION, "an empty sequence before VERSION")
        if self._backlog.size or self._payload_left:
            raise PeerFault(Code.ENCODING, "a sequence ends inside a frame")

    def next(self, most: int = HEADERS_MOST) -> Frame | None:
        """The next frame; None: more bytes are needed, or the sequence is held.

        Messages with headers come in a row of ``most`` at most: each is work.

        Raises:
            PeerFault: the bytes break the grammar, an encoding, a context or a limit.
        """
        backlog = self._backlog
        if self._payload_left and not self._skip_payload():
            return None
        if not backlog.ready():
            return None
        data, start = backlog.data, backlog.pos
        end = start + backlog.size
        try:
            tag = _TAGS.get(data[start])
            if self._phase is _Phase.START:
                self._start(tag)
            if tag is None:
                raise PeerFault(Code.ENCODING, f"unknown frame type {data[start]}")
            if self._phase is _Phase.ROUTED or self._phase is _Phase.SKIPPING:
                frame, stop = self._routed(tag, data, start, end, most)
            else:
                if self._hold(tag):
                    return None
                frame, stop = self._preamble(tag, data, start, end)
        except NeedMore as more:
            backlog.want(more.upto - start)
            return None
        except Malformed as fault:
            raise PeerFault(Code.ENCODING, str(fault)) from None
        backlog.take(stop)
        self.parsed += stop - start
        return frame

    def _skip_payload(self) -> bool:
        gone = self._backlog.skip(self._payload_left)
        self._payload_left -= gone
        self.parsed += gone
        return not self._payload_left

    def _start(self, tag: Tag | None) -> None:
        """Whatever else is wrong: who does not say VERSION speaks another protocol (AQ-VER-4)."""
        if tag is not Tag.VERSION and self._gate.version_required:
            raise PeerFault(Code.VERSION, "a sequence does not begin with VERSION")
        self._phase = _Phase.PREAMBLE

    def _hold(self, tag: Tag) -> bool:
        self.held = tag is Tag.ROUTE_TO and not self._gate.headers_known
        return self.held

    def _preamble(self, tag: Tag, data: bytes, start: int, end: int) -> tuple[Frame, int]:
        if self._datagram and tag not in _IN_DATAGRAM:
            raise PeerFault(Code.PROTOCOL, f"{tag.name} in a datagram")
        if tag is Tag.VERSION:
            return Version(), codec.check_version(data, start, end)
        if tag is Tag.ACK_VERSION:
            return AckVersion(), start + 1
        if tag is Tag.CONNECTION_HEADERS:
            return codec.decode_connection_headers(data, start + 1, end, self._config)
        if tag is not Tag.ROUTE_TO:
            raise PeerFault(Code.PROTOCOL, f"{tag.name} before ROUTE_TO")
        route, stop = codec.decode_route_to(data, start + 1, end)
        self._bind(route)
        return route, stop

    def _bind(self, route: RouteTo) -> None:
        self.channel = route.channel
        self._phase = _Phase.ROUTED
        sends = chanid.sender(route.channel) is self._peer
        self._allowed = _ALLOWED[sends, chanid.creator(route.channel) is self._peer]

    def _routed(self, tag: Tag, data: bytes, start: int, end: int, most: int) -> tuple[Frame, int]:
        origin = _ORIGIN.get(tag)
        if origin is None:
            raise PeerFault(Code.PROTOCOL, f"{tag.name} after ROUTE_TO")
        if self._datagram and tag not in _IN_DATAGRAM:
            raise PeerFault(Code.PROTOCOL, f"{tag.name} in a datagram")
        if origin not in self._allowed:
            raise PeerFault(
                Code.CONTEXT, f"{tag.name} on channel {self.channel} from the wrong side"
            )
        config = self._config
        if tag is Tag.MESSAGE:
            return self._message(data, start, end, most)
        pos = start + 1
        if tag is Tag.ACK_RELIABLE:
            return codec.decode_ack_reliable(data, pos, end, config)
        if tag is Tag.ACK_NACK_UNRELIABLE:
            return codec.decode_ack_nack(data, pos, end, config)
        if tag is Tag.SENT_UNRELIABLE:
            return codec.decode_sent_unreliable(data, pos, end)
        if tag is Tag.FINISH_SENDER:
            return codec.decode_finish_sender(data, pos, end)
        if tag is Tag.DEQUEUED:
            return codec.decode_dequeued(data, pos, end)
        if tag is Tag.CANCEL_SENDER:
            return CancelSender(), pos
        if tag is Tag.CLOSE_RECEIVER:
            return CloseReceiver(), pos
        return ForgetChannel(), pos

    def _message(self, data: bytes, start: int, end: int, most: int) -> tuple[Frame, int]:
        config = self._config
        if self._phase is _Phase.SKIPPING:
            payload_end = codec.decode_message_head(data, start + 1, end, config, self._peer)[-1]
            stop = min(payload_end, end)
            self._payload_left = payload_end - stop
            return Skipped(), stop
        if not self._datagram:
            block, stop = blocks.decode_block(
                data, start, end, config.max_payload_bytes, _BLOCK_MOST
            )
            if block is None:
                block, stop = header_blocks.decode_header_block(data, start, end, config, most)
            if block is not None:
                return block, stop
        return codec.decode_message(data, start, end, config, self._peer)
