"""Streams have their turns; none is looked at that has nothing to do, or finds the packet full."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aioquic.quic.packet_builder import QuicDeliveryState, QuicPacketBuilder

from aqueduct_core.transport.aioquic.service_order import (
    CONTROL_SIZE,
    DATA_OVERHEAD,
    LEAST_FLIGHT,
    ServiceOrder,
)
from aqueduct_core.transport.aioquic.streams import NO_RECEIVER, Stream, StreamSender
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.wire import Wire

ROOM = 1_000


class Owner:
    """A connection, as streams and their order see it."""

    unacknowledged = untaken = 0

    def __init__(self) -> None:
        self.out_of_credit = False
        self.order = ServiceOrder(self)
        self.streams: dict[int, Stream] = {}

    def stream(self, number: int, data: bytes = b"data", *, limit: int = 1_000) -> Stream:
        sender = StreamSender(self, number)
        self.streams[number] = stream = Stream(
            number, receiver=NO_RECEIVER, sender=sender, remote=limit
        )
        if data:
            sender.write(data)
        return stream

    def wake(self, stream_id: int) -> None:
        self.order.add(self.streams[stream_id])

    def release(self, count: int) -> None: ...

    def scatter(self, ranges: int, size: int) -> None: ...


def begun(owner: Owner, flight: int | None = None) -> ServiceOrder:
    builder = SimpleNamespace(max_flight_bytes=flight, _flight_bytes=0, remaining_flight_space=ROOM)
    owner.order.begin(cast(QuicPacketBuilder, builder))
    return owner.order


def served(order: ServiceOrder, *, most: int = 1) -> list[int]:
    """Numbers of the streams of a packet, each of which sends ``most`` bytes."""
    numbers = []
    while (stream := order.take(ROOM)) is not None:
        numbers.append(stream.number)
        stream.sender.get_frame(most, stream.max_stream_data_remote)
    order.replaced()
    return numbers


def test_what_is_urgent_goes_ahead_of_all_others_in_each_packet() -> None:
    owner = Owner()
    first, second, urgent = (owner.stream(4 * i, b"") for i in range(3))
    first.sender.write(b"12")
    urgent.sender.write(b"behind")
    second.sender.write(b"12")
    owner.order.hurry(urgent, 8)  # with what was written before it
    urgent.sender.write(b"it")
    assert len(owner.order) == 3
    order = begun(owner)
    # One turn in each packet, so that one that has no room is not asked again and again.
    assert served(order, most=2) == [8, 0, 4]
    first.sender.write(b"12")
    urgent.sender.write(b"later")
    begun(owner)
    assert [served(order, most=2) for _ in range(3)] == [[8, 0], [8], [8]]
    first.sender.write(b"12")
    assert served(begun(owner), most=5) == [8, 0]  # nothing of it is urgent any more
    assert len(order) == 0


def test_what_was_urgent_is_urgent_when_it_is_repeated() -> None:
    owner = Owner()
    other, urgent = owner.stream(0), owner.stream(4, b"")
    owner.order.hurry(urgent, 4)
    urgent.sender.write(b"soon")
    assert served(begun(owner), most=4) == [4, 0]
    urgent.sender.on_data_delivery(QuicDeliveryState.LOST, 0, 4, False)
    other.sender.write(b"more")
    assert served(begun(owner), most=4) == [4, 0]


def test_it_is_known_whether_streams_are_to_be_reset_or_stopped() -> None:
    owner = Owner()
    streams = [owner.stream(4 * i) for i in range(3)]
    order = owner.order
    assert not order.controls
    streams[1].sender.reset(7)
    streams[2].sender.reset(7)
    assert order.controls
    streams[1].sender.get_reset_frame()
    assert order.controls
    begun(owner)
    streams[2].sender.get_reset_frame()
    assert not order.controls
    streams[1].sender.on_reset_delivery(QuicDeliveryState.LOST)
    assert order.controls
    order.clear()
    assert not order.controls


def test_streams_with_more_to_send_go_to_the_end_and_others_leave() -> None:
    owner = Owner()
    for number, size in ((2, 3), (6, 1), (10, 2)):
        owner.stream(number, bytes(size))
    order = begun(owner)
    assert served(order) == [2, 6, 10]
    assert served(order) == [2, 10]
    assert served(order) == [2]
    assert served(order) == []
    assert not len(order)
    assert not any(stream.queued for stream in owner.streams.values())


def test_a_packet_that_is_full_asks_nobody() -> None:
    owner = Owner()
    owner.stream(2)
    order = begun(owner)
    assert order.take(DATA_OVERHEAD - 1) is None
    assert len(order) == 1
    assert order.take(DATA_OVERHEAD) is owner.streams[2]


def test_what_fits_no_packet_piece_by_piece_waits_for_the_next_one() -> None:
    owner = Owner()
    owner.stream(2).sender.reset(0)
    order = begun(owner)
    assert order.take(CONTROL_SIZE - 1) is None
    assert order.take(CONTROL_SIZE) is owner.streams[2]


@pytest.mark.parametrize(("flight", "asks"), [(None, True), (LEAST_FLIGHT, True), (63, False)])
def test_a_flight_without_room_asks_nobody(flight: int | None, asks: bool) -> None:
    owner = Owner()
    owner.stream(2)
    order = begun(owner, flight)
    assert bool(order) is asks
    assert list(order) == ([owner.streams[2]] if asks else [])


def test_a_stream_that_its_peer_takes_nothing_of_is_parked_until_it_is_woken() -> None:
    owner = Owner()
    stream = owner.stream(2, b"data", limit=2)
    order = begun(owner)
    assert served(order, most=10) == [2]
    assert served(order) == []
    stream.max_stream_data_remote = 4
    owner.wake(2)
    order.replaced()
    assert served(order) == [2]


def test_streams_that_lack_credit_of_the_connection_starve_until_they_are_fed() -> None:
    owner = Owner()
    owner.stream(2)
    owner.stream(6)
    owner.out_of_credit = True
    order = begun(owner)
    assert served(order) == [2, 6]
    assert served(order) == []
    assert list(order.starved) == [2, 6]
    owner.out_of_credit = False
    order.feed()
    order.feed()
    order.replaced()
    assert served(order) == [2, 6]


def test_a_packet_asks_each_stream_once() -> None:
    owner = Owner()
    owner.stream(2, bytes(100))
    order = begun(owner)
    assert served(order) == [2]


def test_what_is_cleared_may_be_added_anew() -> None:
    owner = Owner()
    stream = owner.stream(2)
    owner.order.clear()
    assert not len(owner.order)
    owner.order.add(stream)
    owner.order.add(stream)
    assert len(owner.order) == 1


def test_aioquic_walks_it_once_for_each_packet() -> None:
    owner = Owner()
    owner.stream(2)
    owner.stream(6)
    order = begun(owner)
    assert [stream.number for stream in order] == [2, 6]
    assert list(order) == []
    order.replaced()
    assert [stream.number for stream in order] == [2, 6]


def test_a_thousand_streams_are_visited_about_once_for_what_each_sends() -> None:
    """Not once for each packet."""
    wire = Wire(settings=LinkSettings())
    wire.connect()
    order: Any = wire.client.link._quic._order
    visits = 0
    take = order.take

    def counted(room: int) -> Stream | None:
        nonlocal visits
        stream: Stream | None = take(room)
        visits += stream is not None
        return stream

    order.take = counted
    probe = wire.client.probe
    for _ in range(1_000):
        probe.write(probe.open(), bytes(100), end=True)
    wire.run(lambda: len(wire.server.probe.ended) == 1_000)
    assert visits < 1_200
