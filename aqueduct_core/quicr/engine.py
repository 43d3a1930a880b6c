"""One connection of QUICR: control streams, and the media that they or datagrams carry."""

from __future__ import annotations

from aqueduct_core.engine.actions import Action, Admit, CloseLink
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.engine import Footprint
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramLimit,
    DatagramOutcome,
    Input,
    LinkLost,
    LinkReady,
    LinkRoom,
    StreamBytes,
    StreamLeft,
    StreamLimit,
    StreamReset,
    StreamStopped,
)
from aqueduct_core.engine.streams import STEP, first_stream
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.egress import LEAST_DATAGRAM, MediaEgress
from aqueduct_core.quicr.events import QuicrEvent, Ready, StreamRoom
from aqueduct_core.quicr.faults import INTERNAL_ERROR, MediaError, ProtocolFault
from aqueduct_core.quicr.media.source import MediaSource
from aqueduct_core.quicr.opening import begin, check_opened
from aqueduct_core.quicr.subscribing import Notifying, Subscribing
from aqueduct_core.quicr.transactions import (
    Receiving,
    Sending,
    Transaction,
    TransactionContext,
)
from aqueduct_core.quicr.wire.codec import MessageReader, encode
from aqueduct_core.quicr.wire.datagrams import decode
from aqueduct_core.quicr.wire.messages import (
    ControlMessage,
    PostMessage,
    RequestMessage,
    SubscribeMessage,
)

ALPN = "quicr-h20"
TRANSACTION_BYTES = 2_000
"""Memory of a transaction beside what waits in it, about."""


class QuicrEngine:
    """One end of a connection; a `StorageEngine`.

    A transaction is named by its control stream; commands to one that is over are without effect.
    The connection is over when ``closed`` is set.

    Args:
        client: this end has dialled: it may `request`, `post` and `subscribe`; the other one
            answers.
    """

    def __init__(self, *, client: bool, config: QuicrConfig | None = None) -> None:
        self.closed: LinkLost | None = None
        self._client = client
        self._config = config or QuicrConfig()
        self._context = TransactionContext(self._config)
        self._transactions: dict[int, Transaction] = {}
        self._opening: dict[int, MessageReader] = {}
        self._next_stream = first_stream(client=client, bidirectional=True)
        self._stream_limit: int | None = None
        self._unread: dict[int, bool] = {}  # streams with bytes from a pause, and whether they end
        self._paused = False
        self._admitted = False
        self._datagrams_of: dict[Receiving, None] = {}  # in the order of their first one
        self._last: list[Action] = []
        self._pending = 0
        self._now = 0.0

    # the contract of an engine

    def handle(self, input: Input, now: float) -> None:
        if self.closed is not None:
            return
        self._now = now
        egress = self._context.egress
        try:
            match input:
                case StreamBytes(stream, data, end):
                    self._bytes(stream, data, end)
                case Datagram(data):
                    self._datagram(data)
                case DatagramOutcome():
                    egress.datagram_outcome(input, now)
                case StreamLeft(stream, total):
                    egress.stream_left(stream, total)
                    notifying = self._transactions.get(stream)
                    if isinstance(notifying, Notifying):
                        notifying.go_on()
                case LinkRoom(size):
                    egress.room(size)
                case DatagramLimit(size):
                    egress.max_datagram = size
                case StreamLimit(streams, bidirectional=True):
                    self._granted(streams)
                case StreamReset(stream, _):
                    self._abandoned(stream, there=True)
                case StreamStopped(stream, _):
                    self._abandoned(stream, there=False)
                case LinkReady():
                    egress.link_ready(input)
                    self._context.events.append(Ready())
                case LinkLost():
                    self._over(input)
        except ProtocolFault as fault:
            self._close(INTERNAL_ERROR, str(fault), CloseOrigin.TRANSPORT)

    def tick(self, now: float) -> None:
        self._now = now
        pressure = self._context.egress.tick(now) if self.closed is None else None
        if pressure is not None:
            self._context.events.append(pressure)

    @property
    def wake_at(self) -> float | None:
        return self._context.egress.wake_at if self.closed is None else None

    @property
    def footprint(self) -> Footprint:
        transactions = len(self._transactions) + len(self._opening)
        context = self._context
        kept = context.egress.sent.size + context.url_bytes
        return Footprint(TRANSACTION_BYTES * transactions + self._pending + kept)

    def actions(self) -> list[Action]:
        if self.closed is not None:
            taken, self._last = self._last, []
            return taken
        context = self._context
        out = context.egress.actions(self._now)
        for sender in context.egress.finished():
            transaction = self._transactions.get(sender.stream)
            if isinstance(transaction, Sending) and not transaction.over:
                transaction.sent_out()
                self._forget(transaction)
                out += context.egress.actions(self._now)
        if context.acts:
            out, context.acts = context.acts + out, []
        return out

    def events(self) -> list[QuicrEvent]:
        context = self._context
        for receiving in self._datagrams_of:
            receiving.flush()
        self._datagrams_of.clear()
        for stream in context.egress.dropping():
            sending = self._transactions.get(stream)
            if isinstance(sending, Sending):
                sending.tell_dropped()
        taken, context.events = context.events, []
        return taken

    @property
    def stream_room(self) -> int | None:
        """Transactions that may be begun now; what is begun beyond waits in the link until as many
        others have ended. None: the link has told no limit."""
        if self._stream_limit is None:
            return None
        return max(0, self._stream_limit - self._next_stream // STEP)

    # what a client begins; each gives the number of the transaction

    def request(self, url: bytes, *, datagram: bool, now: float) -> int:
        """Ask for a media (Q8, Q9, Q16): what the peer still has of it, and what follows.

        Raises:
            MediaError: the connection is over, this end is no client, or the URL is too long.
        """
        receiving = Receiving(self._new_stream(url), self._context, datagram=datagram)
        datagram_id = receiving.begin(datagram=datagram)
        return self._say(receiving, RequestMessage(url, datagram_id), now)

    def post(self, url: bytes, source: MediaSource, *, datagram: bool, now: float) -> int:
        """Send a media; ``datagram``: the peer may choose datagrams (Q17). Raises as `request`."""
        datagram = datagram and self._context.egress.max_datagram >= LEAST_DATAGRAM
        sending = Sending(self._new_stream(url), self._context, posted=source, datagram=datagram)
        return self._say(sending, PostMessage(url, datagram), now)

    def subscribe(self, prefix: bytes, now: float) -> int:
        """Ask for the URLs with a prefix, those that there are and those that come (Q22). Raises as
        `request`."""
        subscribing = Subscribing(self._new_stream(prefix), self._context)
        return self._say(subscribing, SubscribeMessage(prefix), now)

    # what a server answers

    def serve(self, stream: int, source: MediaSource, now: float) -> None:
        """Send a media that was `Requested`."""
        sending = self._transactions.get(stream)
        if isinstance(sending, Sending):
            self._now = now
            sending.serve(source)

    def accept(self, stream: int, *, datagram: bool, now: float) -> None:
        """Take a media that was `Posted`; ``datagram``: as datagrams, if the peer can send them."""
        receiving = self._transactions.get(stream)
        if isinstance(receiving, Receiving):
            receiving.accept(datagram=datagram)

    def notify(self, stream: int, url: bytes, now: float) -> None:
        """Tell a URL to who has `Subscribed` (Q22); a second time is without effect (Q25). Who does
        not read is told no more, and loses the subscription (`QuicrConfig.max_notified`)."""
        notifying = self._transactions.get(stream)
        if isinstance(notifying, Notifying):
            notifying.notify(url)
            self._forget(notifying)

    # both

    def wake(self, stream: int, now: float) -> None:
        """The source that is sent on this transaction has a fragment again, or its final point."""
        self._now = now
        self._context.egress.wake(stream)

    def confirm(self, stream: int, now: float) -> None:
        """All of a media that comes to us is here: end our side (Q9, Q18).

        Raises:
            MediaError: its final point is not known.
        """
        receiving = self._transactions.get(stream)
        if isinstance(receiving, Receiving):
            receiving.confirm()
            self._forget(receiving)

    def cancel(self, stream: int, now: float) -> None:
        """End a transaction before its time, of any kind; `Ended` follows."""
        transaction = self._transactions.get(stream)
        if transaction is not None:
            transaction.cancel()
            self._forget(transaction)

    def consumed(self, stream: int, size: int, now: float) -> None:
        """So many bytes of `Fragments` are done with: credit for as many may go back."""
        if size and self.closed is None:
            self._context.credit.release(stream, size)
            self._advance(stream)

    def pause(self) -> None:
        """Take nothing in until `resume`: publishers on streams come to rest; datagrams are lost,
        which leaves holes."""
        self._paused = True

    def resume(self, now: float) -> None:
        self._now = now
        self._paused = False
        unread, self._unread = self._unread, {}
        for stream, end in unread.items():
            self.handle(StreamBytes(stream, b"", end), now)

    def shutdown(self, code: int, reason: str, now: float) -> None:
        self._now = now
        self._close(code, reason, CloseOrigin.APPLICATION)

    def stored(self, channel: int, first: int, stop: int, *, reliable: bool, now: float) -> None:
        """Nobody is told: only the end of a media is confirmed."""

    def refused(self, channel: int, first: int, stop: int, now: float) -> None:
        """Nobody is told, for the same reason."""

    # the inside

    def _bytes(self, stream: int, data: bytes, end: bool) -> None:
        """Bytes of a control stream, in any pieces (Q3), and its end."""
        transaction = self._transactions.get(stream)
        if transaction is not None and transaction.over:
            transaction.consume(len(data))
            if end:
                self._ended(transaction)
            return
        reader = self._opening.get(stream) if transaction is None else transaction.reader
        if reader is None:
            reader = self._opening[stream] = self._opened_by_peer(stream)
        self._pending += len(data)
        reader.feed(data)
        if self._paused:
            self._unread[stream] = self._unread.get(stream, False) or end
            return
        before = reader.pending
        messages = reader.read()
        size = before - reader.pending
        self._pending -= size
        if messages and transaction is None:
            transaction = self._first(stream, messages.pop(0), reader)
        if transaction is None:
            if end:
                raise ProtocolFault(f"stream {stream} ends without a message")
            return
        if messages:
            transaction.handle(messages, size)
        else:
            transaction.consume(size)
        self._forget(transaction)
        if end:
            self._ended(transaction)
        else:
            self._advance(stream)

    def _granted(self, streams: int) -> None:
        none = self.stream_room == 0
        self._stream_limit = streams
        if none and self.stream_room:
            self._context.events.append(StreamRoom())

    def _advance(self, stream: int) -> None:
        """Give credit for a message that is not whole, of those that may be long."""
        transaction = self._transactions.get(stream)
        if isinstance(transaction, Receiving | Subscribing) and transaction.reader.pending:
            self._context.credit.advance(stream, transaction.reader.pending)

    def _opened_by_peer(self, stream: int) -> MessageReader:
        check_opened(stream, by_server=self._client)
        most = self._config.max_transactions
        if len(self._transactions) + len(self._opening) >= most:
            raise ProtocolFault(f"more than {most} streams are open")
        return MessageReader(max_url=self._config.max_url)

    def _first(self, stream: int, message: ControlMessage, reader: MessageReader) -> Transaction:
        transaction, event = begin(stream, message, self._context)
        del self._opening[stream]
        transaction.reader = reader
        self._transactions[stream] = transaction
        if not self._admitted:
            self._admitted = True
            self._context.acts.append(Admit())
        self._context.events.append(event)
        return transaction

    def _ended(self, transaction: Transaction) -> None:
        if transaction.reader.pending and not transaction.over:
            raise ProtocolFault(f"stream {transaction.stream} ends inside of a message")
        transaction.ended_there = True
        transaction.peer_ended()
        self._forget(transaction)

    def _abandoned(self, stream: int, *, there: bool) -> None:
        """The peer has reset its side of a stream, or has taken back what we write on it."""
        transaction = self._transactions.get(stream)
        if there:
            self._unread.pop(stream, None)
            reader = self._opening.pop(stream, None) if transaction is None else transaction.reader
            if reader is not None:
                self._discard(stream, reader)
        if transaction is None:
            return
        if there:
            transaction.ended_there = True
        else:
            transaction.ended_here = True
        transaction.abandoned()
        self._forget(transaction)

    def _datagram(self, data: bytes) -> None:
        if self._paused:
            return
        datagram_id, fragment = decode(data)
        receiving = self._context.of_datagram(datagram_id)
        if receiving is not None:
            receiving.on_datagram(fragment)
            self._datagrams_of[receiving] = None
            self._forget(receiving)

    def _new_stream(self, url: bytes) -> int:
        if self.closed is not None:
            raise MediaError("the connection is over")
        if not self._client:
            raise MediaError("only the end that has dialled requests, posts and subscribes")
        if len(url) > self._config.max_url:
            raise MediaError(f"a URL of {len(url)} bytes, and {self._config.max_url} may be sent")
        stream, self._next_stream = self._next_stream, self._next_stream + STEP
        return stream

    def _say(self, transaction: Transaction, message: ControlMessage, now: float) -> int:
        self._now = now
        self._transactions[transaction.stream] = transaction
        self._context.egress.write(transaction.stream, encode(message))
        return transaction.stream

    def _forget(self, transaction: Transaction) -> None:
        """Once it is over nobody wants its bytes; once its stream has ended both ways, too, nothing
        is left of it."""
        if not transaction.over:
            return
        self._discard(transaction.stream, transaction.reader)
        if transaction.closed:
            self._transactions.pop(transaction.stream, None)
            self._context.egress.forget_stream(transaction.stream)

    def _discard(self, stream: int, reader: MessageReader) -> None:
        """What has come of a stream and is not read is nobody's."""
        size = reader.discard()
        self._pending -= size
        self._context.credit.consume(stream, size)

    def _close(self, code: int, reason: str, origin: CloseOrigin) -> None:
        if self.closed is None:
            due = self.actions() if origin is CloseOrigin.APPLICATION else []
            self._last = [*due, CloseLink(code, reason, origin)]
            self._over(LinkLost(code, reason, False, origin))

    def _over(self, lost: LinkLost) -> None:
        for transaction in self._transactions.values():
            transaction.lost()
        self.closed = lost
        self._transactions.clear()
        self._opening.clear()
        self._unread.clear()
        self._datagrams_of.clear()
        self._pending = 0
        self._context.egress = MediaEgress(self._config)
        self._context.events.append(lost)
