"""Datagram messages on their way out: what fits, what is refused, what is declared."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import Attach, Mode
from aqueduct_core.aqueduct.events import Rerouted
from aqueduct_core.aqueduct.faults import (
    TooLarge,
)
from aqueduct_core.engine.actions import SendDatagram
from aqueduct_core.engine.inputs import DatagramFate, DatagramOutcome, LinkReady
from tests.support.lineage import is_pending
from tests.support.rules import rule
from tests.support.wire import Wire


@rule("AQ-SEND-3")
def test_a_datagram_is_filled_to_its_last_byte() -> None:
    client = Wire.client()
    client.engine.handle(LinkReady(100), 0)
    room = client.engine.datagram_room(0)
    assert not client.engine.send(0, b"x" * room, now=0, mode=Mode.UNRELIABLE).reliable
    assert client.engine.send(0, b"x" * (room + 1), now=0, mode=Mode.UNRELIABLE).reliable
    datagram, stream = client.sent()[::-1]
    assert len(datagram) == len("d: ") + 2 * 100
    assert stream.startswith("10: ")


@rule("AQ-SEND-3")
def test_the_room_of_datagrams_is_that_of_the_longest_number_among_them() -> None:
    client = Wire.client()
    client.engine.handle(LinkReady(100), 0)
    room = client.engine.datagram_room(0)
    for number in range(127):
        client.engine.send(0, b"", now=0, mode=Mode.UNRELIABLE)
        if number == 125:
            assert client.engine.datagram_room(0, 2) == room
            assert client.engine.datagram_room(0, 3) == room - 1
        client.pump()
    assert client.engine.datagram_room(0, 1) == client.engine.datagram_room(0, 0) == room
    assert client.engine.datagram_room(0, 2) == room - 1


@rule("AQ-SEND-3")
def test_a_link_that_takes_tiny_datagrams_has_no_room_in_them() -> None:
    for size in (1, 6):
        client = Wire.client()
        client.engine.handle(LinkReady(size), 0)
        assert client.engine.datagram_room(0) < 0
        for payload in (b"", b"a"):
            with pytest.raises(TooLarge):
                client.engine.send_many(0, [payload], now=0, mode=Mode.UNRELIABLE)
            assert client.engine.send(0, payload, now=0, mode=Mode.UNRELIABLE).reliable


@rule("AQ-SEND-3")
def test_an_empty_message_may_fill_a_datagram() -> None:
    client = Wire.client()
    client.engine.handle(LinkReady(7), 0)
    assert client.engine.datagram_room(0) == 0
    assert client.engine.send_many(0, [b""], now=0, mode=Mode.UNRELIABLE) == (0, 1)
    assert client.sent() == ["d: 03000400000000"]


@rule("AQ-SEND-5")
def test_a_refused_datagram_gives_its_number_back() -> None:
    client = Wire.client()
    client.engine.send(0, b"a", now=0, mode=Mode.UNRELIABLE)
    client.engine.send(
        0, b"b", now=0, mode=Mode.UNRELIABLE, headers=((b"k", b"v"),), attach=[Attach(True)]
    )
    client.pump()
    tokens = [action.token for action in client.actions if isinstance(action, SendDatagram)]
    client.sent()
    client.engine.handle(DatagramOutcome(tokens[1], DatagramFate.REFUSED), 0)
    assert client.sent() == ["10: 030004000" + "4016b0176" + "020800" + "0162 FIN"]
    assert client.events(Rerouted) == [Rerouted(0, 1, 0)]
    assert client.engine.send(0, b"c", now=0, mode=Mode.UNRELIABLE).number == 1
    # its attachment hangs on the new number
    client.stream("030008020001")
    client.engine.send(8, b"", now=0, attach=[Attach(True)])
    assert not is_pending(client.engine._channels.lineage, 8)
    # one that is not the last counts as sent
    client.pump()
    client.engine.handle(DatagramOutcome(tokens[0], DatagramFate.REFUSED), 0)
    assert client.events(Rerouted) == []


@rule("AQ-SEND-5")
def test_a_declared_datagram_keeps_its_number() -> None:
    client = Wire.client()
    client.engine.send(0, b"a", now=0, mode=Mode.UNRELIABLE)
    client.pump()
    token = next(o.token for o in client.actions if isinstance(o, SendDatagram))
    client.engine.tick(0.1)
    client.engine.handle(DatagramOutcome(token, DatagramFate.REFUSED), 0.1)
    assert client.events(Rerouted) == []
    client.engine.handle(DatagramOutcome(99, DatagramFate.REFUSED), 0.1)
    assert client.code is None


@rule("AQ-SEND-6", "AQ-SEND-7", "AQ-SEND-8")
def test_declarations_and_finish_share_a_stream() -> None:
    client = Wire.client()
    for _ in range(3):
        client.engine.send(0, b"", now=0, mode=Mode.UNRELIABLE)
    client.advance(0.1)
    client.engine.send(0, b"", now=client.now, mode=Mode.UNRELIABLE)
    client.engine.finish(0, client.now)
    sent = [line for line in client.sent() if not line.startswith("d")]
    assert sent == ["10: 03000503", "10: 05010600 FIN"]
    assert client.engine.wake_at is None
    client.advance(1)
    assert client.sent() == []
