"""Bytes of streams that nobody reads any more, or that say nothing: nothing is kept of them."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.inputs import Datagram, StreamBytes, StreamReset
from aqueduct_core.quicr.events import EndReason, Fragments, Posted, StartPoint, TransactionEnded
from aqueduct_core.quicr.media.position import Position
from tests.core.quicr.ends import media, queue_of
from tests.core.quicr.raw import Raw, message, url
from tests.support.rules import rule

POST = message(f"06 {url('a')} 01")
CUT = message("05 00 00 01 00 03 616263")[:-2]


def fragment(group: int, number: int, at: int, text: str = "", *, last: bool = False) -> str:
    data = text.encode().hex()
    return message(f"05 {group:02x} {number:02x} {2 * at + last:02x} 00 {len(text):02x} {data}")


@pytest.mark.parametrize("begun", [False, True])
def test_what_is_cut_by_a_reset_is_credited_and_forgotten(begun: bool) -> None:
    raw = Raw()
    came = (POST if begun else "") + CUT
    if begun:
        raw.stream(0, POST)
        raw.engine.accept(0, datagram=False, now=raw.now)
    raw.stream(0, CUT)
    before = raw.engine.footprint.size
    raw.handle(StreamReset(0, 0))
    assert raw.consumed == len(came) // 2
    assert raw.engine.footprint.size < before
    if begun:
        assert raw.events[-1] == TransactionEnded(0, EndReason.CANCELLED, by_peer=True)


def test_what_is_cut_by_a_cancel_is_credited_and_forgotten() -> None:
    raw = Raw()
    raw.stream(0, POST)
    raw.engine.accept(0, datagram=False, now=raw.now)
    raw.stream(0, CUT)
    raw.engine.cancel(0, raw.now)
    raw.stream(0, "636465", end=True)
    assert raw.consumed == len(POST + CUT) // 2 + 3
    assert raw.engine.footprint.size == 0


def test_a_stream_that_is_reset_in_a_pause_is_over_behind_it() -> None:
    raw = Raw()
    raw.engine.pause()
    raw.handle(StreamBytes(0, bytes.fromhex(POST), False), StreamReset(0, 0))
    raw.engine.resume(raw.now)
    assert raw.turn() == []
    assert raw.closed is None
    assert raw.consumed == len(POST) // 2


def test_fragments_that_say_nothing_are_not_told() -> None:
    """And keep their order, however they come; what begins with one begins with a FRAGMENT."""
    pieces = [
        *(fragment(2, 0, 0), fragment(2, 0, 0, "ab"), fragment(2, 0, 2), fragment(2, 0, 2)),
        *(fragment(2, 0, 2, "c", last=True), fragment(3, 0, 0), fragment(3, 0, 0, "d", last=True)),
    ]
    for parts in (pieces, ["".join(pieces)]):
        raw = Raw()
        raw.stream(0, POST)
        raw.engine.accept(0, datagram=False, now=raw.now)
        raw.events.clear()
        for part in parts:
            raw.stream(0, part)
        assert raw.events[0] == StartPoint(0, Position(2, 0))
        told = [event for event in raw.events if isinstance(event, Fragments)]
        found = [each for event in told for each in event.fragments]
        assert [(each.position, each.data, each.previous) for each in found] == [
            ((2, 0), b"ab", None),
            ((2, 0), b"c", None),
            ((3, 0), b"d", 1),
        ]
        assert sum(event.size for event in told) + raw.consumed == len(POST + "".join(pieces)) // 2

    raw = Raw()
    raw.stream(0, fragment(0, 0, 0) + POST)
    assert raw.closed is not None
    assert raw.closed.reason.startswith("stream 0 begins with FRAGMENT")


@rule("Q-7")
def test_an_answer_to_a_post_may_be_the_end_at_once() -> None:
    """A cancel, though all of the media would have been written in this turn."""
    raw = Raw(client=True)
    stream = raw.engine.post(b"a", queue_of(media()), datagram=False, now=raw.now)
    raw.turn()
    events = raw.stream(stream, message("07 00"), end=True)
    assert events[-1] == TransactionEnded(stream, EndReason.CANCELLED, by_peer=True)
    assert stream in raw.ends
    assert raw.closed is None


def test_datagrams_are_told_in_the_order_of_their_media() -> None:
    raw = Raw()
    for number in range(5):
        (posted,) = raw.stream(4 * number, POST)
        assert isinstance(posted, Posted)
        raw.engine.accept(4 * number, datagram=True, now=raw.now)
    raw.turn()
    order = [3, 0, 4, 1, 2]
    events = raw.handle(*(Datagram(bytes((each, 0, 0, 1, 0, 0, 0, 97))) for each in order))
    assert [event.stream for event in events] == [4 * each for each in order]


def test_a_datagram_that_says_nothing_is_not_told() -> None:
    raw = Raw()
    raw.stream(0, POST)
    raw.engine.accept(0, datagram=True, now=raw.now)
    raw.turn()
    assert raw.datagram("00 00 01 00 00 00") == []
    assert raw.closed is None
