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
    AMPLIFICATION,
    LINK_BYTES,
    ROOM,
    PlainLink,
    PlainSettings,
)

PEER: Address = ("192.0.2.1", 7)
SETTINGS = PlainSettings(idle_timeout=20.0, admission_timeout=5.0)


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


def test_a_stranger_is_sent_three_times_what_came_from_it() -> None:
    link = begun(stranger=True)
    link.apply([SendDatagram(bytes(100), n) for n in range(10)], 100.0)
    assert link.transmit(100.0) == []
    assert link.backlogged
    link.receive([(bytes(100), PEER)], 100.0)
    assert len(link.transmit(100.0)) == AMPLIFICATION
    assert link.inputs() == [Datagram(bytes(100)), DatagramOutcome(2, DatagramFate.LEFT)]
    assert not link.proved
    link.apply([Admit()], 100.0)
    assert link.proved
    assert link.admitted
    assert len(link.transmit(100.0)) == 7


def test_a_stranger_that_is_not_admitted_in_time_is_given_up() -> None:
    link = begun(stranger=True)
    link.receive([(b"x", PEER)], 104.0)
    assert link.timer == 105.0
    link.fire(104.9)
    assert link.lost is None
    link.fire(105.0)
    assert link.lost is not None
    assert link.lost.origin is CloseOrigin.HANDSHAKE_TIMEOUT
    assert link.closed
    assert link.timer is None


def test_silence_ends_it() -> None:
    link = begun(stranger=True)
    link.apply([Admit()], 101.0)
    link.receive([(b"x", PEER)], 110.0)
    link.apply([SendDatagram(b"is anybody there?", 1)], 125.0)
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
    assert link.transmit(100.0) == []
    assert link.inputs() == [LinkLost(3, "over", False, origin)]
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


@pytest.mark.parametrize("name", ["idle_timeout", "admission_timeout", "max_datagram_size"])
def test_a_setting_out_of_bounds_is_named(name: str) -> None:
    with pytest.raises(InvalidOption, match=name):
        PlainSettings(**{name: 0})  # type: ignore[arg-type]
