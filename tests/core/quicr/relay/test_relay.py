"""An origin, and relays between it and clients, on links in memory."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.quicr.events import EndReason, FinalPoint, Notified, TransactionEnded
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_core.transport.in_memory.network import MemoryNetwork
from tests.core.quicr.ends import Objects, media
from tests.core.quicr.relay.stations import Client, Station
from tests.support.rules import rule

MEDIA = media(3, 4, 1, size=2_000)


def payloads(objects: Objects) -> dict[Position, bytes]:
    return {position: objects[position][1] for position in sorted(objects)}


def origin(config: RelayConfig | None = None, **link: Any) -> Station:
    return Station(MemoryNetwork(), config, **link)


def urls(client: Client, stream: int) -> list[bytes]:
    return [e.url for e in client.told(Notified) if e.stream == stream]


@rule("Q-17", "Q-18", "Q-26")
@pytest.mark.parametrize("posted", [False, True])
@pytest.mark.parametrize("read", [False, True])
def test_what_is_posted_is_read(posted: bool, read: bool) -> None:
    """Streams and datagrams, in any mixture."""
    station = origin()
    publisher, reader = station.client(), station.client()
    post = publisher.post(b"a", MEDIA, datagram=posted)
    get = reader.get(b"a", datagram=read)
    station.network.run_until(lambda: publisher.over(post) and reader.over(get))
    assert reader.got(get).payloads == payloads(MEDIA)
    assert reader.got(get).final == (2, 1)
    assert publisher.of(post).ended == TransactionEnded(post, EndReason.COMPLETE)
    (counts,) = station.relay.counts()
    assert (counts.url, counts.objects, counts.final) == (b"a", 8, True)
    assert counts.bytes == sum(map(len, payloads(MEDIA).values()))


@rule("Q-14", "Q-21")
def test_a_post_meets_readers_that_wait() -> None:
    station = origin()
    readers = [station.client(), station.client()]
    gets = [reader.get(b"a", datagram=bool(at)) for at, reader in enumerate(readers)]
    station.network.run_for(5.0)
    assert [reader.got(get).objects for reader, get in zip(readers, gets, strict=True)] == [{}, {}]
    publisher = station.client()
    publisher.post(b"a", MEDIA)
    station.network.run_until(lambda: all(map(Client.over, readers, gets)))
    for reader, get in zip(readers, gets, strict=True):
        assert reader.got(get).payloads == payloads(MEDIA)


@rule("Q-21")
def test_a_second_post_of_a_url_attaches_to_the_first() -> None:
    """One publisher goes, another one brings the same and what follows."""
    station = origin()
    first, second, reader = (station.client() for _ in range(3))
    get = reader.get(b"a")
    begun = {p: o for p, o in MEDIA.items() if p < (1, 2)}
    first.post(b"a", begun, finished=False)
    station.network.run_for(1.0)
    assert len(reader.got(get).objects) == 5
    first.link.lose()
    post = second.post(b"a", MEDIA)
    station.network.run_until(lambda: second.over(post) and reader.over(get))
    assert reader.got(get).payloads == payloads(MEDIA)
    assert station.relay.counts()[0].repeats >= 5


def test_a_post_of_what_is_at_its_end_is_another_media() -> None:
    """Its readers go on; who comes later reads the new one."""
    station = origin()
    first, second = station.client(), station.client()
    early, late = station.client(rate=20_000.0, delay=0.05), station.client()
    get = early.get(b"a")
    old, new = media(2, size=20_000), media(3, size=500)
    first.post(b"a", old)
    station.network.run_for(0.5)
    post = second.post(b"a", new)
    station.network.run_for(0.1)
    again = late.get(b"a")
    station.network.run_until(lambda: early.over(get) and late.over(again))
    assert second.of(post).ended == TransactionEnded(post, EndReason.COMPLETE)
    assert early.got(get).payloads == payloads(old)
    assert late.got(again).payloads == payloads(new)
    station.network.run_for(11.0)
    assert station.relay.memory == 0


@rule("Q-16", "Q-29")
def test_a_late_joiner_gets_what_the_cache_holds() -> None:
    station = origin(RelayConfig(lifetime=100.0))
    publisher = station.client()
    post = publisher.post(b"a", media(3), finished=False)
    station.network.run_for(60.0)
    publisher.append(post, Position(1, 0), b"the second group")
    station.network.run_for(60.0)
    readers = [station.client(), station.client()]
    gets = [reader.get(b"a", datagram=bool(at)) for at, reader in enumerate(readers)]
    station.network.run_for(1.0)
    publisher.append(post, Position(1, 1), b"live")
    publisher.finish(post)
    station.network.run_until(lambda: all(map(Client.over, readers, gets)))
    for reader, get in zip(readers, gets, strict=True):
        assert list(reader.got(get).objects) == [(1, 0), (1, 1)]
        assert reader.got(get).start == (1, 0)


@rule("Q-29")
def test_a_media_goes_ten_seconds_after_its_last_reader_had_it() -> None:
    """After that its URL is unknown."""
    station = origin()
    publisher, reader = station.client(), station.client()
    publisher.post(b"a", MEDIA)
    get = reader.get(b"a")
    station.network.run_until(lambda: reader.over(get))
    station.network.run_for(9.0)
    again = reader.get(b"a")
    station.network.run_until(lambda: reader.over(again))
    station.network.run_for(9.0)
    assert len(station.relay.counts()) == 1
    station.network.run_for(2.0)
    assert station.relay.counts() == []
    assert station.relay.memory == 0
    late = reader.get(b"a")
    station.network.run_for(5.0)
    assert reader.got(late).objects == {}


@rule("Q-29", "K-1")
def test_a_media_that_nobody_reads_stays_as_long_as_its_objects() -> None:
    station = origin()
    publisher = station.client()
    post = publisher.post(b"a", MEDIA)
    station.network.run_until(lambda: publisher.over(post))
    station.network.run_for(119.0)
    assert len(station.relay.counts()) == 1
    station.network.run_for(15.0)
    assert station.relay.counts() == []
    assert station.relay.wake_at is None


def test_a_url_that_was_only_asked_for_is_forgotten() -> None:
    station = origin()
    reader = station.client()
    get = reader.get(b"a")
    station.network.run_for(100.0)
    assert len(station.relay.counts()) == 1
    reader.cancel(get)
    station.network.run_for(11.0)
    assert station.relay.counts() == []


@rule("Q-29", "Q-30")
def test_readers_wait_for_a_repost_and_then_have_what_came() -> None:
    """Thirty seconds; then a hole stands for what would have followed."""
    station = origin()
    publisher, reader = station.client(), station.client()
    get = reader.get(b"a", datagram=True)
    post = publisher.post(b"a", media(3), finished=False)
    station.network.run_for(1.0)
    publisher.link.lose()
    station.network.run_for(29.0)
    assert not reader.told(FinalPoint)
    assert len(reader.got(get).objects) == 3
    station.network.run_until(lambda: reader.over(get), limit=5.0)
    assert reader.got(get).final == (0, 4)
    assert reader.got(get).objects.pop(Position(0, 3)) == (0xFF, b"")
    assert payloads(reader.got(get).objects) == payloads(media(3))
    assert post == 0


@rule("Q-6", "Q-21", "Q-30")
@pytest.mark.parametrize("datagram", [False, True])
def test_a_post_that_its_publisher_cancels_is_no_end(datagram: bool) -> None:
    """Its stream ends without a final point, maybe behind a whole object: readers wait whether
    somebody posts on. If not, a hole says that there may have been more."""
    station = origin()
    publisher, second, reader = (station.client() for _ in range(3))
    get, lost = reader.get(b"a", datagram=not datagram), reader.get(b"b", datagram=datagram)
    begun = {p: o for p, o in MEDIA.items() if p < (1, 2)}
    for url in (b"a", b"b"):
        post = publisher.post(url, begun, datagram=datagram, finished=False)
        station.network.run_for(1.0)
        publisher.cancel(post)
        station.network.run_for(1.0)
        assert publisher.of(post).ended == TransactionEnded(post, EndReason.CANCELLED)
    again = second.post(b"a", MEDIA, datagram=datagram)
    station.network.run_until(lambda: reader.over(get) and second.over(again))
    assert reader.got(get).payloads == payloads(MEDIA)
    assert not reader.over(lost)
    station.network.run_until(lambda: reader.over(lost))
    assert reader.got(lost).objects.pop(Position(1, 2)) == (0xFF, b"")
    assert reader.got(lost).payloads == payloads(begun)


def test_a_reader_in_the_middle_of_what_never_comes_whole_is_cut_off() -> None:
    station = origin()
    publisher, reader = station.client(rate=20_000.0, delay=0.05), station.client()
    get = reader.get(b"a")
    publisher.post(b"a", media(2, size=60_000), finished=False)
    station.network.run_for(4.0)
    assert list(reader.got(get).objects) == [(0, 0)]
    publisher.link.lose()
    station.network.run_until(lambda: reader.over(get))
    assert reader.of(get).ended == TransactionEnded(get, EndReason.CANCELLED, by_peer=True)
    again = reader.get(b"a")
    station.network.run_until(lambda: reader.over(again))
    assert list(reader.got(again).objects) == [(0, 0), (0, 1)]
    assert reader.got(again).objects[Position(0, 1)] == (0xFF, b"")


def test_a_stopped_reader_costs_nobody_else_anything() -> None:
    station = origin(RelayConfig(memory=1 << 20))
    publisher, reader = station.client(), station.client()
    stopped = station.client(stream_window=1 << 16)
    stopped.credit = False
    gets = [reader.get(b"a"), stopped.get(b"a")]
    post = publisher.post(b"a", {}, finished=False)
    for number in range(3_000):
        publisher.append(post, Position(0, number), bytes(2_000))
        station.network.run_for(0.01)
        assert station.relay.memory <= 1 << 20
    publisher.finish(post)
    station.network.run_until(lambda: reader.over(gets[0]) and publisher.over(post))
    assert len(reader.got(gets[0]).objects) == 3_000
    assert len(stopped.got(gets[1]).objects) < 100
    station.network.run_for(0.1)
    (counts,) = station.relay.counts()
    assert (counts.readers, counts.given_up) == (1, 0)
    end = station.connections[2].server
    assert end.unsent < 2 << 20


@rule("Q-36")
def test_a_reader_that_goes_on_has_a_hole_for_all_that_has_gone() -> None:
    station = origin(RelayConfig(memory=1 << 18))
    publisher, reader = station.client(), station.client(stream_window=1 << 15)
    reader.credit = False
    get = reader.get(b"a")
    objects = media(*[10] * 40, size=2_000)
    post = publisher.post(b"a", {}, finished=False)
    for position, (_, payload) in objects.items():
        publisher.append(post, position, payload)
        station.network.run_for(0.1)
    publisher.finish(post)
    station.network.run_for(1.0)
    before = len(reader.got(get).objects)
    assert 10 < before < 40
    reader.credit = True
    reader.engine.consumed(get, 1 << 30, reader.now)
    reader.end.kick()
    station.network.run_until(lambda: reader.over(get))
    received = reader.got(get)
    assert received.ended == TransactionEnded(get, EndReason.COMPLETE)
    assert set(received.objects) == set(objects)
    holes = [p for p, (flags, _) in received.objects.items() if flags == 0xFF]
    assert len(holes) > 40
    assert station.relay.counts()[0].missed == len(holes)
    assert all(
        objects[position] == received.objects[position]
        for position, (flags, _) in received.objects.items()
        if flags != 0xFF
    )


# subscriptions


@rule("Q-22", "Q-25")
def test_a_subscriber_hears_of_what_there_is_newest_first_and_of_what_comes() -> None:
    """Of each URL with its prefix, once."""
    station = origin()
    publisher, watcher = station.client(), station.client()
    for url in (b"cam/1", b"mic/1", b"cam/2"):
        publisher.post(url, {}, finished=False)
        station.network.run_for(0.1)
    watch, everything = watcher.watch(b"cam/"), watcher.watch(b"")
    station.network.run_for(0.1)
    publisher.post(b"cam/3", {}, finished=False)
    publisher.post(b"cam/1", {}, finished=False)
    station.network.run_for(0.1)
    assert urls(watcher, watch) == [b"cam/2", b"cam/1", b"cam/3"]
    assert urls(watcher, everything) == [b"cam/2", b"mic/1", b"cam/1", b"cam/3"]
    watcher.cancel(watch)
    station.network.run_for(0.1)
    publisher.post(b"cam/4", {}, finished=False)
    station.network.run_for(0.1)
    assert urls(watcher, watch) == [b"cam/2", b"cam/1", b"cam/3"]
    assert urls(watcher, everything)[-1] == b"cam/4"


@rule("Q-23")
def test_a_url_that_is_only_asked_for_is_told_to_nobody() -> None:
    """Unlike in the prototype."""
    station = origin()
    reader, watcher = station.client(), station.client()
    watch = watcher.watch(b"")
    reader.get(b"nosuch")
    station.network.run_for(1.0)
    assert urls(watcher, watch) == []


# bounds


def test_more_urls_than_allowed_are_refused() -> None:
    station = origin(RelayConfig(max_media=3))
    publisher = station.client()
    posts = [publisher.post(b"%d" % number, {}, finished=False) for number in range(4)]
    station.network.run_for(1.0)
    assert [publisher.over(post) for post in posts] == [False, False, False, True]
    assert station.relay.refused == 1


def test_one_connection_cannot_wait_for_all_urls() -> None:
    station = origin(RelayConfig(max_waiting=5))
    greedy, good, publisher = (station.client() for _ in range(3))
    gets = [greedy.get(b"%d" % number) for number in range(8)]
    station.network.run_for(1.0)
    assert sum(map(greedy.over, gets)) == 3
    publisher.post(b"0", MEDIA)
    own = good.get(b"0")
    station.network.run_until(lambda: good.over(own))
    # what has come is not waited for any more
    more = [greedy.get(b"new"), greedy.get(b"another")]
    station.network.run_for(1.0)
    assert list(map(greedy.over, more)) == [False, True]


def test_more_subscriptions_of_a_connection_than_allowed_are_refused() -> None:
    station = origin(RelayConfig(max_subscriptions=2))
    client = station.client()
    watches = [client.watch(b"%d" % number) for number in range(3)]
    station.network.run_for(1.0)
    assert list(map(client.over, watches)) == [False, False, True]
    client.cancel(watches[0])
    station.network.run_for(1.0)
    another = client.watch(b"")
    station.network.run_for(1.0)
    assert not client.over(another)


def test_a_url_that_nobody_uses_gives_way_to_a_new_one() -> None:
    station = origin(RelayConfig(max_media=2))
    publisher, reader = station.client(), station.client()
    publisher.post(b"old", MEDIA)
    publisher.post(b"live", MEDIA, finished=False)
    station.network.run_for(1.0)
    publisher.post(b"new", MEDIA, finished=False)
    station.network.run_for(1.0)
    assert [counts.url for counts in station.relay.counts()] == [b"live", b"new"]
    get = reader.get(b"another")
    station.network.run_for(1.0)
    assert reader.over(get)


def test_more_posts_of_a_connection_than_allowed_are_refused() -> None:
    station = origin(RelayConfig(max_posts=2))
    publisher = station.client()
    posts = [publisher.post(b"%d" % number, {}, finished=False) for number in range(3)]
    station.network.run_for(1.0)
    assert list(map(publisher.over, posts)) == [False, False, True]


def test_a_post_that_brought_nothing_leaves_readers_waiting() -> None:
    station = origin()
    publisher, reader = station.client(), station.client()
    get = reader.get(b"a")
    publisher.cancel(publisher.post(b"a", {}, finished=False))
    station.network.run_for(60.0)
    assert not reader.over(get)
    assert not reader.told(FinalPoint)
    publisher.post(b"a", MEDIA)
    station.network.run_until(lambda: reader.over(get))
    assert reader.got(get).payloads == payloads(MEDIA)
