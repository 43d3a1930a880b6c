"""Handles of messages that were read and not stored in time: lost on both sides, and forgotten."""

from __future__ import annotations

from aqueduct_core.aqueduct.connection import AckMode, Config
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.aqueduct.news import End, Ended, Run
from tests.support.rules import rule
from tests.support.wire import Wire

STORING = Config(auto_accept=True, ack_mode=AckMode.ON_STORED)
PLAIN = Config(auto_accept=True)
CARRIER = "030004000004080002000178"
"""Message 0 of the entrypoint, with the client's channels 8 (it sends) and 2 (we send)."""


def ends(wire: Wire) -> list[tuple[int, End]]:
    return sorted((ended.channel, ended.end) for ended in wire.news(Ended))


def empty(wire: Wire) -> bool:
    return not wire.engine.open_channels and not len(wire.engine._wiring.heirs)


@rule("AQ-LOST-3", "AQ-LIFE-12", "AQ-ACK-15")
def test_channels_of_a_message_that_was_not_stored_are_lost_with_their_carrier() -> None:
    server = Wire.server(STORING)
    server.stream(CARRIER)
    assert len(server.news(Run)) == 1
    server.engine.close(0, 0)
    server.pump()
    # the creator owes no FORGET_CHANNEL for what it never used
    assert ends(server) == [(0, End.CLOSED), (2, End.LOST), (8, End.LOST)]
    assert empty(server)


@rule("AQ-LIFE-12", "AQ-LOST-6")
def test_they_live_on_when_it_was_stored() -> None:
    server = Wire.server(STORING)
    server.stream(CARRIER)
    server.engine.stored(0, 0, 1, reliable=True, now=0)
    server.engine.close(0, 0)
    server.pump()
    assert ends(server) == [(0, End.CLOSED)]
    assert server.engine.half_open(8)
    assert server.engine.half_open(2)


@rule("AQ-LIFE-12", "AQ-LOST-6")
def test_they_live_on_when_acks_leave_on_receipt() -> None:
    server = Wire.server(PLAIN)
    server.stream(CARRIER)
    server.engine.close(0, 0)
    server.pump()
    assert ends(server) == [(0, End.CLOSED)]
    assert server.engine.open_channels == 2


@rule("AQ-LOST-3")
def test_the_loss_goes_down_to_what_was_stored_and_to_what_ended() -> None:
    server = Wire.server(STORING)
    server.stream(CARRIER)
    # 8 carries 16, its message is stored, and 8 finishes; its own carrier is not stored
    server.stream("030804000002100001790601")
    server.engine.stored(8, 0, 1, reliable=True, now=0)
    server.pump()
    assert ends(server) == [(8, End.FINISHED)]
    assert server.engine.half_open(16)
    server.engine.close(0, 0)
    server.pump()
    assert ends(server) == [(0, End.CLOSED), (2, End.LOST), (16, End.LOST)]
    assert empty(server)


@rule("AQ-LOST-3", "AQ-ACK-10")
def test_a_refused_datagram_loses_its_channels() -> None:
    server = Wire.server(STORING)
    server.datagram(CARRIER)
    server.stream("03000501")
    server.engine.refused(0, 0, 1, 0)
    server.advance(1.1)
    assert ends(server) == [(2, End.LOST), (8, End.LOST)]
    assert server.engine.open_channels == 1


@rule("AQ-LIFE-22", "AQ-LOST-6")
def test_a_queue_that_waited_for_its_carrier_keeps_its_channels() -> None:
    server = Wire.server(PLAIN)
    server.stream("03080400000210000179" + "0601")
    server.advance(1)
    server.stream(CARRIER)
    server.advance(1)
    assert ends(server) == [(8, End.FINISHED)]
    assert server.engine.half_open(16)
    server.stream("03080b")
    server.pump()
    assert server.engine.half_open(16)


@rule("AQ-LOST-3")
def test_messages_told_after_their_channel_was_lost_lose_their_channels_too() -> None:
    server = Wire.server(STORING)
    server.stream(CARRIER)
    server.engine.close(0, 0)
    server.stream("03080400000210000179")  # in the same burst
    server.pump()
    assert (16, End.LOST) in ends(server)
    assert empty(server)


@rule("AQ-ACK-11")
def test_a_datagram_that_was_refused_is_not_taken_again() -> None:
    server = Wire.server(STORING)
    server.datagram("0300040000000175")
    server.engine.refused(0, 0, 1, 0)
    assert len(server.news(Run)) == 1
    server.datagram("0300040000000175")
    assert server.news(Run) == []
    assert server.code == Code.STATE
