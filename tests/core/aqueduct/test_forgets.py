"""FORGET_CHANNEL, of either side, and the channels that are lost."""

from __future__ import annotations

from aqueduct_core.aqueduct.engine import Attach, Config, Mode
from aqueduct_core.aqueduct.events import Counts, Delivered, End, Ended
from aqueduct_core.aqueduct.faults import Code
from tests.support.lineage import is_pending
from tests.support.rules import rule
from tests.support.wire import CARRIER_8, Wire, ends, payloads

# --- forget and loss -----------------------------------------------------------------------


@rule("AQ-LIFE-6")
def test_forget_destroys_a_receiver() -> None:
    server = Wire.server()
    server.stream(CARRIER_8)
    server.advance(0.1)
    server.fresh()
    server.stream("0308040000000161")
    server.stream("03080b")
    assert server.sent() == ["RESET 7"]
    assert payloads(server) == [(8, b"a")]  # it was told before
    assert server.events(Ended) == [Ended(8, End.LOST, Counts(reliable_received=1))]
    server.advance(5)
    assert server.sent() == []


@rule("AQ-LIFE-6", "AQ-LOST-8")
def test_forget_of_a_sender_nacks_and_loses_what_it_carried() -> None:
    server = Wire.server()
    server.stream("030004000002020000")
    server.pump()
    server.engine.send(2, b"x", now=0, attach=[Attach(True), Attach(False)])
    server.engine.send(3, b"y", now=0, mode=Mode.UNORDERED)
    server.advance(0.1)
    server.fresh()
    server.stream("03020b")
    assert server.events(Delivered) == [
        Delivered(2, True, 0, 1, False),
        Delivered(3, True, 0, 1, False),
    ]
    assert ends(server) == [(2, End.LOST), (3, End.LOST), (1, End.LOST)]
    server.advance(0.1)
    assert server.sent() == ["RESET 7", "RESET 11", "19: 03030b FIN"]


@rule("AQ-LIFE-6")
def test_forget_while_an_ended_channel_is_still_read() -> None:
    server = Wire.server()
    server.stream(CARRIER_8)
    server.stream("0308040000000161" + "0601", end=True)
    assert ends(server) == [(8, End.FINISHED)]
    server.stream("03080b")
    assert ends(server) == []
    assert server.code is None


@rule("AQ-LOST-4")
def test_a_lost_channel_that_was_never_routed_says_nothing() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(True), Attach(False)])
    client.sent()
    client.stream("03000a")
    client.advance(1)
    assert client.events(Ended) == [
        Ended(0, End.CLOSED, Counts(reliable_sent=1, nacked=1)),
        Ended(8, End.LOST, Counts()),
        Ended(2, End.LOST, Counts()),
    ]
    assert client.sent() == ["RESET 10"]


@rule("AQ-LOST-4")
def test_a_lost_channel_that_was_routed_in_a_datagram() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(True)])
    client.engine.send(8, b"u", now=0, mode=Mode.UNRELIABLE)
    client.sent()
    client.stream("03000a")
    client.advance(1)
    assert "14: 03080b FIN" in client.sent()


@rule("AQ-LOST-5")
def test_a_channel_that_finished_before_its_carrier_was_nacked() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(True)])
    client.engine.send(8, b"", now=0, attach=[Attach(True)])
    client.engine.finish(8, 0)
    client.stream("0308080200010a", end=True)
    assert ends(client) == [(8, End.FINISHED)]
    assert client.engine.half_open(16)
    client.sent()
    client.stream("03000a")
    assert ends(client) == [(0, End.CLOSED), (16, End.LOST)]
    client.advance(1)
    assert client.sent() == ["RESET 10", "18: 03080b FIN"]


@rule("AQ-LOST-3", "AQ-ACK-7")
def test_a_nacked_datagram_loses_its_channels() -> None:
    client = Wire.client()
    for _ in range(2):
        client.engine.send(0, b"", now=0, mode=Mode.UNRELIABLE, attach=[Attach(True)])
    client.advance(0.1)
    client.stream("0300" + "09020101")
    assert ends(client) == [(16, End.LOST)]
    assert client.engine.half_open(8)
    assert not is_pending(client.engine._channels.lineage, 8)


@rule("AQ-LIFE-11", "AQ-LIFE-18")
def test_forget_goes_on_the_lingering_stream() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(False)])
    client.stream("0302040000000172")
    client.engine.close(2, 0)
    assert client.sent() == ["14: 0302080200010a", "10: 030004000002020000"]
    client.stream("0302")
    client.advance(0.1)
    assert client.sent() == ["14: 0b"]
    # a second one on a stream of its own could overtake the acks as well as the first
    client.stream("0302")
    client.advance(0.1)
    assert client.sent() == ["14: 0b"]
    client.advance(1)
    assert client.sent() == ["14:  FIN"]
    client.stream("0302")
    client.advance(0.1)
    assert client.sent() == ["18: 03020b FIN"]


@rule("AQ-LIFE-11", "AQ-LIFE-18")
def test_forgets_that_are_due_together_each_go_their_way() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(False), Attach(False)])
    client.engine.close(10, 0)
    client.advance(2)
    client.engine.close(2, client.now)
    assert client.sent() == [
        "14: 030a0a",
        "10: 0300040000040200" + "0a0000",
        "14:  FIN",
        "18: 03020a",
    ]
    client.stream("0302")
    client.stream("030a")
    client.advance(0.1)
    assert client.sent() == ["18: 0b", "22: 030a0b FIN"]


@rule("AQ-LIFE-11")
def test_the_end_of_a_lingering_stream_leaves_before_messages() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(False)])
    client.engine.close(2, 0)
    client.fresh()
    client.engine.tick(1.0)
    client.engine.send(0, b"x", now=1.0)
    assert client.sent() == ["14:  FIN", "10: 0401000001" + "78"]


@rule("AQ-LIFE-18")
def test_a_forget_waits_for_others_of_its_channel() -> None:
    server = Wire.server(Config(auto_accept=True, forget_delay=0.5))
    for _ in range(100):
        server.advance(0.004)
        server.stream("0301")
    server.advance(0.1)
    assert server.sent() == []
    server.advance(0.1)
    assert server.sent() == ["7: 03010b FIN"]


def test_forgets_for_the_peer_are_bounded() -> None:
    server = Wire.server(Config(auto_accept=True, max_pending_forgets=2))
    for channel in ("01", "09", "01"):
        server.stream("03" + channel)
    assert server.code is None
    server.stream("0311")
    assert server.code == Code.RESOURCE_LIMIT
