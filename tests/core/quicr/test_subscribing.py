"""What subscriptions cost, of peers that want much and read nothing."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.inputs import LinkReady, StreamBytes, StreamLeft
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import TRANSACTION_BYTES
from aqueduct_core.quicr.events import EndReason, Notified, Subscribed, TransactionEnded
from aqueduct_core.quicr.subscribing import NOTIFY_AHEAD
from tests.core.quicr.ends import Application, Pair
from tests.core.quicr.raw import Raw, message, url
from tests.support.rules import rule

SUBSCRIBE = bytes.fromhex(message("0900"))
LONG = 1_024
"""Bytes of the longest URL."""


def longest(number: int) -> bytes:
    return (b"%d/" % number).ljust(LONG, b"u")


def subscribed(config: QuicrConfig | None = None) -> Raw:
    raw = Raw(config=config)
    raw.handle(LinkReady(1_150, datagram_outcomes=True, stream_progress=True))
    raw.handle(StreamBytes(0, SUBSCRIBE, False))
    return raw


def told(application: Application, stream: int) -> list[bytes]:
    return [each.url for each in application.told(Notified) if each.stream == stream]


@rule("Q-22")
def test_who_does_not_read_is_written_little_and_costs_what_it_counts() -> None:
    raw = subscribed()
    for number in range(1_000):
        raw.engine.notify(0, longest(number), raw.now)
    raw.turn()
    written = len(raw.out[0])
    assert NOTIFY_AHEAD <= written < NOTIFY_AHEAD + 2 * LONG
    assert 1_000 * LONG < raw.engine.footprint.size < 1_300 * LONG
    while written < 1_000 * LONG:  # it reads after all
        raw.handle(StreamLeft(0, written))
        assert written < len(raw.out[0]) <= written + NOTIFY_AHEAD + 2 * LONG
        written = len(raw.out[0])
    raw.engine.cancel(0, raw.now)
    assert raw.engine.footprint.size == TRANSACTION_BYTES  # until the peer ends its side
    raw.handle(StreamBytes(0, b"", True))
    assert raw.engine.footprint.size == 0


def test_a_subscription_of_which_too_much_waits_ends_and_nothing_else() -> None:
    raw = subscribed(QuicrConfig(max_notified=100))
    raw.handle(StreamBytes(4, SUBSCRIBE, False))
    for number in range(200):
        raw.engine.notify(0, longest(number), raw.now)
    raw.engine.notify(4, b"a", raw.now)
    events = raw.turn()
    assert events == [TransactionEnded(0, EndReason.CANCELLED)]
    assert raw.ends == {0}
    assert raw.out[4] == bytes.fromhex(message("0a" + url("a")))
    assert raw.closed is None


@rule("Q-25")
def test_of_too_many_urls_the_oldest_may_be_told_again() -> None:
    pair = Pair(config=QuicrConfig(max_notified=3))
    stream = pair.client.engine.subscribe(b"", 0)
    pair.link.run_for(1)
    for name in (b"a", b"b", b"b", b"c", b"d", b"d", b"a"):
        pair.server.engine.notify(stream, name, pair.now)
        pair.link.run_for(1)
    assert told(pair.client, stream) == [b"a", b"b", b"c", b"d", b"a"]


@pytest.mark.parametrize("progress", [False, True])
def test_everything_is_told_to_who_reads(progress: bool) -> None:
    """A link that does not say what has left gets all at once."""
    pair = Pair(stream_window=2_000, stream_progress=progress)
    stream = pair.client.engine.subscribe(b"", 0)
    pair.link.run_for(1)
    names = [longest(number) for number in range(200)]
    for name in names:
        pair.server.engine.notify(stream, name, pair.now)
    pair.link.run_for(30)
    assert told(pair.client, stream) == names


def test_any_number_of_subscriptions_leave_nothing() -> None:
    """Each wants all URLs, and is given up at once."""
    raw = Raw()
    raw.handle(LinkReady(1_150, datagram_outcomes=True, stream_progress=True))
    names = [longest(number) for number in range(50)]
    for stream in range(0, 4 * 2_000, 4):
        (event,) = raw.handle(StreamBytes(stream, SUBSCRIBE, False))
        assert event == Subscribed(stream, b"")
        for name in names:
            raw.engine.notify(stream, name, raw.now)
        raw.handle(StreamBytes(stream, b"", True))
        assert len(raw.out.pop(stream)) < NOTIFY_AHEAD + 2 * LONG
    assert raw.engine.footprint.size == 0
    assert raw.closed is None


def test_subscriptions_that_stay_open_are_bounded_by_their_connection() -> None:
    raw = Raw(config=QuicrConfig(max_transactions=50))
    for stream in range(0, 4 * 51, 4):
        assert raw.closed is None
        raw.handle(StreamBytes(stream, SUBSCRIBE, False))
    assert raw.closed is not None
    assert raw.closed.reason == "more than 50 streams are open"
