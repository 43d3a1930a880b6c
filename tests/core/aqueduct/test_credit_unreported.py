"""DEQUEUED never names bytes that are nacked, now or later (AQ-FLOW-6, 8)."""

from __future__ import annotations

from aqueduct_core.aqueduct.credit import UnreportedCredit
from aqueduct_core.aqueduct.engine import AckMode, AqueductEngine, Config, Side
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.rules import rule
from tests.support.wire import Wire

FLOW = "13" + b"flow-control-5a3c19".hex() + "020000"
"""The header of an end that announces no limits, so that DEQUEUED is spoken."""


def storing_server() -> Wire:
    config = Config(auto_accept=True, ack_mode=AckMode.ON_STORED, flow_per_channel=0)
    wire = Wire(AqueductEngine(Side.SERVER, (), config))
    wire.stream("V0217" + FLOW, end=True)
    wire.pump()
    wire.stream("01", end=True)
    return wire.fresh()


def consume(wire: Wire) -> None:
    for batch in wire.events(MessageBatch):
        wire.engine.consumed(batch.channel, batch.size, wire.now)


@rule("AQ-FLOW-6", "AQ-FLOW-8")
def test_a_datagram_that_is_refused_later_gives_nothing_back() -> None:
    server = storing_server()
    server.datagram("0300040000000175")
    server.stream("03000501")
    consume(server)
    server.advance(0.1)
    assert server.sent() == []
    server.engine.refused(0, 0, 1, server.now)
    server.advance(1)
    assert server.sent() == ["7: 0300" + "09020001"]
    server.datagram("0300040100000175")
    server.stream("0501", 10)
    consume(server)
    server.engine.stored(0, 1, 2, reliable=False, now=server.now)
    server.advance(1.1)
    assert server.sent() == ["7: 090101" + "0c06"]


@rule("AQ-FLOW-6")
def test_what_is_stored_goes_back_whole_and_reliable_messages_do_not_wait() -> None:
    server = storing_server()
    server.datagram("0300040000000175")
    server.stream("0300040000000161")
    consume(server)
    server.advance(0.1)
    assert server.sent() == ["7: 0300" + "0c06"]
    server.stream("03000501")
    server.engine.stored(0, 0, 1, reliable=False, now=server.now)
    server.advance(0.1)
    assert server.sent() == ["7: 090101" + "0c06"]


def undecided(*sizes: int) -> UnreportedCredit:
    """Datagram messages that the application is done with, and none of them is acked."""
    unreported = UnreportedCredit()
    for number, size in enumerate(sizes):
        unreported.arrived(number, size)
        unreported.gathered += size
    return unreported


@rule("AQ-FLOW-6")
def test_what_is_acked_goes_back_and_no_other_message_with_it() -> None:
    unreported = undecided(6, 70, 800)
    assert unreported.take(0) == 0
    unreported.acked(1, 2)
    assert (unreported.take(0), unreported.gathered) == (70, 806)
    unreported.acked(0, 1)
    assert (unreported.take(0), unreported.gathered) == (6, 800)


@rule("AQ-FLOW-6")
def test_what_is_refused_stays_out_and_no_other_message_with_it() -> None:
    unreported = undecided(6, 70, 800)
    unreported.refused(1, 2)
    unreported.acked(0, 3)
    assert (unreported.take(0), unreported.gathered) == (806, 70)
    unreported.gathered += 1
    assert unreported.take(0) == 1


@rule("AQ-LIFE-23")
def test_an_entrypoint_that_was_closed_before_the_headers_is_not_watched() -> None:
    server = Wire(
        AqueductEngine(Side.SERVER, (), Config(auto_accept=True, channel_idle_timeout=1.0))
    )
    server.engine.close(0, 0)
    server.stream("V0200")
    server.pump()
    assert server.engine.wake_at is None
