"""An object that is larger than we take is a fault of its media alone: a peer cannot know what we
take."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.engine.inputs import Datagram, StreamBytes
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.events import EndReason, Fragments, TransactionEnded
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.wire.codec import encode
from aqueduct_core.quicr.wire.datagrams import encode_header
from aqueduct_core.quicr.wire.messages import FinMessage, PostMessage, StartPointMessage
from tests.core.quicr.ends import Pair, media, queue_of
from tests.core.quicr.raw import Raw
from tests.support.rules import rule

MOST = QuicrConfig(max_object=1_000)
POST = encode(PostMessage(b"m", True))
ENDED = TransactionEnded(0, EndReason.TOO_LARGE, object=Position(0, 1))
SMALL = Fragment(0, 0, 0, b"small", True)
BEGUN = Fragment(0, 1, 0, bytes(600), False)
LARGE = Fragment(0, 1, 600, bytes(401), True)
LARGER = Fragment(0, 1, 600, bytes(4_000), True)


def posted(*, datagram: bool = False) -> Raw:
    """A server to which a media is posted on stream 0."""
    raw = Raw(config=MOST)
    raw.handle(StreamBytes(0, POST, False))
    raw.engine.accept(0, datagram=datagram, now=0.0)
    raw.turn()
    return raw


def send(raw: Raw, *messages: Any, end: bool = False) -> list[Any]:
    return raw.handle(StreamBytes(0, b"".join(map(encode, messages)), end))


def arrive(raw: Raw, *fragments: Fragment) -> list[Any]:
    return raw.handle(*(Datagram(encode_header(0, each) + each.data) for each in fragments))


@rule("Q-6", "Q-7", "Q-12")
@pytest.mark.parametrize("together", [False, True])
def test_a_media_on_a_stream_ends_with_it_and_is_told_with_its_object(together: bool) -> None:
    """Reset, as a FIN says to a poster that has sent all that we have it. What was there before is
    told."""
    raw = posted()
    if together:
        events = send(raw, SMALL, BEGUN, LARGE)
    else:
        send(raw, SMALL)
        events = [*send(raw, BEGUN), *send(raw, LARGE)]
    assert raw.resets == {0}
    assert raw.closed is None
    assert [event for event in events if not isinstance(event, Fragments)] == [ENDED]
    told = [
        each for event in raw.events if isinstance(event, Fragments) for each in event.fragments
    ]
    assert told == [SMALL, BEGUN]


@rule("Q-12")
def test_an_object_may_have_as_many_bytes_as_are_allowed() -> None:
    for datagram in (False, True):
        raw = posted(datagram=datagram)
        fitting = LARGE._replace(data=bytes(400))
        whole = arrive(raw, BEGUN, fitting) if datagram else send(raw, SMALL, BEGUN, fitting)
        assert [type(event) for event in whole] == [Fragments]
        assert not raw.resets


@rule("Q-9", "Q-10", "Q-12")
def test_a_media_in_datagrams_ends_with_it_and_what_comes_late_is_ignored() -> None:
    raw = posted(datagram=True)
    events = arrive(raw, SMALL, LARGE, BEGUN)
    assert [type(event) for event in events] == [Fragments, TransactionEnded]
    assert [each.position for each in events[0].fragments] == [SMALL.position]
    assert events[1] == ENDED
    assert arrive(raw, SMALL, LARGER) == []
    assert raw.resets == {0}
    assert raw.closed is None


@rule("Q-6")
def test_what_is_left_of_its_stream_is_consumed_and_forgotten() -> None:
    """Whatever it is: messages, a part of one, and the end; nothing stays, and all credit goes
    back."""
    raw = posted()
    before = raw.engine.footprint.waiting
    send(raw, SMALL, BEGUN, LARGER, StartPointMessage(Position(3, 3)), FinMessage(Position(9, 9)))
    (told,) = [event for event in raw.events if isinstance(event, Fragments)]
    raw.engine.consumed(0, told.size, 0.0)
    raw.turn()
    rest = encode(LARGER)
    size = raw.consumed
    for _ in range(100):
        assert send(raw, LARGER) == []
        raw.handle(StreamBytes(0, rest[:1_000], False))
    assert raw.consumed - size == 100 * (len(rest) + 1_000)
    assert raw.engine.footprint.waiting <= before
    send(raw, end=True)
    assert raw.closed is None
    assert raw.engine.footprint.waiting == 0


@rule("Q-6")
def test_the_beginning_of_a_message_behind_it_is_forgotten_with_it() -> None:
    raw = posted()
    behind = encode(LARGER)[:3_000]
    raw.handle(StreamBytes(0, b"".join(map(encode, (SMALL, BEGUN, LARGE))) + behind, False))
    (told,) = [event for event in raw.events if isinstance(event, Fragments)]
    raw.engine.consumed(0, told.size, 0.0)
    raw.turn()
    assert raw.consumed == len(POST) + sum(map(len, map(encode, (SMALL, BEGUN, LARGE)))) + 3_000


@rule("Q-5", "Q-11")
def test_bytes_that_are_no_media_close_the_connection_all_the_same() -> None:
    """A gap before that object, and an id that nobody gave out."""
    raw = posted()
    send(raw, SMALL, LARGER)
    assert raw.closed is not None
    assert "byte 600 of object (0, 1) comes where" in raw.closed.reason
    raw = posted(datagram=True)
    raw.handle(Datagram(encode_header(7, LARGER) + LARGER.data))
    assert raw.closed is not None
    assert "stream id 7, which was not given out" in raw.closed.reason


@rule("Q-6", "Q-7")
@pytest.mark.parametrize("datagram", [False, True])
def test_other_media_of_the_connection_go_on(datagram: bool) -> None:
    """One that is requested, and one that is posted."""
    pair = Pair(config=QuicrConfig(max_object=100_000), datagram=datagram)
    good, bad = media(3, 2, size=50_000), media(2, size=99_999)
    pair.server.serves = {b"good": queue_of(good), b"bad": queue_of(bad)}
    gets = [pair.client.engine.request(u, datagram=datagram, now=0.0) for u in (b"bad", b"good")]
    posts = [
        pair.client.engine.post(u, queue_of(objects), datagram=datagram, now=0.0)
        for u, objects in ((b"bad", bad), (b"good", good))
    ]
    pair.client.end.kick()
    pair.finish(*gets, *posts)
    ends = {stream: pair.client.of(stream).ended for stream in (*gets, *posts)}
    too_large = Position(0, 1)
    assert ends[gets[0]] == TransactionEnded(gets[0], EndReason.TOO_LARGE, object=too_large)
    assert ends[posts[0]] == TransactionEnded(posts[0], EndReason.CANCELLED, by_peer=True)
    assert pair.server.of(posts[0]).ended == TransactionEnded(
        posts[0], EndReason.TOO_LARGE, object=too_large
    )
    for stream in (gets[1], posts[1]):
        assert ends[stream] == TransactionEnded(stream, EndReason.COMPLETE)
    assert pair.client.of(gets[1]).objects == pair.server.of(posts[1]).objects == good
    assert pair.client.engine.closed is None
    pair.link.run_for(1.0)
    assert pair.client.engine.footprint.waiting == pair.server.engine.footprint.waiting == 0
