"""Handles of messages that were read and not stored in time: lost on both sides, and forgotten."""

from __future__ import annotations

from aqueduct_core.aqueduct.engine import AckMode, Attach, Config
from aqueduct_core.aqueduct.events import End
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.rules import rule
from tests.support.wire import Wire, ends

STORING = Config(auto_accept=True, ack_mode=AckMode.ON_STORED)
PLAIN = Config(auto_accept=True)
CARRIER = "030004000004080002000178"
"""Message 0 of the entrypoint, with the client's channels 8 (it sends) and 2 (we send)."""


def empty(wire: Wire) -> bool:
    return not wire.engine.open_channels and not len(wire.engine._context.remote_lineage)


@rule("AQ-LOST-3", "AQ-LIFE-12", "AQ-ACK-15")
def test_channels_of_a_message_that_was_not_stored_are_lost_with_their_carrier() -> None:
    server = Wire.server(STORING)
    server.stream(CARRIER)
    assert len(server.events(MessageBatch)) == 1
    server.engine.close(0, 0)
    server.pump()
    # the creator owes no FORGET_CHANNEL for what it never used
    assert sorted(ends(server)) == [(0, End.CLOSED), (2, End.LOST), (8, End.LOST)]
    assert empty(server)


@rule("AQ-LIFE-12", "AQ-LOST-6")
def test_they_live_on_when_it_was_stored() -> None:
    server = Wire.server(STORING)
    server.stream(CARRIER)
    server.engine.stored(0, 0, 1, reliable=True, now=0)
    server.engine.close(0, 0)
    server.pump()
    assert sorted(ends(server)) == [(0, End.CLOSED)]
    assert server.engine.half_open(8)
    assert server.engine.half_open(2)


@rule("AQ-LIFE-12", "AQ-LOST-6")
def test_they_live_on_when_acks_leave_on_receipt() -> None:
    server = Wire.server(PLAIN)
    server.stream(CARRIER)
    server.engine.close(0, 0)
    server.pump()
    assert sorted(ends(server)) == [(0, End.CLOSED)]
    assert server.engine.open_channels == 2


@rule("AQ-LOST-3")
def test_the_loss_goes_down_to_what_was_stored_and_to_what_ended() -> None:
    server = Wire.server(STORING)
    server.stream(CARRIER)
    # 8 carries 16, its message is stored, and 8 finishes; its own carrier is not stored
    server.stream("030804000002100001790601")
    server.engine.stored(8, 0, 1, reliable=True, now=0)
    server.pump()
    assert sorted(ends(server)) == [(8, End.FINISHED)]
    assert server.engine.half_open(16)
    server.engine.close(0, 0)
    server.pump()
    assert sorted(ends(server)) == [(0, End.CLOSED), (2, End.LOST), (16, End.LOST)]
    assert empty(server)


@rule("AQ-LOST-3", "AQ-ACK-10")
def test_a_refused_datagram_loses_its_channels() -> None:
    server = Wire.server(STORING)
    server.datagram(CARRIER)
    server.stream("03000501")
    server.engine.refused(0, 0, 1, 0)
    server.advance(1.1)
    assert sorted(ends(server)) == [(2, End.LOST), (8, End.LOST)]
    assert server.engine.open_channels == 1


@rule("AQ-LIFE-22", "AQ-LOST-6")
def test_a_queue_that_waited_for_its_carrier_keeps_its_channels() -> None:
    server = Wire.server(PLAIN)
    server.stream("03080400000210000179" + "0601")
    server.advance(1)
    server.stream(CARRIER)
    server.advance(1)
    assert sorted(ends(server)) == [(8, End.FINISHED)]
    assert server.engine.half_open(16)
    server.stream("03080b")
    server.pump()
    assert server.engine.half_open(16)


@rule("AQ-LOST-3", "AQ-ACK-15")
def test_what_waited_for_its_carrier_has_to_be_stored_as_well() -> None:
    server = Wire.server(STORING)
    server.stream("0308" + "04000002100001" + "79" + "04010002180001" + "7a")
    server.stream(CARRIER)
    server.engine.stored(8, 1, 2, reliable=True, now=0)
    server.pump()
    server.engine.close(8, 0)
    server.pump()
    assert sorted(ends(server)) == [(8, End.CLOSED), (16, End.LOST)]
    assert server.engine.half_open(24)


@rule("AQ-LIFE-22", "AQ-LOST-6")
def test_what_was_acked_while_it_waited_is_not_lost_with_its_channel() -> None:
    server = Wire.server(PLAIN)
    server.stream("0308" + "04000002100001" + "79")
    server.advance(1)
    server.stream(CARRIER)
    server.advance(1)
    server.engine.close(8, server.now)
    server.advance(1)
    assert sorted(ends(server)) == [(8, End.CLOSED)]
    assert server.engine.half_open(16)


@rule("AQ-LIFE-22")
def test_nothing_is_kept_of_a_channel_that_ended_before_its_carrier_came() -> None:
    server = Wire.server(PLAIN)
    server.stream("030804000000" + "0179" + "0601")
    server.stream("030004000002080000")
    server.advance(1)
    server.engine.close(0, server.now)
    server.advance(1)
    assert sorted(ends(server)) == [(0, End.CLOSED), (8, End.FINISHED)]
    assert empty(server)


@rule("AQ-LOST-3")
def test_messages_told_after_their_channel_was_lost_give_their_channels_up() -> None:
    server = Wire.server(STORING)
    server.stream(CARRIER)
    server.engine.close(0, 0)
    server.stream("03080400000210000179")  # in the same burst
    server.pump()
    assert (16, End.CLOSED) in ends(server)
    assert empty(server)


@rule("AQ-LOST-3", "AQ-LIFE-20")
def test_what_hung_on_a_channel_of_ours_that_was_lost_is_closed_aloud() -> None:
    """Our acks there may have come before the sender's end or after it: we cannot know."""
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(False)])
    client.sent()
    client.stream("0302" + "04000006010003000500" + "0179")
    client.advance(0.1)
    client.engine.finish(1, client.now)
    assert client.engine.open_channels == 5
    client.sent()
    client.stream("03000a")  # the carrier of 2 counts as nacked
    client.advance(0.1)
    out = client.sent()
    assert "34: 0301 FIN" in out  # 1 is finished: is its receiver still there?
    assert "18: 0a FIN" in out  # 3 is closed
    assert "30: 030507 FIN" in out  # 5 is cancelled
    assert client.engine.half_open(1)
    client.stream("03010b")
    assert not client.engine.half_open(1)
    client.pump()
    assert sorted(ends(client))[:3] == [(0, End.CLOSED), (1, End.LOST), (2, End.LOST)]


@rule("AQ-LOST-2")
def test_what_hangs_on_a_channel_of_ours_that_is_accessible_lives_on() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(False)])
    client.stream("0302" + "040000020300" + "0179")
    client.advance(0.1)
    client.stream("0300080200010a")
    client.advance(0.1)
    assert sorted(ends(client)) == [(0, End.CLOSED)]
    assert client.engine.half_open(3)
    client.stream("0302" + "0601")
    client.advance(2)
    assert len(client.engine._context.remote_lineage) == 1  # 3 alone, which may carry others


@rule("AQ-LOST-2")
def test_a_channel_of_ours_that_is_accessible_may_carry_others() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(False)])
    client.stream("030008020001")
    client.pump()
    client.stream("0302" + "040000020300" + "0179")
    client.pump()
    assert client.engine.half_open(3)
    assert sorted(ends(client)) == []


@rule("AQ-ACK-11")
def test_a_datagram_that_was_refused_is_not_taken_again() -> None:
    server = Wire.server(STORING)
    server.datagram("0300040000000175")
    server.engine.refused(0, 0, 1, 0)
    assert len(server.events(MessageBatch)) == 1
    server.datagram("0300040000000175")
    assert server.events(MessageBatch) == []
    assert server.code == Code.STATE
