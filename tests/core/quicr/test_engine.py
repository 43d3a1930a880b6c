"""A connection of QUICR from both ends: media both ways, both modes, and every end there is."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.engine.actions import CloseLink
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.events import (
    EndReason,
    FinalPoint,
    Notified,
    PostAccepted,
    Posted,
    Requested,
    SentOut,
    StartPoint,
    Subscribed,
    TransactionEnded,
)
from aqueduct_core.quicr.faults import MediaError
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.quicr.media.position import BEGIN, Position
from tests.core.quicr.ends import Pair, media, queue_of
from tests.support.rules import rule

URL = b"pymedia"
WAYS = pytest.mark.parametrize("datagram", [False, True], ids=["stream", "datagram"])
PATHS: list[dict[str, Any]] = [
    {},
    {"cut": 0.5, "jitter": 0.03},
    {"loss": 0.2, "duplicate": 0.1, "jitter": 0.05, "cut": 0.3},
    {"rate": 50_000, "queue": 16_000, "loss": 0.05},
]
OVER = pytest.mark.parametrize("path", PATHS, ids=["clean", "cut", "lossy", "slow"])
BIG = media(3, 1, 4, size=2_500)


@WAYS
@OVER
@rule("Q-1", "Q-8", "Q-9", "Q-11", "Q-12", "Q-13")
def test_a_media_is_requested(datagram: bool, path: dict[str, Any]) -> None:
    pair = Pair(seed=7, **path)
    pair.server.serves[URL] = queue_of(BIG)
    stream = pair.client.engine.request(URL, datagram=datagram, now=pair.now)
    pair.finish(stream)
    got = pair.client.of(stream)
    assert got.objects == BIG
    assert (got.final, got.sure) == (Position(2, 4), True)
    assert got.ended == TransactionEnded(stream, EndReason.COMPLETE)
    assert pair.server.of(stream).ended == TransactionEnded(stream, EndReason.COMPLETE)
    assert pair.server.told(Requested) == [Requested(stream, URL, datagram)]


@WAYS
@OVER
@rule("Q-17", "Q-18", "Q-19", "Q-20")
def test_a_media_is_posted(datagram: bool, path: dict[str, Any]) -> None:
    pair = Pair(seed=3, datagram=datagram, **path)
    stream = pair.client.engine.post(URL, queue_of(BIG), datagram=True, now=pair.now)
    pair.finish(stream)
    assert pair.server.of(stream).objects == BIG
    assert pair.client.told(PostAccepted, SentOut, TransactionEnded) == [
        PostAccepted(stream, datagram),
        SentOut(stream),
        TransactionEnded(stream, EndReason.COMPLETE),
    ]
    assert pair.server.told(Posted) == [Posted(stream, URL, True)]


@rule("Q-17")
def test_who_cannot_send_datagrams_is_asked_for_none() -> None:
    pair = Pair(datagram=True, max_datagram_size=0)
    stream = pair.client.engine.post(URL, queue_of(BIG), datagram=True, now=pair.now)
    pair.finish(stream)
    assert pair.server.of(stream).objects == BIG
    assert pair.client.told(PostAccepted) == [PostAccepted(stream, False)]


@WAYS
@rule("Q-19")
def test_a_media_without_objects(datagram: bool) -> None:
    pair = Pair()
    pair.server.serves[URL] = queue_of({})
    stream = pair.client.engine.request(URL, datagram=datagram, now=pair.now)
    pair.finish(stream)
    assert pair.client.told(FinalPoint) == [FinalPoint(stream, BEGIN)]


@WAYS
@rule("Q-15", "Q-19")
def test_a_media_that_starts_later(datagram: bool) -> None:
    objects = {position: entry for position, entry in BIG.items() if position >= (2, 0)}
    objects[Position(2, 4)] = (0, b"more")
    del objects[Position(2, 0)]
    pair = Pair()
    pair.server.serves[URL] = queue_of(objects)
    stream = pair.client.engine.request(URL, datagram=datagram, now=pair.now)
    pair.finish(stream)
    assert pair.client.of(stream).objects == objects
    assert pair.client.told(StartPoint) == [StartPoint(stream, Position(2, 1))]


@WAYS
@rule("Q-8", "Q-9", "Q-14")
def test_objects_come_as_they_are_published(datagram: bool) -> None:
    pair = Pair()
    source = ObjectQueue()
    stream = pair.client.engine.request(URL, datagram=datagram, now=pair.now)
    pair.link.run_for(1)
    assert pair.client.events[1:] == []  # nobody has it yet
    pair.server.engine.serve(stream, source, pair.now)
    for number, payload in enumerate((b"one", b"two", b"three")):
        source.append(Position(0, number), payload, 0, pair.now)
        pair.server.engine.wake(stream, pair.now)
        pair.link.run_for(0.1)
        assert pair.client.of(stream).payloads[Position(0, number)] == payload
    source.finish()
    pair.server.engine.wake(stream, pair.now)
    pair.finish(stream)
    assert pair.client.of(stream).final == (0, 3)


@rule("Q-1", "Q-10")
def test_media_flow_both_ways_at_once_beside_each_other() -> None:
    pair = Pair(datagram=True, jitter=0.02, loss=0.1, seed=5)
    served = {f"down{n}".encode(): media(2, n + 1, size=900 + n) for n in range(6)}
    pair.server.serves = {url: queue_of(objects) for url, objects in served.items()}
    engine = pair.client.engine
    down = {
        url: engine.request(url, datagram=n % 2 == 0, now=pair.now) for n, url in enumerate(served)
    }
    posted = {f"up{n}".encode(): media(n + 1, 3, size=700 + n) for n in range(6)}
    up = {
        url: engine.post(url, queue_of(objects), datagram=n % 3 > 0, now=pair.now)
        for n, (url, objects) in enumerate(posted.items())
    }
    pair.finish(*down.values(), *up.values())
    for url, stream in down.items():
        assert pair.client.of(stream).objects == served[url]
    for url, stream in up.items():
        assert pair.server.of(stream).objects == posted[url]
    assert len({*down.values(), *up.values()}) == 12


@rule("Q-22", "Q-25")
def test_urls_are_notified_once_each() -> None:
    pair = Pair()
    stream = pair.client.engine.subscribe(b"py", pair.now)
    pair.link.run_for(1)
    assert pair.server.told(Subscribed) == [Subscribed(stream, b"py")]
    for url in (b"pymedia", b"python", b"pymedia"):
        pair.server.engine.notify(stream, url, pair.now)
        pair.link.run_for(1)
    assert pair.client.told(Notified) == [
        Notified(stream, b"pymedia"),
        Notified(stream, b"python"),
    ]
    pair.client.engine.cancel(stream, pair.now)
    pair.finish(stream)
    assert pair.client.of(stream).ended == TransactionEnded(stream, EndReason.CANCELLED)
    assert pair.server.of(stream).ended == TransactionEnded(
        stream, EndReason.CANCELLED, by_peer=True
    )


@WAYS
@rule("Q-6", "Q-7")
def test_a_reader_leaves(datagram: bool) -> None:
    pair = Pair(rate=20_000)
    pair.server.serves[URL] = queue_of(media(50, size=5_000), finished=False)
    stream = pair.client.engine.request(URL, datagram=datagram, now=pair.now)
    pair.link.run_until(lambda: len(pair.client.of(stream).objects) > 3)
    pair.client.engine.cancel(stream, pair.now)
    pair.finish(stream)
    assert pair.server.of(stream).ended == TransactionEnded(
        stream, EndReason.CANCELLED, by_peer=True
    )
    seen = len(pair.client.of(stream).objects)
    pair.link.run_for(10)
    assert len(pair.client.of(stream).objects) == seen
    assert not pair.client.engine._transactions
    assert not pair.server.engine._transactions
    assert pair.client.engine.closed is None


@WAYS
@rule("Q-6", "Q-7")
def test_a_publisher_leaves(datagram: bool) -> None:
    pair = Pair(datagram=datagram)
    source = queue_of(media(2), finished=False)
    stream = pair.client.engine.post(URL, source, datagram=True, now=pair.now)
    pair.link.run_for(1)
    pair.client.engine.cancel(stream, pair.now)
    pair.link.run_for(1)
    got = pair.server.of(stream)
    if datagram:
        assert got.ended == TransactionEnded(stream, EndReason.CANCELLED, by_peer=True)
    else:  # a stream that ends between objects may just as well be whole
        assert (got.final, got.sure) == (Position(0, 2), False)
        assert got.ended == TransactionEnded(stream, EndReason.COMPLETE)
    assert not pair.client.engine._transactions
    assert not pair.server.engine._transactions


@rule("Q-17")
def test_a_post_is_refused() -> None:
    pair = Pair()
    pair.server.takes = False
    stream = pair.client.engine.post(URL, queue_of(BIG), datagram=True, now=pair.now)
    pair.link.run_for(1)
    assert pair.client.told(TransactionEnded) == [
        TransactionEnded(stream, EndReason.CANCELLED, by_peer=True)
    ]


@rule("Q-7")
def test_a_request_that_is_cancelled_at_once_brings_nothing() -> None:
    pair = Pair()
    pair.server.serves[URL] = queue_of(BIG)
    stream = pair.client.engine.request(URL, datagram=False, now=pair.now)
    pair.client.engine.cancel(stream, pair.now)
    pair.finish(stream)
    assert pair.client.of(stream).fragments == 0
    assert pair.server.of(stream).ended == TransactionEnded(
        stream, EndReason.CANCELLED, by_peer=True
    )


def test_what_is_over_when_the_connection_is() -> None:
    pair = Pair()
    engine = pair.client.engine
    streams = [
        engine.request(b"a", datagram=True, now=0),
        engine.post(b"b", queue_of(media(2), finished=False), datagram=True, now=0),
        engine.subscribe(b"c", 0),
    ]
    pair.link.run_for(1)
    pair.link.lose()
    pair.link.kick()
    for side in (pair.client, pair.server):
        assert {event.stream for event in side.told(TransactionEnded)} == {*streams}
        assert all(event.reason is EndReason.LOST for event in side.told(TransactionEnded))
        assert isinstance(side.events[-1], LinkLost)
        assert side.engine.wake_at is None
    with pytest.raises(MediaError, match="over"):
        engine.request(b"d", datagram=False, now=0)
    engine.confirm(streams[0], 0)
    engine.cancel(streams[1], 0)
    engine.consumed(streams[0], 10, 0)
    assert engine.actions() == []
    assert engine.events() == []


@rule("Q-5")
def test_a_connection_is_closed_in_good_order_behind_what_is_due() -> None:
    pair = Pair()
    pair.client.engine.subscribe(b"c", 0)
    pair.client.engine.shutdown(0, "done", 0)
    pair.link.run_for(1)
    assert [type(event).__name__ for event in pair.server.events] == [
        "Ready",
        "Subscribed",
        "TransactionEnded",
        "LinkLost",
    ]
    lost = pair.server.events[-1]
    assert (lost.code, lost.reason, lost.by_peer, lost.origin) == (
        0,
        "done",
        True,
        CloseOrigin.APPLICATION,
    )


def test_only_who_has_dialled_begins() -> None:
    server = QuicrEngine(client=False)
    for begin in (
        lambda: server.request(URL, datagram=False, now=0),
        lambda: server.post(URL, queue_of(BIG), datagram=False, now=0),
        lambda: server.subscribe(b"", 0),
    ):
        with pytest.raises(MediaError, match="has dialled"):
            begin()
    client = QuicrEngine(client=True)
    with pytest.raises(MediaError, match="2000 bytes, and 1024"):
        client.request(bytes(2_000), datagram=False, now=0)
    assert client.actions() == []


@rule("Q-15")
def test_a_media_is_not_confirmed_before_its_end_is_known() -> None:
    pair = Pair()
    stream = pair.client.engine.request(URL, datagram=False, now=0)
    with pytest.raises(MediaError, match="final point"):
        pair.client.engine.confirm(stream, 0)


@WAYS
def test_a_pause_stops_streams_and_loses_datagrams(datagram: bool) -> None:
    pair = Pair(stream_window=4_000)
    pair.server.serves[URL] = queue_of(media(40, size=1_000))
    pair.client.engine.pause()
    stream = pair.client.engine.request(URL, datagram=datagram, now=0)
    pair.link.run_for(5)
    assert pair.client.of(stream).fragments == 0
    pair.client.engine.resume(pair.now)
    pair.link.run_for(5)
    assert (pair.client.of(stream).objects == media(40, size=1_000)) is not datagram


def test_the_last_action_closes_the_link() -> None:
    engine = QuicrEngine(client=True)
    engine.shutdown(7, "bye", 0)
    assert engine.actions() == [CloseLink(7, "bye", CloseOrigin.APPLICATION)]
    assert engine.actions() == []
