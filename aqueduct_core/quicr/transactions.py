"""What goes on on one control stream (Q1, Q2): a media in one direction, or a subscription.

| transaction | the client says | the server says |
|---|---|---|
| `Receiving` at the client | REQUEST, end | START_POINT, FRAGMENT, FIN, end |
| `Sending` at the server | | |
| `Sending` at the client | POST, START_POINT, FRAGMENT, FIN, end | ACCEPT, end |
| `Receiving` at the server | | |
| `subscribing.Subscribing` at the client | SUBSCRIBE, end | NOTIFY, end |
| `subscribing.Notifying` at the server | | |

Everything else closes the connection (Q4, Q5); but an object that is larger than we take ends its
media alone, as a peer cannot know what we take. Whoever sees the other side's end ends its own
(Q6).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from aqueduct_core.engine.actions import Action, Consumed
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.egress import MediaEgress
from aqueduct_core.quicr.events import (
    EndReason,
    FinalPoint,
    Fragments,
    ObjectsDropped,
    PostAccepted,
    QuicrEvent,
    SentOut,
    StartPoint,
    TransactionEnded,
)
from aqueduct_core.quicr.faults import REFUSED, MediaError, ProtocolFault
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.media.source import MediaSource
from aqueduct_core.quicr.receiving import MediaReceiver
from aqueduct_core.quicr.sending import MediaSender
from aqueduct_core.quicr.stream_credit import StreamCredits
from aqueduct_core.quicr.wire.codec import MessageReader, encode
from aqueduct_core.quicr.wire.messages import (
    AcceptMessage,
    ControlMessage,
    FinMessage,
    StartPointMessage,
)


class TransactionContext:
    """What all transactions of a connection share. ``acts`` are actions beside those of
    ``egress``; ``url_bytes`` the memory of what subscriptions remember."""

    def __init__(self, config: QuicrConfig) -> None:
        self.config = config
        self.egress = MediaEgress(config)
        self.events: list[QuicrEvent] = []
        self.acts: list[Action] = []
        self.url_bytes = 0
        self.credit = StreamCredits(self._give)
        self._next_id = 0
        self._by_id: dict[int, Receiving] = {}
        self._claimed: set[int] = set()

    def _give(self, stream: int, size: int) -> None:
        self.acts.append(Consumed(stream, size))

    def new_datagram_id(self, receiving: Receiving) -> int:
        """Not used on this connection before (Q10)."""
        chosen, self._next_id = self._next_id, self._next_id + 1
        self._by_id[chosen] = receiving
        return chosen

    def free_datagram_id(self, datagram_id: int) -> None:
        self._by_id.pop(datagram_id, None)

    def claim(self, datagram_id: int) -> None:
        """The peer has chosen an id for what we send it.

        Raises:
            ProtocolFault: there is something else with it.
        """
        if datagram_id in self._claimed:
            raise ProtocolFault(f"datagram stream id {datagram_id} is in use")
        self._claimed.add(datagram_id)

    def release(self, datagram_id: int) -> None:
        self._claimed.discard(datagram_id)

    def of_datagram(self, datagram_id: int) -> Receiving | None:
        """Whose it is; None: that is over, and what comes late is ignored (Q10).

        Raises:
            ProtocolFault: nobody was given it.
        """
        if datagram_id >= self._next_id:
            raise ProtocolFault(f"a datagram of stream id {datagram_id}, which was not given out")
        return self._by_id.get(datagram_id)


def message_name(message: ControlMessage) -> str:
    """As the document calls it."""
    if isinstance(message, StartPointMessage):
        return "START_POINT"
    return type(message).__name__.removesuffix("Message").upper()


class Transaction(ABC):
    """``over``: its `TransactionEnded` was told; nothing more is, though the stream may be open."""

    def __init__(self, stream: int, context: TransactionContext) -> None:
        self.stream = stream
        self.reader = MessageReader(max_url=context.config.max_url)
        self.over = False
        self.ended_here = False
        self.ended_there = False
        self._context = context

    @property
    def closed(self) -> bool:
        """The stream has ended both ways."""
        return self.ended_here and self.ended_there

    @abstractmethod
    def handle(self, messages: Sequence[ControlMessage], size: int) -> None:
        """Messages of the peer, of ``size`` bytes together.

        Raises:
            ProtocolFault: one of them has no place here.
        """

    @abstractmethod
    def peer_ended(self) -> None:
        """The peer has ended its side, behind all that it wrote. Once."""

    def cancel(self) -> None:
        """End it before its time."""
        if not self.over:
            self._end(EndReason.CANCELLED)
            self._end_here()

    def abandoned(self) -> None:
        """The peer takes or sends nothing any more (RESET_STREAM, STOP_SENDING)."""
        if not self.over:
            self._end(EndReason.CANCELLED, by_peer=True)
        self._end_here()

    def lost(self) -> None:
        """The connection is over."""
        if not self.over:
            self._end(EndReason.LOST)

    def consume(self, size: int) -> None:
        """Give credit for bytes that nobody else is going to consume."""
        self._context.credit.consume(self.stream, size)

    def _emit(self, event: QuicrEvent) -> None:
        self._context.events.append(event)

    def _write(self, message: ControlMessage) -> None:
        self._context.egress.write(self.stream, encode(message))

    def _end_here(self) -> None:
        if not self.ended_here:
            self.ended_here = True
            self._context.egress.write(self.stream, b"", end=True)

    def _end(
        self, reason: EndReason, *, by_peer: bool = False, object: Position | None = None
    ) -> None:
        self._let_go()
        self.over = True
        self._emit(TransactionEnded(self.stream, reason, by_peer, object))

    def _let_go(self) -> None:
        """It is about to be over: tell what is left to tell, and give back what it has."""
        return

    def _refuse(self, message: ControlMessage, allowed: str) -> ProtocolFault:
        return ProtocolFault(f"{message_name(message)} on stream {self.stream}, where {allowed}")


class Receiving(Transaction):
    """A media that comes to us. ``receiver`` is None until a POST is accepted.

    Args:
        datagram: the peer can send it as datagrams.
    """

    def __init__(self, stream: int, context: TransactionContext, *, datagram: bool) -> None:
        super().__init__(stream, context)
        self._can_datagram = datagram
        self.receiver: MediaReceiver | None = None
        self._accepted = False
        self._confirmed = False
        self._arrived: list[Fragment] = []

    def begin(self, *, datagram: bool) -> int | None:
        """It may come from now on; the datagram stream id, if it has one."""
        datagram_id = self._context.new_datagram_id(self) if datagram else None
        self.receiver = MediaReceiver(datagram_id, self._context.config.max_object)
        return datagram_id

    def accept(self, *, datagram: bool) -> None:
        """Answer a POST (Q17): as datagrams, if the peer can."""
        if self.receiver is None and not self.over:
            datagram_id = self.begin(datagram=datagram and self._can_datagram)
            self._accepted = True
            self._write(AcceptMessage(datagram_id))

    def handle(self, messages: Sequence[ControlMessage], size: int) -> None:
        receiver = self.receiver
        if receiver is None:
            raise self._refuse(messages[0], "nothing was accepted yet")
        fragments: list[Fragment] = []
        for message in messages:
            if isinstance(message, Fragment):
                if receiver.datagram_id is not None:
                    raise self._refuse(message, "the media comes as datagrams")
                fragments.append(message)
                continue
            if fragments:
                data = sum(len(fragment.data) for fragment in fragments)
                self._on_stream(receiver, fragments, data)
                fragments, size = [], size - data
                if self.over:
                    break
            if isinstance(message, StartPointMessage):
                if receiver.start_point(message.start):
                    self._emit(StartPoint(self.stream, message.start))
            elif isinstance(message, FinMessage):
                receiver.finish(message.final)
                assert receiver.final is not None
                self._emit(FinalPoint(self.stream, receiver.final))
            else:
                raise self._refuse(message, "only START_POINT, FRAGMENT and FIN may come")
        self._on_stream(receiver, fragments, size)

    def on_datagram(self, fragment: Fragment) -> None:
        """Raises: ProtocolFault: it lies behind the final point."""
        receiver = self.receiver
        assert receiver is not None
        if self.over:
            return
        if receiver.in_datagram(fragment) and not fragment.is_void:
            self._arrived.append(fragment)
        self._end_if_too_large(receiver)

    def flush(self) -> None:
        """Tell what came in datagrams."""
        if self._arrived:
            self._emit(Fragments(self.stream, self._arrived, 0))
            self._arrived = []

    def confirm(self) -> None:
        """All is here: end our side (Q9, Q18).

        Raises:
            MediaError: the final point is not known.
        """
        if self.over or self._confirmed:
            return
        if self.receiver is None or self.receiver.final is None:
            raise MediaError(f"the media of stream {self.stream} has not come to its final point")
        self._confirmed = True
        self._end_here()
        if self.ended_there:
            self._end(EndReason.COMPLETE)

    def cancel(self) -> None:
        if not self.over:
            self._end(EndReason.CANCELLED)
            self._break_off()

    def peer_ended(self) -> None:
        if self.over:
            return
        receiver = self.receiver
        if receiver is not None and receiver.final is not None:
            if self._confirmed:
                self._end(EndReason.COMPLETE)
            return
        if receiver is not None and receiver.datagram_id is None and receiver.whole:
            final = receiver.stream_final
            receiver.finish(final)
            self._emit(FinalPoint(self.stream, final, sure=False))
            return
        self._end(EndReason.CANCELLED, by_peer=True)
        self._end_here()

    def _let_go(self) -> None:
        self.flush()
        if self.receiver is not None and self.receiver.datagram_id is not None:
            self._context.free_datagram_id(self.receiver.datagram_id)

    def _on_stream(self, receiver: MediaReceiver, fragments: list[Fragment], size: int) -> None:
        """Tell fragments of the stream, with the credit of all that came with them."""
        if fragments:
            began = receiver.start
            told = receiver.on_stream(fragments)
            if receiver.start is not None and receiver.start != began:
                self._emit(StartPoint(self.stream, receiver.start))
            if told:
                self._context.credit.hold(self.stream, size)
                self._emit(Fragments(self.stream, told, size))
                size = 0
        self.consume(size)
        self._end_if_too_large(receiver)

    def _end_if_too_large(self, receiver: MediaReceiver) -> None:
        """What the peer goes on to send of it is nobody's (Q6, Q7); the connection goes on."""
        if receiver.too_large is not None and not self.over:
            self._end(EndReason.TOO_LARGE, object=receiver.too_large)
            self._break_off()

    def _break_off(self) -> None:
        """End our side before all is here. To a poster that has sent all of it meanwhile, a FIN
        would say that it is (Q18)."""
        if self._accepted and not self.ended_here:
            self.ended_here = True
            self._context.egress.reset(self.stream, REFUSED)
        else:
            self._end_here()


class Sending(Transaction):
    """A media that goes to the peer.

    Args:
        datagram_id: as a REQUEST has it; of a POST it comes with ACCEPT.
        posted: what is posted; None: it was requested, and may have to be waited for (Q14).
        datagram: the POST offers datagrams.
    """

    def __init__(
        self,
        stream: int,
        context: TransactionContext,
        *,
        datagram_id: int | None = None,
        posted: MediaSource | None = None,
        datagram: bool = False,
    ) -> None:
        super().__init__(stream, context)
        if datagram_id is not None:
            context.claim(datagram_id)
        self._datagram_id = datagram_id
        self._offers_datagrams = datagram
        self._posted = posted
        self._sender: MediaSender | None = None
        self._awaits_accept = posted is not None
        self._told = False

    def serve(self, source: MediaSource) -> None:
        """Send what was requested."""
        if self._posted is None:
            self._begin(source)

    def _begin(self, source: MediaSource) -> None:
        if self.over or self._sender is not None:
            return
        egress = self._context.egress
        self._sender = MediaSender(self.stream, source, self._datagram_id, egress.level)
        egress.add(self._sender)

    def handle(self, messages: Sequence[ControlMessage], size: int) -> None:
        self.consume(size)
        for message in messages:
            if not self._awaits_accept or not isinstance(message, AcceptMessage):
                allowed = "only one ACCEPT may come" if self._posted else "nothing may follow"
                raise self._refuse(message, allowed)
            self._awaits_accept = False
            assert self._posted is not None
            self._datagram_id = message.datagram_id
            datagram = message.datagram_id is not None
            if message.datagram_id is not None:
                if not self._offers_datagrams:
                    raise ProtocolFault("ACCEPT asks for datagrams, which were not offered")
                self._context.claim(message.datagram_id)
            self._emit(PostAccepted(self.stream, datagram))
            self._begin(self._posted)

    def sent_out(self) -> None:
        """The final point was told, behind all that is before it."""
        assert self._sender is not None
        self._told = True
        if self._sender.datagram_id is None:
            self.ended_here = True  # with the final point
        self._emit(SentOut(self.stream))
        if self.ended_there:
            self._complete()

    def tell_dropped(self) -> None:
        if self._sender is not None and self._sender.dropped and not self.over:
            self._emit(ObjectsDropped(self.stream, self._sender.dropped))
            self._sender.dropped = []

    def peer_ended(self) -> None:
        if self.over:
            return
        if self._told:
            self._complete()
        else:
            self._end(EndReason.CANCELLED, by_peer=True)
            self._end_here()

    def _complete(self) -> None:
        self._end(EndReason.COMPLETE)
        self._end_here()

    def _let_go(self) -> None:
        self.tell_dropped()
        if self._datagram_id is not None:
            self._context.release(self._datagram_id)
        self._context.egress.remove(self.stream)
