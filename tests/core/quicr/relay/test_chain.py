"""Publishers and readers at relays of one origin, on links in memory."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from aqueduct_core.quicr.events import EndReason, Notified, TransactionEnded
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_core.quicr.relay.upstream import RETRY, Aim, FailedAim, Purpose
from aqueduct_core.transport.in_memory.network import MemoryNetwork
from tests.core.quicr.ends import Objects, media
from tests.core.quicr.relay.stations import Client, Station
from tests.support.rules import rule

MEDIA = media(3, 4, 1, 5, size=2_000, flags=0x81)


class Chain:
    """publisher - entry - origin - exit - readers; ``entry`` and ``exit`` are relays."""

    def __init__(self, *, config: RelayConfig | None = None, **link: Any) -> None:
        self.network = MemoryNetwork()
        self.origin = Station(self.network)
        self.entry = Station(self.network, config, upstream=self.origin, number=1, **link)
        self.exit = Station(self.network, config, upstream=self.origin, number=2, **link)

    @property
    def stations(self) -> tuple[Station, Station, Station]:
        return self.entry, self.origin, self.exit

    def run_until_over(self, client: Client, *streams: int, limit: float = 60.0) -> None:
        self.network.run_until(lambda: client.over(*streams), limit)


def same(client: Client, stream: int, objects: Objects) -> None:
    """Byte for byte, with flags, and nothing else."""
    received = client.got(stream)
    assert received.ended == TransactionEnded(stream, EndReason.COMPLETE)
    assert {p: received.objects[p] for p in sorted(received.objects)} == objects
    assert received.final == max(objects).following


CLIENTS = 4
POSTS = 260
PREFIXES = 20
"""What the clients of one relay have together."""

MODES = list(itertools.product([False, True], repeat=4))


@rule("Q-21", "Q-26")
@pytest.mark.parametrize(("posted", "entry", "leaves", "read"), MODES)
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_two_relays_of_any_modes(
    posted: bool, entry: bool, leaves: bool, read: bool, loss: float
) -> None:
    """From streams to datagrams and back, with loss and reordering."""
    network = MemoryNetwork()
    bad = {"loss": loss, "jitter": 0.05 if loss else 0.0, "duplicate": loss, "cut": 0.2}
    origin = Station(network)
    first = Station(network, RelayConfig(upstream_datagram=entry), upstream=origin, **bad)
    last = Station(network, RelayConfig(upstream_datagram=leaves), upstream=origin, **bad)
    publisher, reader = first.client(**bad), last.client(**bad)
    get = reader.get(b"a", datagram=read)
    post = publisher.post(b"a", MEDIA, datagram=posted)
    network.run_until(lambda: reader.over(get) and publisher.over(post))
    same(reader, get, MEDIA)
    late = last.client(**bad)
    again = late.get(b"a", datagram=not read)
    network.run_until(lambda: late.over(again))
    same(late, again, MEDIA)
    network.run_for(300.0)
    for station in (first, origin, last):
        assert station.relay.counts() == []
        assert station.relay.memory == 0


@rule("Q-26")
def test_a_relay_dials_when_somebody_needs_it() -> None:
    chain = Chain()
    reader = chain.exit.client()
    chain.network.run_for(5.0)
    assert chain.exit.dials == 0
    reader.get(b"a")
    chain.network.run_for(5.0)
    assert (chain.exit.dials, chain.entry.dials) == (1, 0)


def test_a_reader_is_one_request_upstream_and_is_cancelled_with_the_last() -> None:
    chain = Chain()
    publisher = chain.origin.client()
    publisher.post(b"a", MEDIA, finished=False)
    readers = [chain.exit.client() for _ in range(3)]
    gets = [reader.get(b"a") for reader in readers]
    chain.network.run_for(1.0)
    assert chain.origin.relay.counts()[0].readers == 1
    assert chain.exit.relay.counts()[0].readers == 3
    for reader, get in zip(readers, gets, strict=True):
        reader.cancel(get)
    chain.network.run_for(9.0)
    assert chain.origin.relay.counts()[0].readers == 1
    chain.network.run_for(2.0)
    assert chain.origin.relay.counts()[0].readers == 0
    assert chain.exit.relay.counts() == []


@rule("Q-21")
def test_what_is_posted_here_is_not_requested_upstream_any_more() -> None:
    chain = Chain()
    reader, publisher = chain.exit.client(), chain.exit.client()
    get = reader.get(b"a")
    chain.network.run_for(1.0)
    assert chain.origin.relay.counts()[0].readers == 1
    post = publisher.post(b"a", MEDIA)
    far = chain.entry.client()
    far_get = far.get(b"a")
    chain.network.run_until(lambda: reader.over(get) and publisher.over(post))
    same(reader, get, MEDIA)
    chain.run_until_over(far, far_get)
    same(far, far_get, MEDIA)
    assert chain.exit.relay.counts()[0].repeats == 0


# subscriptions


def notified(client: Client, stream: int) -> list[bytes]:
    return [event.url for event in client.told(Notified) if event.stream == stream]


@rule("Q-24", "Q-25")
def test_subscriptions_are_forwarded_and_urls_are_told_as_a_set() -> None:
    chain = Chain()
    publisher, other = chain.entry.client(), chain.origin.client()
    watchers = [chain.exit.client() for _ in range(2)]
    watches = [watcher.watch(b"cam/") for watcher in watchers]
    publisher.post(b"cam/1", MEDIA, finished=False)
    other.post(b"cam/1", MEDIA, finished=False)
    other.post(b"mic/1", MEDIA, finished=False)
    chain.network.run_for(1.0)
    late = chain.exit.client()
    late_watch = late.watch(b"cam/")
    other.post(b"cam/2", MEDIA, finished=False)
    chain.network.run_for(1.0)
    for watcher, watch in zip(watchers, watches, strict=True):
        assert notified(watcher, watch) == [b"cam/1", b"cam/2"]
    assert notified(late, late_watch) == [b"cam/1", b"cam/2"]
    assert chain.exit.relay.counts() == []  # nobody reads any of them


@rule("Q-24")
def test_a_relay_that_is_eager_requests_what_it_hears_of() -> None:
    """Q24, as the prototype does."""
    chain = Chain(config=RelayConfig(eager=True))
    publisher, watcher = chain.entry.client(), chain.exit.client()
    watcher.watch(b"")
    publisher.post(b"a", MEDIA)
    chain.network.run_for(5.0)
    (counts,) = chain.exit.relay.counts()
    assert (counts.objects, counts.final) == (len(MEDIA), True)


@rule("K-9")
def test_a_prefix_is_one_subscription_upstream_until_the_last_client_cancels_it() -> None:
    """Unlike in the prototype."""
    chain = Chain()
    publisher = chain.entry.client()
    watchers = [chain.exit.client() for _ in range(2)]
    watches = [watcher.watch(b"cam/") for watcher in watchers]
    chain.network.run_for(1.0)
    for watcher, watch in zip(watchers, watches, strict=True):
        watcher.cancel(watch)
    chain.network.run_for(1.0)
    assert chain.exit.line is not None
    told = len(chain.exit.line.client.events)
    publisher.post(b"cam/1", MEDIA, finished=False)
    chain.network.run_for(1.0)
    assert not [e for e in chain.exit.line.client.events[told:] if isinstance(e, Notified)]


# the upstream is lost


@pytest.mark.parametrize("datagram", [False, True])
def test_readers_notice_nothing_of_an_upstream_that_was_lost_but_a_delay(datagram: bool) -> None:
    chain = Chain(config=RelayConfig(upstream_datagram=datagram))
    publisher, reader, watcher = chain.entry.client(), chain.exit.client(), chain.exit.client()
    get, watch = reader.get(b"a", datagram=not datagram), watcher.watch(b"")
    post = publisher.post(b"a", {}, finished=False)
    for at, (position, (flags, payload)) in enumerate(MEDIA.items()):
        publisher.append(post, position, payload, flags)
        chain.network.run_for(0.5)
        if at in (3, 7):
            (chain.exit if at == 3 else chain.entry).cut()
    publisher.finish(post)
    chain.network.run_until(lambda: reader.over(get) and publisher.over(post))
    same(reader, get, MEDIA)
    publisher.post(b"b", MEDIA, finished=False)
    chain.network.run_for(1.0)
    assert notified(watcher, watch) == [b"a", b"b"]
    assert (chain.exit.dials, chain.entry.dials) == (2, 2)


def test_an_upstream_that_does_not_answer_is_dialled_ever_more_rarely() -> None:
    chain = Chain()
    chain.exit.reachable = False
    reader, publisher = chain.exit.client(), chain.entry.client()
    get = reader.get(b"a")
    chain.network.run_for(60.0)
    assert 6 <= chain.exit.dials <= 14
    post = publisher.post(b"a", MEDIA)
    chain.exit.reachable = True
    chain.network.run_until(lambda: reader.over(get) and publisher.over(post))
    same(reader, get, MEDIA)


def test_what_is_posted_while_the_upstream_is_away_gets_there() -> None:
    chain = Chain()
    chain.entry.reachable = False
    publisher, reader = chain.entry.client(), chain.origin.client()
    get = reader.get(b"a")
    post = publisher.post(b"a", MEDIA)
    chain.run_until_over(publisher, post)
    chain.network.run_for(30.0)
    chain.entry.reachable = True
    chain.run_until_over(reader, get)
    same(reader, get, MEDIA)


def test_what_the_upstream_has_lost_meanwhile_is_told_as_holes() -> None:
    """Its cache keeps objects for a minute; the relay was away for longer."""
    network = MemoryNetwork()
    origin = Station(network, RelayConfig(lifetime=60.0))
    relay = Station(network, upstream=origin)
    publisher, reader = origin.client(), relay.client()
    get = reader.get(b"a", datagram=True)
    objects = media(*[1] * 200)
    post = publisher.post(b"a", {}, finished=False)
    for at, (position, (_, payload)) in enumerate(objects.items()):
        publisher.append(post, position, payload)
        network.run_for(1.0)
        if at == 20:
            relay.reachable = False
            relay.cut()
        if at == 150:
            relay.reachable = True
    publisher.finish(post)
    network.run_until(lambda: reader.over(get))
    received = reader.got(get)
    # nobody knows any more whether the group that was broken off had another object
    assert received.objects.pop(Position(20, 1)) == (0xFF, b"")
    assert set(received.objects) == set(objects)
    holes = [p for p, (flags, _) in sorted(received.objects.items()) if flags == 0xFF]
    assert holes[0] == (21, 0)
    assert 60 < len(holes) < 90
    assert holes == [Position(21 + at, 0) for at in range(len(holes))]
    assert all(received.objects[p] == objects[p] for p in objects if p not in holes)


@rule("Q-30")
@pytest.mark.parametrize("datagram", [False, True])
def test_what_the_upstream_has_forgotten_meanwhile_ends_with_a_hole(datagram: bool) -> None:
    """The publisher was at its end while the relay was away, and all who read at the origin had
    it: nobody answers any more. So the readers of the relay, and of one behind it, wait for half
    a minute, and then have what came, and a hole for what did not."""
    network = MemoryNetwork()
    config = RelayConfig(upstream_datagram=datagram)
    origin = Station(network)
    relay = Station(network, config, upstream=origin)
    last = Station(network, config, upstream=relay, number=1)
    publisher, near, far = origin.client(), relay.client(), last.client()
    gets = near.get(b"a", datagram=not datagram), far.get(b"a", datagram=datagram)
    begun = {p: o for p, o in MEDIA.items() if p < (1, 2)}
    post = publisher.post(b"a", begun, finished=False)
    network.run_for(1.0)
    relay.reachable = False
    relay.cut()
    for position, (flags, payload) in MEDIA.items():
        if position not in begun:
            publisher.append(post, position, payload, flags)
    publisher.finish(post)
    other = origin.client()
    whole = other.get(b"a")
    network.run_until(lambda: other.over(whole) and publisher.over(post))
    network.run_for(60.0)
    assert origin.relay.counts() == []
    assert not near.over(gets[0])
    relay.reachable = True
    network.run_until(lambda: near.over(gets[0]) and far.over(gets[1]))
    for reader, get in zip((near, far), gets, strict=True):
        same(reader, get, begun | {Position(1, 2): (0xFF, b"")})
    network.run_for(300.0)
    for station in (origin, relay, last):
        assert station.relay.counts() == []


@pytest.mark.parametrize("datagram", [False, True])
def test_a_media_that_rests_is_not_taken_for_one_that_was_forgotten(datagram: bool) -> None:
    """What comes again, though it is here, says that the upstream has it."""
    chain = Chain(config=RelayConfig(upstream_datagram=datagram))
    publisher, reader = chain.origin.client(), chain.exit.client()
    get = reader.get(b"a")
    begun = {p: o for p, o in MEDIA.items() if p < (1, 2)}
    post = publisher.post(b"a", begun, finished=False)
    chain.network.run_for(1.0)
    chain.exit.cut()
    chain.network.run_for(100.0)
    for position, (flags, payload) in MEDIA.items():
        if position not in begun:
            publisher.append(post, position, payload, flags)
    publisher.finish(post)
    chain.run_until_over(reader, get)
    same(reader, get, MEDIA)


def test_an_origin_that_begins_anew_gets_posts_again() -> None:
    """It has lost everything; the relay that has the media posts it once more."""
    network = MemoryNetwork()
    old, new = Station(network), Station(network)
    relay = Station(network, upstream=old)
    publisher = relay.client()
    post = publisher.post(b"a", {p: o for p, o in MEDIA.items() if p < (3, 0)}, finished=False)
    network.run_for(1.0)
    relay._upstream = new
    relay.cut()
    reader = new.client()
    get = reader.get(b"a")
    for position, (flags, payload) in MEDIA.items():
        if position >= (3, 0):
            publisher.append(post, position, payload, flags)
    publisher.finish(post)
    network.run_until(lambda: reader.over(get) and publisher.over(post))
    same(reader, get, MEDIA)


@rule("Q-34", "Q-36")
def test_flags_decide_at_the_hop_that_is_too_narrow() -> None:
    """The relay gives objects up towards the reader whose path is too narrow, and tells
    holes; the other reader has all."""
    chain = Chain()
    publisher, wide = chain.entry.client(), chain.exit.client()
    narrow = chain.exit.client(rate=20_000.0, delay=0.02)
    gets = wide.get(b"a"), narrow.get(b"a")
    post = publisher.post(b"a", {}, finished=False)
    objects = media(*[10] * 20, size=2_000)
    objects = {p: (0x81 if p.object else 0, data) for p, (_, data) in objects.items()}
    for position, (flags, payload) in objects.items():
        publisher.append(post, position, payload, flags)
        chain.network.run_for(0.04)
    publisher.finish(post)
    chain.run_until_over(wide, gets[0])
    chain.run_until_over(narrow, gets[1])
    same(wide, gets[0], objects)
    received = narrow.got(gets[1])
    assert set(received.objects) == set(objects)
    holes = [p for p, (flags, _) in received.objects.items() if flags == 0xFF]
    assert len(holes) > 20
    assert all(position.object for position in holes)
    assert chain.exit.relay.counts()[0].dropped == len(holes)


def test_a_relay_asks_its_upstream_where_a_post_of_its_own_has_brought_nothing() -> None:
    chain = Chain()
    publisher, failing, reader = chain.entry.client(), chain.exit.client(), chain.exit.client()
    failing.post(b"a", {}, finished=False)
    get = reader.get(b"a")
    chain.network.run_for(1.0)
    failing.link.lose()
    publisher.post(b"a", MEDIA)
    chain.run_until_over(reader, get)
    same(reader, get, MEDIA)


@rule("Q-21", "Q-24")
def test_the_upstream_has_room_for_what_the_clients_of_a_relay_want_together() -> None:
    """Its relay is one connection to it."""
    network = MemoryNetwork()
    origin = Station(network)
    relay = Station(network, upstream=origin, max_streams_bidi=2_000)
    clients = [relay.client(max_streams_bidi=2_000) for _ in range(CLIENTS)]
    for number, client in enumerate(clients):
        for each in range(POSTS // CLIENTS):
            client.post(b"%d/%d" % (number, each), media(1), finished=False)
        for prefix in range(PREFIXES // CLIENTS):
            client.watch(b"%d-%d/" % (number, prefix))
    network.run_for(1.0)
    publisher = origin.client()
    for number in range(CLIENTS):
        for prefix in range(PREFIXES // CLIENTS):
            publisher.post(b"%d-%d/" % (number, prefix), media(1))
    network.run_for(1.0)
    assert relay.relay.take_failed() == []
    assert sum(counts.objects for counts in origin.relay.counts()) == POSTS + PREFIXES
    assert sum(len(client.told(Notified)) for client in clients) == PREFIXES


def test_what_the_upstream_refuses_is_told_and_tried_again() -> None:
    network = MemoryNetwork()
    origin = Station(network, RelayConfig(max_subscriptions=1))
    relay = Station(network, upstream=origin)
    client = relay.client()
    first = client.watch(b"a")
    network.run_for(1.0)
    client.watch(b"b")
    network.run_for(1.0)
    refused = [FailedAim(Aim(Purpose.SUBSCRIBE, b"b"), again=True)]
    assert relay.relay.take_failed() == refused
    network.run_for(RETRY)
    assert relay.relay.take_failed() == refused
    client.cancel(first)
    origin.client().post(b"b", media(1))
    network.run_for(RETRY)
    assert [event.url for event in client.told(Notified)] == [b"b"]
    assert relay.relay.take_failed() == []


def test_what_the_upstream_was_away_for_too_long_to_get_is_told() -> None:
    """The publisher has learned that the relay has it all."""
    network = MemoryNetwork()
    relay = Station(network, upstream=Station(network))
    relay.reachable = False
    client = relay.client()
    post = client.post(b"a", MEDIA)
    network.run_for(100.0)
    assert client.of(post).ended == TransactionEnded(post, EndReason.COMPLETE)
    assert relay.relay.take_failed() == []
    network.run_for(100.0)
    assert relay.relay.counts() == []
    assert relay.relay.take_failed() == [FailedAim(Aim(Purpose.POST, b"a"), again=False)]
