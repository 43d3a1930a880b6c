"""What begins with the first message of a stream, and what nothing begins with."""

from __future__ import annotations

import pytest

from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.egress import LEAST_DATAGRAM
from aqueduct_core.quicr.events import Posted, QuicrEvent, Requested, Subscribed
from aqueduct_core.quicr.faults import ProtocolFault
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import BEGIN
from aqueduct_core.quicr.opening import begin, check_opened
from aqueduct_core.quicr.subscribing import Notifying
from aqueduct_core.quicr.transactions import Receiving, Sending, Transaction, TransactionContext
from aqueduct_core.quicr.wire.messages import (
    AcceptMessage,
    ControlMessage,
    FinMessage,
    NotifyMessage,
    PostMessage,
    RequestMessage,
    StartPointMessage,
    SubscribeMessage,
)
from tests.support.rules import rule


def context(max_datagram: int = LEAST_DATAGRAM) -> TransactionContext:
    made = TransactionContext(QuicrConfig())
    made.egress.max_datagram = max_datagram
    return made


@rule("Q-1")
@pytest.mark.parametrize(
    ("message", "kind", "event"),
    [
        (RequestMessage(b"u", None), Sending, Requested(4, b"u", False)),
        (RequestMessage(b"u", 7), Sending, Requested(4, b"u", True)),
        (PostMessage(b"u", True), Receiving, Posted(4, b"u", True)),
        (PostMessage(b"u", False), Receiving, Posted(4, b"u", False)),
        (SubscribeMessage(b"u"), Notifying, Subscribed(4, b"u")),
    ],
)
def test_a_stream_begins_with_what_it_is_for(
    message: ControlMessage, kind: type[Transaction], event: QuicrEvent
) -> None:
    transaction, told = begin(4, message, context())
    assert (type(transaction), transaction.stream, told) == (kind, 4, event)


@rule("Q-1", "Q-4")
@pytest.mark.parametrize(
    "message",
    [
        Fragment(0, 0, 0, b"x", True),
        FinMessage(BEGIN),
        AcceptMessage(None),
        StartPointMessage(BEGIN),
        NotifyMessage(b"u"),
    ],
)
def test_nothing_begins_with_anything_else(message: ControlMessage) -> None:
    with pytest.raises(ProtocolFault, match="it may begin with REQUEST, POST or SUBSCRIBE"):
        begin(0, message, context())


@rule("Q-10")
def test_datagrams_are_not_asked_for_by_who_takes_none() -> None:
    with pytest.raises(ProtocolFault, match="takes no datagrams"):
        begin(0, RequestMessage(b"u", 0), context(LEAST_DATAGRAM - 1))


@rule("Q-1")
@pytest.mark.parametrize("stream", range(4))
def test_only_a_client_opens_streams_and_all_have_two_directions(stream: int) -> None:
    for by_server in (False, True):
        if not stream and not by_server:
            check_opened(stream, by_server=by_server)
            continue
        who = "server" if by_server else "client"
        with pytest.raises(ProtocolFault, match=f"stream {stream} of the {who}: only a client"):
            check_opened(stream, by_server=by_server)
