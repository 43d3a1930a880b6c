"""Objects that a relay does not take, as they have more bytes than its memory, or than an engine
takes: posts of them are cancelled, and those of an upstream are holes."""

from __future__ import annotations

import pytest

from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.events import EndReason, TransactionEnded
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_core.quicr.relay.media import TooLargeObject
from aqueduct_core.transport.in_memory.network import MemoryNetwork
from tests.core.quicr.ends import media
from tests.core.quicr.relay.stations import Station
from tests.support.rules import rule

MEDIA = media(3, 4, 1, size=2_000)


@rule("Q-18", "Q-36")
@pytest.mark.parametrize("datagram", [False, True])
@pytest.mark.parametrize("size", [70_000, 300_000])
def test_a_post_of_an_object_that_cannot_be_kept_is_cancelled(datagram: bool, size: int) -> None:
    """As soon as that is known: its end would say that we have it all. Whoever posts it again is
    told the same; to readers the object is a hole. Others are taken."""
    station = Station(MemoryNetwork(), RelayConfig(memory=1 << 16))
    publisher, reader = station.client(), station.client()
    objects = MEDIA | {Position(3, 0): (0, bytes(size)), Position(3, 1): (0, b"behind")}
    get = reader.get(b"a", datagram=datagram)
    for _ in range(2):
        post = publisher.post(b"a", objects, datagram=datagram)
        station.network.run_for(2.0)
        assert publisher.of(post).ended == TransactionEnded(post, EndReason.CANCELLED, by_peer=True)
        assert station.relay.take_too_large() == [
            TooLargeObject(b"a", Position(3, 0), 1 << 16, posted=True)
        ]
    station.network.run_until(lambda: reader.over(get))
    received = reader.got(get)
    assert received.objects[Position(3, 0)] == (0xFF, b"")
    for position, object in received.objects.items():  # a hole: it had to go before that
        assert object in (objects.get(position), (0xFF, b""))
    good = publisher.post(b"b", MEDIA, datagram=datagram)
    station.network.run_until(lambda: publisher.over(good))
    assert publisher.of(good).ended == TransactionEnded(good, EndReason.COMPLETE)
    assert station.relay.memory <= 1 << 16


@rule("Q-18")
def test_a_post_of_an_object_that_an_engine_does_not_take_is_cancelled() -> None:
    station = Station(MemoryNetwork(), engine_config=QuicrConfig(max_object=5_000))
    publisher, reader = station.client(), station.client()
    get = reader.get(b"a")
    post = publisher.post(b"a", MEDIA | {Position(2, 1): (0, bytes(5_001))})
    station.network.run_until(lambda: reader.over(get), limit=60.0)
    assert publisher.of(post).ended == TransactionEnded(post, EndReason.CANCELLED, by_peer=True)
    assert station.relay.take_too_large() == [
        TooLargeObject(b"a", Position(2, 1), None, posted=True)
    ]
    assert reader.got(get).objects.pop(Position(2, 1)) == (0xFF, b"")
    assert reader.got(get).objects == MEDIA


@pytest.mark.parametrize("datagram", [False, True])
def test_an_object_of_the_upstream_that_is_too_large_ends_its_media_here(datagram: bool) -> None:
    """With a hole, as it would end so again: it is not requested once more. Who is in the middle of
    the object is cut off, and gets that hole when he asks again. Other media go on."""
    network = MemoryNetwork()
    first = Station(network)
    config = RelayConfig(upstream_datagram=datagram)
    relay = Station(network, config, upstream=first, engine_config=QuicrConfig(max_object=5_000))
    publisher, reader = first.client(), relay.client()
    bad = {p: o for p, o in MEDIA.items() if p < (2, 0)} | {Position(2, 0): (0, bytes(5_001))}
    publisher.post(b"bad", bad, finished=False)
    live = publisher.post(b"live", MEDIA, finished=False)
    gets = [reader.get(url) for url in (b"bad", b"live")]
    network.run_until(lambda: reader.over(gets[0]), limit=60.0)
    again = reader.get(b"bad")
    network.run_until(lambda: reader.over(again))
    network.run_for(5.0)
    publisher.finish(live)
    network.run_until(lambda: reader.over(gets[1]))
    assert reader.got(gets[1]).objects == MEDIA
    received = reader.got(again).objects
    assert received.pop(max(received)) == (0xFF, b"")
    assert received == {p: o for p, o in bad.items() if p < (2, 0)}
    assert relay.relay.take_too_large() == [
        TooLargeObject(b"bad", Position(2, 0), None, posted=False)
    ]
    assert relay.dials == 1


@pytest.mark.parametrize("datagram", [False, True])
def test_an_object_of_the_upstream_that_cannot_be_kept_is_a_hole(datagram: bool) -> None:
    """Nobody takes our end of a request for a proof, so the media goes on behind it."""
    network = MemoryNetwork()
    first = Station(network)
    config = RelayConfig(memory=1 << 16, upstream_datagram=datagram)
    relay = Station(network, config, upstream=first)
    publisher, reader = first.client(), relay.client()
    large = Position(0, 1)
    objects = media(3) | {large: (0, bytes(70_000))}
    publisher.post(b"a", objects)
    get = reader.get(b"a", datagram=True)
    network.run_until(lambda: reader.over(get))
    assert reader.of(get).ended == TransactionEnded(get, EndReason.COMPLETE)
    received = reader.got(get).objects
    assert received.pop(Position(0, 0)) in (objects[Position(0, 0)], (0xFF, b""))  # had to go
    assert received == {large: (0xFF, b""), Position(0, 2): objects[Position(0, 2)]}
    assert relay.relay.take_too_large() == [TooLargeObject(b"a", large, 1 << 16, posted=False)]
