"""How long a media stays at a relay, and when it ends with what came of it."""

from __future__ import annotations

import pytest

from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.media.cache_memory import CacheMemory
from aqueduct_core.quicr.media.cache_readers import MediaOrderReader
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_core.quicr.relay.media import MediaDelivery, MediaFeed, RelayedMedia, TransactionKey
from tests.support.rules import rule

ENGINE = QuicrEngine(client=False)
CONFIG = RelayConfig()


class Case:
    """A media, with what its feeds and readers do."""

    def __init__(self) -> None:
        self.memory = CacheMemory()
        self.media = RelayedMedia(b"a", self.memory, 0.0, lambda media: None)
        self._streams = iter(range(0, 400, 4))

    def key(self) -> TransactionKey:
        return TransactionKey(ENGINE, next(self._streams))

    def feed(self, *, upstream: bool = False, now: float = 0.0) -> MediaFeed:
        return self.media.feed(self.key(), upstream=upstream, now=now)

    def reader(self, now: float = 0.0) -> MediaDelivery:
        return self.media.deliver(self.key(), MediaOrderReader(self.media.cache, now))

    def come(self, now: float = 0.0, number: int = 0) -> None:
        feed = MediaFeed(self.media, self.key(), upstream=False)
        assert self.media.take(feed, [Fragment(0, number, 0, b"data", True, 0, 0, None)], now)

    @property
    def until(self) -> float | None:
        return self.media.stays_until(CONFIG)

    @property
    def cut(self) -> float | None:
        return self.media.cut_at(CONFIG)


def test_what_is_read_stays() -> None:
    case = Case()
    reader = case.reader()
    assert case.until is None
    case.media.delivery_ended(reader, 5.0, lost=False)
    assert case.until == 15.0


@pytest.mark.parametrize("upstream", [False, True])
def test_what_is_posted_stays_and_what_is_only_requested_upstream_does_not(upstream: bool) -> None:
    case = Case()
    case.feed(upstream=upstream)
    case.come()
    assert case.until == (10.0 if upstream else None)
    assert case.cut is None


@rule("Q-29", "Q-30")
def test_a_post_that_broke_off_waits_for_another_one() -> None:
    case = Case()
    feed = case.feed()
    case.come()
    case.media.feed_ended(feed, 5.0)
    assert (case.cut, case.until) == (35.0, None)
    case.feed(now=20.0)
    assert case.cut is None


def test_a_post_that_brought_nothing_is_as_good_as_none() -> None:
    case = Case()
    case.media.feed_ended(case.feed(), 5.0)
    assert (case.cut, case.until, case.media.posted) == (None, 15.0, False)


@rule("Q-30")
def test_what_is_lost_of_an_upstream_is_no_end_but_not_to_know_it_any_more_is() -> None:
    case = Case()
    reader = case.reader()
    feed = case.feed(upstream=True)
    assert case.cut is None  # nobody need have it yet
    case.come()
    case.media.feed_ended(feed, 5.0)
    assert (case.cut, case.until) == (None, None)
    again = case.feed(upstream=True, now=50.0)
    assert case.cut == 80.0
    case.media.feed_ended(again, 60.0)
    assert case.cut is None
    case.feed(upstream=True, now=70.0)
    assert case.cut == 100.0
    case.media.delivery_ended(reader, 75.0, lost=False)
    assert case.until == 85.0
    case.come(now=76.0)  # though it is here already
    assert case.cut is None


@rule("Q-9")
def test_what_is_missing_before_the_final_point_is_waited_for_but_not_for_ever() -> None:
    case = Case()
    feed = case.feed()
    case.come(now=1.0, number=1)
    case.media.finish(feed, Position(0, 3), 2.0)
    assert case.cut == 31.0
    case.come(now=20.0, number=0)
    assert case.cut == 50.0
    case.come(now=21.0, number=2)
    assert case.cut is None


@rule("Q-29")
def test_at_its_end_it_stays_for_a_while_after_its_last_reader_had_all() -> None:
    case = Case()
    reader, lost = case.reader(), case.reader()
    feed = case.feed()
    case.come()
    case.media.finish(feed, Position(0, 1), 1.0)
    case.media.sent_out(reader, 2.0)
    assert case.until is None
    case.media.delivery_ended(lost, 3.0, lost=True)
    assert case.until is None  # it may come again
    case.memory.expire(200.0)
    assert case.until == 13.0
    case.media.sent_out(case.reader(300.0), 301.0)
    assert case.until == 311.0


def test_at_its_end_it_waits_for_an_upstream_as_long_as_it_has_anything() -> None:
    case = Case()
    case.media.upstream_waits = True
    feed = case.feed()
    case.come()
    case.media.finish(feed, Position(0, 1), 1.0)
    case.media.sent_out(case.reader(), 2.0)
    assert case.until is None
    case.memory.expire(200.0)
    assert case.until == 12.0
