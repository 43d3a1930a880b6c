"""A link without QUIC, alone: what it sends, when it ends, what a stranger is sent."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.actions import Admit, CloseLink, SendDatagram, WriteStream
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramOutcome,
    LinkLost,
    LinkReady,
    LinkRoom,
)
from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport.link import Address, Link
from aqueduct_core.transport.plain_udp.link import (
    BURST,
    LINK_BYTES,
    PAUSE,
    RATE,
    ROOM,
    PlainLink,
    PlainSettings,
)

PEER: Address = ("192.0.2.1", 7)
SETTINGS = PlainSettings(idle_timeout=20.0, max_datagram_size=1_200)


def begun(*, stranger: bool = False) -> PlainLink:
    link = PlainLink(SETTINGS, PEER, 100.0, stranger=stranger)
    assert link.inputs() == [LinkReady(1_200), LinkRoom(ROOM)]
    return link


def test_it_is_a_link() -> None:
    link: Link = begun()
    assert link.ready
    assert not link.closed
    assert link.routes() == ([], [])
    assert not link.probe()


def test_packets_leave_in_order_and_that_is_told() -> None:
    link = begun()
    link.apply([SendDatagram(b"one", 4), SendDatagram(b"two!", 5)], 100.0)
    assert link.unsent == 7
    assert link.footprint > LINK_BYTES + 7
    assert link.transmit(100.0) == [(b"one", PEER), (b"two!", PEER)]
    assert link.inputs() == [DatagramOutcome(5, DatagramFate.LEFT)]
    assert (link.unsent, link.backlogged, link.footprint) == (0, False, LINK_BYTES)
    assert (link.counts.datagrams_sent, link.counts.bytes_sent) == (2, 7)


def test_what_is_too_large_is_refused() -> None:
    link = begun()
    link.apply([SendDatagram(bytes(1_201), 1), SendDatagram(bytes(1_200), 2)], 100.0)
    assert link.inputs() == [DatagramOutcome(1, DatagramFate.REFUSED)]
    assert len(link.transmit(100.0)) == 1


def test_a_stranger_is_sent_no_more_bytes_than_came_from_it() -> None:
    link = begun(stranger=True)
    link.apply([SendDatagram(bytes(100), n) for n in range(10)], 100.0)
    assert link.transmit(100.0) == []
    assert link.backlogged
    link.receive([(bytes(247), PEER)], 100.0)
    assert len(link.transmit(100.0)) == 1  # two have more than it, with their headers
    assert link.inputs() == [Datagram(bytes(247)), DatagramOutcome(0, DatagramFate.LEFT)]
    link.receive([(b"x", PEER)], 100.0)
    assert len(link.transmit(100.0)) == 1  # two packets for two
    link.receive([(bytes(99), PEER)] * 2, 100.0)
    assert len(link.transmit(100.0)) == 2
    assert (link.proved, link.unsent) == (False, 600)
    link.apply([Admit()], 100.0)
    assert link.proved
    assert len(link.transmit(100.0)) == 6
    assert link.unsent == 0


def test_to_a_stranger_small_packets_overtake_those_that_must_wait() -> None:
    """Or else a large answer to a small question would be in the way of each acknowledgement."""
    link = begun(stranger=True)
    link.apply([SendDatagram(bytes(1_000), 4), SendDatagram(b"ack", 5)], 100.0)
    link.receive([(bytes(50), PEER)], 100.0)
    assert link.transmit(100.0) == [(b"ack", PEER)]
    assert link.inputs()[-1] == DatagramOutcome(3, DatagramFate.LEFT)  # nothing before it waits
    assert link.unsent == 1_000
    link.apply([Admit()], 100.0)
    assert link.transmit(100.0) == [(bytes(1_000), PEER)]
    assert link.inputs() == [DatagramOutcome(4, DatagramFate.LEFT)]


def test_many_packets_leave_one_burst_after_another() -> None:
    link = begun()
    packets = [SendDatagram(b"%d" % n, n) for n in range(3 * BURST)]
    link.apply(packets, 100.0)
    assert len(link.transmit(100.0)) == BURST
    assert link.inputs() == [DatagramOutcome(BURST - 1, DatagramFate.LEFT)]
    assert link.transmit(100.0) == []
    assert link.backlogged
    left, now = BURST, 100.0
    while link.unsent:
        assert link.timer == pytest.approx(now + PAUSE)
        now += 2 * PAUSE
        link.fire(now)
        out = link.transmit(now)
        assert out[0][0] == b"%d" % left
        assert len(out) <= 2 * PAUSE * RATE + 1
        left += len(out)
    assert left == 3 * BURST
    assert link.inputs()[-1] == DatagramOutcome(left - 1, DatagramFate.LEFT)
    assert link.timer == 120.0


def test_who_is_heard_of_for_a_while_keeps_its_place_and_stays_a_stranger() -> None:
    link = begun(stranger=True)
    link.receive([(b"x", PEER)] * 10, 100.9)
    assert not link.admitted
    link.receive([(b"x", PEER)], 101.0)
    assert (link.admitted, link.proved) == (True, False)


def test_silence_ends_it() -> None:
    link = begun(stranger=True)
    link.apply([Admit()], 101.0)
    link.receive([(b"x", PEER)], 110.0)
    link.apply([SendDatagram(b"is anybody there?", 1)], 125.0)
    assert len(link.transmit(125.0)) == 1
    assert link.timer == 130.0
    link.fire(130.0)
    assert link.inputs()[-1] == LinkLost(0, "idle timeout", False, CloseOrigin.IDLE_TIMEOUT)
    link.receive([(b"too late", PEER)], 131.0)
    assert link.inputs() == []


@pytest.mark.parametrize("origin", [CloseOrigin.APPLICATION, CloseOrigin.TRANSPORT])
def test_closing_says_nothing_to_the_peer(origin: CloseOrigin) -> None:
    link = begun()
    link.apply([SendDatagram(b"x", 1), CloseLink(3, "over", origin)], 100.0)
    link.apply([SendDatagram(b"y", 2)], 100.0)
    assert link.transmit(100.0) == [(b"x", PEER)]  # it was given before
    assert link.inputs() == [LinkLost(3, "over", False, origin)]
    assert link.transmit(100.0) == []
    link.abandon("twice")
    assert link.inputs() == []


def test_what_is_held_back_is_dropped() -> None:
    link = begun()
    link.hold_back(True)
    link.receive([(b"x", PEER)], 100.0)
    assert link.inputs() == []
    assert link.counts.datagrams_held_back == 1
    link.hold_back(False)
    link.receive([(b"y", PEER)], 100.0)
    assert link.inputs() == [Datagram(b"y")]


def test_there_are_no_streams() -> None:
    with pytest.raises(ValueError, match="without streams"):
        begun().apply([WriteStream(0, b"x", False)], 100.0)


@pytest.mark.parametrize("name", ["idle_timeout", "probation", "max_datagram_size"])
def test_a_setting_out_of_bounds_is_named(name: str) -> None:
    with pytest.raises(InvalidOption, match=name):
        PlainSettings(**{name: 0 if name != "probation" else -1})  # type: ignore[arg-type]
