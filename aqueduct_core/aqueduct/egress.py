"""From the application's messages to the wire: checks, numbers, attachments (AQ-SEND-1…14)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from aqueduct_core.aqueduct.channels import Channels
from aqueduct_core.aqueduct.config import Config, Mode
from aqueduct_core.aqueduct.context import ConnectionContext
from aqueduct_core.aqueduct.events import DatagramsUnavailable, Dropped, Rerouted, Writable
from aqueduct_core.aqueduct.faults import BadArgument, Code, PeerFault, TooLarge
from aqueduct_core.aqueduct.flow import BadFlowHeader, SendVerdict, read_channel_header
from aqueduct_core.aqueduct.send_queue import Attach, QueuedMessage
from aqueduct_core.aqueduct.sender import SenderHalf
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.codec import headers_size
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.inputs import (
    DatagramFate,
    DatagramLimit,
    DatagramOutcome,
    EarlyReady,
    EarlyRejected,
    LinkReady,
    LinkRoom,
    LinkRtt,
    StreamLeft,
    StreamLimit,
)
from aqueduct_core.engine.message_batch import Attachment, Headers, ReceivedHeaders

LinkInput: TypeAlias = (
    DatagramLimit
    | DatagramOutcome
    | EarlyReady
    | EarlyRejected
    | LinkReady
    | LinkRoom
    | LinkRtt
    | StreamLeft
    | StreamLimit
)


class Sent(NamedTuple):
    """What became of a message: its number and number space, and the channels it carries.

    ``number`` None: it waits for credit, a stream, or room in the link. Then ``Numbered``
    tells its number and channels, in the order of sending, or ``Dropped`` that it will never go.
    On a channel that is not unreliable it takes the reliable number that is next in turn.
    """

    number: int | None
    reliable: bool
    attached: tuple[int, ...]


class Egress:
    """``messages`` counts what was sent. ``link`` takes the inputs about what carries them."""

    def __init__(self, side: Side, channels: Channels, context: ConnectionContext) -> None:
        self._side = side
        self._channels = channels
        self._context = context
        self.messages = 0
        self._short_of_table: dict[int, None] = {}  # whose next message carries too many channels

    def send(
        self,
        half: SenderHalf,
        payload: bytes,
        *,
        mode: Mode,
        headers: Headers,
        attach: Sequence[Attach],
        now: float,
    ) -> Sent:
        """Every check comes before the first change."""
        config = self._context.config
        half.check_send(mode, 1)
        if headers:
            check_headers(headers, config)
        self._check_size(len(payload))
        if attach:
            if len(attach) > config.max_attachments:
                raise TooLarge(f"{len(attach)} attachments")
            for each in attach:
                check_headers(each.headers, config)
                check_channel_header(each)
            self._channels.check_room(len(attach))
        message = QueuedMessage(payload, headers, tuple(attach))
        sent = None if half.waiting else self._put_out(half, message, mode, now)
        if sent is None:
            sent = self._enqueue(half, message, mode)
        half.sent_one()
        return sent

    def _put_out(
        self, half: SenderHalf, message: QueuedMessage, mode: Mode, now: float
    ) -> Sent | None:
        """Number a message and send it (AQ-CHANID-4, AQ-SEND-11); None: it has to wait."""
        attach = message.attach
        if not attach:
            answer = half.send(message.payload, message.headers, (), mode, now)
            if isinstance(answer, SendVerdict):
                self._blocked(half, answer)
                return None
            self.messages += 1
            return Sent(*answer, ())
        kinds = [(self._side if each.sends else self._side.other, each.oneshot) for each in attach]
        ids = self._channels.upcoming(kinds)
        attachments = tuple(map(Attachment, ids, (each.headers for each in attach)))
        answer = half.send(message.payload, message.headers, attachments, mode, now)
        if isinstance(answer, SendVerdict):
            self._blocked(half, answer)
            return None
        self.messages += 1
        number, reliable = answer
        self._channels.attach(
            parent=half.channel,
            reliable=reliable,
            number=number,
            kinds=kinds,
            attachments=attachments,
        )
        for channel in ids:
            self._channels.idle.touched(channel, now)
        return Sent(number, reliable, tuple(ids))

    def _blocked(self, half: SenderHalf, verdict: SendVerdict) -> None:
        """Note why a message waits. The first one of a queue that waits for the total is the next
        one to go."""
        half.blocked_by = verdict
        flow = self._context.flow
        if verdict is SendVerdict.TOTAL and half.waiting and flow.head_of_line is None:
            flow.head_of_line = half.channel

    def _enqueue(self, half: SenderHalf, message: QueuedMessage, mode: Mode) -> Sent:
        """Let a message wait behind the others of its channel (AQ-FLOW-5)."""
        queues = self._context.queues
        half.mode = mode
        if mode is not Mode.UNRELIABLE:
            queues.add(half.channel, message)
        else:
            dropped = queues.add_freshest(half.channel, message)
            if dropped and half.visible:
                self._context.events.emit(Dropped(half.channel, dropped))
        # one that joined an empty queue may be the first to wait for the total
        self._context.flow.affected[half.channel] = None
        return Sent(None, mode is not Mode.UNRELIABLE, ())

    def congested(self, half: SenderHalf) -> bool:
        """See ``AqueductEngine.congested``."""
        queues, channel = self._context.queues, half.channel
        if channel not in queues.awaiting_writable:
            if queues.admits(channel) or half.may_go:
                return False
            queues.awaiting_writable[channel] = False
        return True

    def short_of_credit(self) -> int | None:
        """A channel whose messages, or whose application with more of them, wait for credit of the
        peer's receivers (AQ-FLOW-4)."""
        queues = self._context.queues
        for channel in chain(queues.awaiting_writable, queues.channels()):
            half = self._channels.halves.get(channel)
            if isinstance(half, SenderHalf) and half.blocked_by in (
                SendVerdict.CHANNEL,
                SendVerdict.TOTAL,
            ):
                return channel
        return None

    def release(self, now: float) -> None:
        """Send what waits and may go now, one message a channel in turn."""
        flow, queues = self._context.flow, self._context.queues
        affected, flow.affected = flow.affected, {}
        if flow.table_freed:
            short = dict.fromkeys(filter(queues.waiting, self._short_of_table))
            self._short_of_table = short
            affected |= short
        everybody, flow.changed, flow.table_freed = flow.changed, False, False
        if not (everybody or affected or queues.freed):
            return
        waiting = queues.channels() if everybody else list(filter(queues.waiting, affected))
        while waiting:
            waiting = [channel for channel in waiting if self._release_one(channel, now)]
        freed, queues.freed = queues.freed, False
        if everybody or freed:
            self._notify(list(queues.awaiting_writable))
        else:
            self._notify([channel for channel in affected if channel in queues.awaiting_writable])

    def _notify(self, channels: Iterable[int]) -> None:
        """Tell the applications that were refused, and may try again."""
        queues = self._context.queues
        for channel in channels:
            bulk = queues.awaiting_writable[channel]
            half = self._channels.halves.get(channel)
            if isinstance(half, SenderHalf) and self._may_try(half, bulk):
                del queues.awaiting_writable[channel]
                if half.visible:
                    self._context.events.emit(Writable(channel))

    def _may_try(self, half: SenderHalf, bulk: bool) -> bool:
        """Whether what was refused may be tried again: there is room for it."""
        return half.may_go if bulk else self._context.queues.admits(half.channel)

    def _release_one(self, channel: int, now: float) -> bool:
        """Send the oldest message of a queue; whether another one may follow."""
        half = self._channels.halves[channel]
        assert isinstance(half, SenderHalf)
        assert half.mode is not None
        queues = self._context.queues
        message = queues.head(channel)
        if message.attach and not self._channels.has_room(len(message.attach)):
            self._short_of_table[channel] = None
            return False
        self._short_of_table.pop(channel, None)
        sent = self._put_out(half, message, half.mode, now)
        if sent is None:
            return False
        queues.pop(channel)
        self._context.flow.leave_line(channel)
        assert sent.number is not None
        if half.visible:
            self._context.events.emit_numbered(channel, sent.reliable, sent.number, sent.attached)
        if queues.waiting(channel):
            return True
        half.end_messages()
        return False

    def send_many(
        self,
        half: SenderHalf,
        payloads: Sequence[bytes],
        headers: HeaderColumn | None,
        *,
        mode: Mode,
        now: float,
    ) -> tuple[int, int]:
        half.check_send(mode, len(payloads))
        longest = max(map(len, payloads), default=0)
        self._check_size(longest)
        if headers is not None:
            check_header_column(headers, len(payloads), self._context.config)
        size = self._context.datagram_size
        count = len(payloads)
        if count and mode is Mode.UNRELIABLE and size:
            room = half.datagram_room(count) - (0 if headers is None else headers.longest_added)
            if longest > room:
                raise TooLarge(
                    f"a payload of {longest} bytes and its head, a datagram holds {size}"
                )
        first, stop = half.send_many(payloads, headers, mode, now)
        self.messages += stop - first
        if stop - first < len(payloads):
            self._context.queues.awaiting_writable[half.channel] = True
        return first, stop

    def link(self, input: LinkInput, now: float) -> None:
        """The link tells what it can carry, and what became of what it was given."""
        context = self._context
        match input:
            case DatagramOutcome(token, DatagramFate.REFUSED):
                self._refused(token, now)
            case DatagramOutcome(token, DatagramFate.LEFT):
                self._left(context.link.left(token), now)
            case DatagramOutcome(_, DatagramFate.ACKED) | DatagramOutcome(_, DatagramFate.LOST):
                pass  # what the peer's engine has is known by its acks and nacks alone
            case LinkRoom(size):
                context.link.room = size
                context.flow.changed = True
            case LinkReady(size):
                context.datagram_size = size
                if not size:
                    if context.config.require_datagrams:
                        raise PeerFault(Code.DATAGRAM, "the peer takes no datagrams")
                    context.events.emit(DatagramsUnavailable())
            case EarlyReady(size) | DatagramLimit(size):
                context.datagram_size = size
            case EarlyRejected():
                # The link repeats the streams under their numbers, and the peer has seen nothing
                # of the first try; datagrams stay sent, to be declared and nacked (AQ-0RTT-2).
                pass
            case LinkRtt(seconds):
                context.rtt = seconds
            case StreamLimit(streams, bidirectional=False):
                context.stream_limit(streams)

    def _refused(self, token: int, now: float) -> None:
        """The transport refused a datagram as too large (AQ-SEND-5)."""
        message = self._context.refusable.refused(token)
        half = self._channels.halves.get(message.channel) if message is not None else None
        number = None
        if message is not None and isinstance(half, SenderHalf):
            number = half.send_again(message)
            if number is not None:
                self._channels.lineage.renumbered(message.channel, message.number, number)
                self._context.events.emit(Rerouted(message.channel, message.number, number))
        self._left(self._context.link.refused(token, sent=number is None), now)

    def _left(self, channels: list[int], now: float) -> None:
        """The oldest datagrams of these channels have left the link: others may follow, and they
        are declared (AQ-SEND-6)."""
        self._context.flow.changed = True
        for channel in channels:
            half = self._channels.halves.get(channel)
            if isinstance(half, SenderHalf):
                half.left(now)

    def _check_size(self, size: int) -> None:
        limit = self._context.config.max_payload_bytes
        if size > limit:
            raise TooLarge(f"a payload of {size} bytes, at most {limit}")


def check_headers(headers: Headers, config: Config) -> None:
    """Refuse what our own peers would refuse; our keys are non-empty ASCII (AQ-HDRDATA-3), and
    only what was received goes on with the keys that it has.

    Raises:
        BadArgument: a key.
        TooLarge: too many pairs or bytes.
    """
    if not isinstance(headers, ReceivedHeaders) and not all(k and k.isascii() for k, _ in headers):
        raise BadArgument("a header key must be non-empty ASCII")
    size = headers_size(headers)
    if size > config.max_headers_bytes or len(headers) > config.max_header_pairs:
        raise TooLarge(f"{len(headers)} headers of {size} bytes, at most {_most(config)}")


def check_header_column(headers: HeaderColumn, count: int, config: Config) -> None:
    """The same of messages in a row.

    Raises:
        BadArgument: a key, or another number of messages than payloads.
        TooLarge: too many pairs or bytes.
    """
    if len(headers) != count:
        raise BadArgument(f"headers of {len(headers)} messages for {count} payloads")
    if not headers.received and not all(key and key.isascii() for key in headers.keys):
        raise BadArgument("a header key must be non-empty ASCII")
    size, pairs = headers.longest, headers.most_pairs
    if size > config.max_headers_bytes or pairs > config.max_header_pairs:
        raise TooLarge(f"up to {pairs} headers of {size} bytes, at most {_most(config)}")


def _most(config: Config) -> str:
    return f"{config.max_header_pairs} of {config.max_headers_bytes}"


def check_channel_header(attach: Attach) -> None:
    """Refuse a buffer size of a receiver of ours that the peer could not read (AQ-FLOW-10).

    Raises:
        BadArgument: it does not parse.
    """
    if attach.sends:
        return
    try:
        read_channel_header(attach.headers)
    except BadFlowHeader as error:
        raise BadArgument(str(error)) from None
