"""Messages that are longer than flow control allows at once."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.inputs import StreamBytes
from aqueduct_core.quicr.events import EndReason, TransactionEnded
from aqueduct_core.quicr.stream_credit import StreamCredits
from tests.core.quicr.ends import Pair, media, queue_of
from tests.core.quicr.raw import Raw, message, url
from tests.support.rules import rule

LARGE = media(2, 3, size=150_000)


def test_each_byte_is_credited_once() -> None:
    given: list[tuple[int, int]] = []
    credit = StreamCredits(lambda stream, size: given.append((stream, size)))
    credit.advance(4, 300)
    credit.advance(4, 1_000)
    assert given == [(4, 300), (4, 700)]
    credit.hold(4, 1_200)  # the message is whole
    credit.advance(4, 50)  # of the next one: the application has the first
    assert len(given) == 2
    credit.release(4, 1_200)
    credit.advance(4, 50)
    credit.consume(4, 60)
    credit.consume(8, 7)
    assert given[2:] == [(4, 200), (4, 50), (4, 10), (8, 7)]


@rule("Q-3")
@pytest.mark.parametrize("window", [1_200, 5_000, 66_000])
@pytest.mark.parametrize("posted", [False, True])
def test_a_message_may_be_longer_than_the_window_of_its_stream(window: int, posted: bool) -> None:
    pair = Pair(stream_window=window, cut=0.3, seed=3)
    if posted:
        stream = pair.client.engine.post(b"a", queue_of(LARGE), datagram=False, now=0)
        receiver = pair.server
    else:
        pair.server.serves[b"a"] = queue_of(LARGE)
        stream = pair.client.engine.request(b"a", datagram=False, now=0)
        receiver = pair.client
    pair.finish(stream)
    assert receiver.of(stream).objects == LARGE
    assert receiver.of(stream).ended == TransactionEnded(stream, EndReason.COMPLETE)


def test_messages_of_many_streams_share_a_window_that_holds_none_of_them() -> None:
    pair = Pair(connection_window=20_000, cut=0.3, seed=3)
    objects = media(1, size=70_000)
    streams = []
    for number in range(6):
        pair.server.serves[b"%d" % number] = queue_of(objects)
        streams.append(pair.client.engine.request(b"%d" % number, datagram=False, now=0))
    pair.finish(*streams)
    assert all(pair.client.of(stream).objects == objects for stream in streams)


def test_who_takes_nothing_gets_the_window_and_one_message_more() -> None:
    pair = Pair(stream_window=50_000)
    pair.client.credit = False
    pair.server.serves[b"a"] = queue_of(media(20, size=60_000))
    pair.client.engine.request(b"a", datagram=False, now=0)
    pair.link.run_for(60)
    assert 10_000 < pair.link.server.consumed <= 60_100
    assert list(pair.client.of(0).objects) == [(0, 0)]


def test_what_is_pending_is_credited_once_whatever_becomes_of_it() -> None:
    """Also of a stream that the peer cuts, and not at all before it is asked for."""
    post = message(f"06 {url('a')} 00")
    cut = message("05 00 00 01 00 43e8" + "61" * 1_000)[:-20]
    raw = Raw()
    raw.stream(0, cut[:40])  # what a stream begins with is short
    assert raw.consumed == 0
    raw = Raw()
    raw.stream(0, post)
    raw.engine.accept(0, datagram=False, now=raw.now)
    for part in (cut[:100], cut[100:]):
        raw.stream(0, part)
    assert raw.consumed == len(post + cut) // 2
    raw.engine.cancel(0, raw.now)
    raw.handle(StreamBytes(0, b"61", True))
    assert raw.consumed == len(post + cut) // 2 + 2
