"""What the peer begins: the first message of a stream says what it is for (Q1)."""

from __future__ import annotations

from aqueduct_core.engine.streams import is_bidirectional, is_client
from aqueduct_core.quicr.egress import LEAST_DATAGRAM
from aqueduct_core.quicr.events import Posted, Requested, Subscribed
from aqueduct_core.quicr.faults import ProtocolFault
from aqueduct_core.quicr.subscribing import Notifying
from aqueduct_core.quicr.transactions import (
    Receiving,
    Sending,
    Transaction,
    TransactionContext,
    message_name,
)
from aqueduct_core.quicr.wire.messages import (
    ControlMessage,
    PostMessage,
    RequestMessage,
    SubscribeMessage,
)


def check_opened(stream: int, *, by_server: bool) -> None:
    """The peer, who is the server or the client, has opened a stream.

    Raises:
        ProtocolFault: only a client may, of two directions.
    """
    if by_server or not is_bidirectional(stream) or not is_client(stream):
        who = "server" if by_server else "client"
        raise ProtocolFault(
            f"stream {stream} of the {who}: only a client opens streams, and all of them have "
            "two directions"
        )


def begin(
    stream: int, message: ControlMessage, context: TransactionContext
) -> tuple[Transaction, Requested | Posted | Subscribed]:
    """Our side of what a client begins with the first message of a stream, and what to tell of it.

    Raises:
        ProtocolFault: nothing begins so, or it cannot be answered.
    """
    match message:
        case RequestMessage(url, datagram_id):
            datagram = datagram_id is not None
            if datagram and context.egress.max_datagram < LEAST_DATAGRAM:
                raise ProtocolFault(
                    f"REQUEST_DATAGRAM of a peer that takes no datagrams of {LEAST_DATAGRAM} bytes"
                )
            sending = Sending(stream, context, datagram_id=datagram_id)
            return sending, Requested(stream, url, datagram)
        case PostMessage(url, datagram):
            return Receiving(stream, context, datagram=datagram), Posted(stream, url, datagram)
        case SubscribeMessage(prefix):
            return Notifying(stream, context), Subscribed(stream, prefix)
    raise ProtocolFault(
        f"stream {stream} begins with {message_name(message)}; it may begin with "
        "REQUEST, POST or SUBSCRIBE"
    )
