"""One media at a relay: who brings it, who reads it, and how long it stays.

| the media | stays |
|---|---|
| is read by somebody | as long as that |
| is posted, and not at its end | as long as that |
| was posted, and broke off | until somebody posts on, or `repost_wait` is over, which is its end |
| comes from an upstream that is asked again | until that has more, or nothing for `repost_wait` |
| has its final point, but not all before it | until that comes, or nothing for `repost_wait` |
| is at its end, and its last reader had all | `linger` after that |
| is at its end, and had no reader, or lost its last one | as long as something of it is kept |
| was only asked for | `linger` after the last reader left |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.media.cache import MediaCache, ObjectTooLarge
from aqueduct_core.quicr.media.cache_memory import CacheMemory
from aqueduct_core.quicr.media.cache_readers import (
    ArrivalOrderReader,
    MediaOrderReader,
    PostReader,
)
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.relay.config import RelayConfig

DeliveryReader: TypeAlias = MediaOrderReader | ArrivalOrderReader | PostReader


class TransactionKey(NamedTuple):
    """A transaction, among those of all connections."""

    engine: QuicrEngine
    stream: int


class TooLargeObject(NamedTuple):
    """An object that a relay does not take: it has more bytes than ``most``, all of its memory;
    None: than one of its engines takes. ``posted``: by a client, whose post has ended with it."""

    url: bytes
    position: Position
    most: int | None
    posted: bool


@dataclass(eq=False, slots=True)
class MediaFeed:
    """A transfer that brings a media. ``upstream``: we have requested it. ``too_large``: the object
    of it that was so last."""

    media: RelayedMedia
    key: TransactionKey
    upstream: bool
    final: Position | None = None
    confirmed: bool = False
    too_large: Position | None = None

    def refusal(self, position: Position, most: int | None) -> TooLargeObject:
        """An object of it is not taken."""
        return TooLargeObject(self.media.url, position, most, not self.upstream)


@dataclass(eq=False, slots=True)
class MediaDelivery:
    """A transfer that takes a media to a reader, or to the upstream. ``sent_out``: all of it."""

    media: RelayedMedia
    key: TransactionKey
    reader: DeliveryReader
    sent_out: bool = False
    cancelled: bool = False


class UrlCounts(NamedTuple):
    """One URL at a relay: who reads it, what came of it, and what did not.

    ``final``: it is at its end. ``repeats``: fragments in which nothing was new, or that came too
    late. ``given_up``: objects that never came whole. ``missed``: those that had gone before a
    reader had them; ``dropped``: those for which there was no room on the way to one; each counts
    once for each reader.
    """

    url: bytes
    readers: int
    posts: int
    objects: int
    bytes: int
    repeats: int
    given_up: int
    missed: int
    dropped: int
    final: bool


class RelayedMedia:
    """The cache of a media with all that feeds it and all that reads it.

    ``posted``: a client of ours brings it, or did. ``pinned``: it is kept although nobody reads it.
    ``upstream_waits``: it is to be posted to the upstream, which does not have all of it yet.
    """

    def __init__(
        self,
        url: bytes,
        memory: CacheMemory,
        now: float,
        on_change: Callable[[RelayedMedia], None],
    ) -> None:
        self.url = url
        self.cache = MediaCache(memory, lambda: on_change(self))
        self.feeds: dict[TransactionKey, MediaFeed] = {}
        self.deliveries: dict[TransactionKey, MediaDelivery] = {}
        self.posted = False
        self.pinned = False
        self.upstream_waits = False
        self.dropped = 0
        self._fragments = 0
        self._bytes = 0
        self._repeats = 0
        self._missed = 0
        self._had_all = False
        self._broke_off_at: float | None = None
        self._came_at = now
        self._left_at = now

    def feed(self, key: TransactionKey, *, upstream: bool, now: float) -> MediaFeed:
        """It is brought by this transfer, too."""
        feed = self.feeds[key] = MediaFeed(self, key, upstream)
        self.posted = self.posted or not upstream
        self._broke_off_at = now if upstream and self.cache.begun else None
        self._came_at = now
        return feed

    def deliver(self, key: TransactionKey, reader: DeliveryReader) -> MediaDelivery:
        """It is read by this transfer, too."""
        delivery = self.deliveries[key] = MediaDelivery(self, key, reader)
        return delivery

    def take(self, feed: MediaFeed, fragments: list[Fragment], now: float) -> bool:
        """What a feed has brought; False: an object of it is too large, which `MediaFeed.too_large`
        has not said before."""
        add, known = self.cache.add, feed.too_large
        self._came(now)
        for fragment in fragments:
            try:
                new = add(fragment, now)
            except ObjectTooLarge as found:
                feed.too_large = found.position
                continue
            if new:
                self._bytes += len(fragment.data)
            else:
                self._repeats += 1
        return feed.too_large == known

    def start_at(self, feed: MediaFeed, start: Position, now: float) -> None:
        """A feed has nothing before ``start``. Another one may."""
        self._came(now)
        if len(self.feeds) == 1 or not self.cache.begun:
            self.cache.start_at(start, now)

    def finish(self, feed: MediaFeed, final: Position, now: float, *, sure: bool = True) -> None:
        """A feed ends there; not ``sure``: it has just ended, and there may have been more."""
        self._broke_off_at = None
        feed.final = final
        if not sure:
            self.cache.cut_short(now)
        self.cache.finish(final, now)

    def feed_ended(self, feed: MediaFeed, now: float) -> None:
        """Nothing more comes from it. A post that has brought nothing is as good as none."""
        del self.feeds[feed.key]
        if feed.upstream and not self.posted:
            self._broke_off_at = None
        if self.feeds or feed.upstream or self.cache.complete:
            return
        self._left_at = now
        if self.cache.begun:
            self._broke_off_at = now
        else:
            self.posted = self.upstream_waits = False

    def delivery_ended(self, delivery: MediaDelivery, now: float, *, lost: bool) -> None:
        """The reader has left, or has all; one that was lost may come again."""
        delivery.reader.close()
        self._missed += delivery.reader.missed
        if lost and not delivery.sent_out:
            self._had_all = False
        del self.deliveries[delivery.key]
        self._left_at = now

    def sent_out(self, delivery: MediaDelivery, now: float) -> None:
        """A reader was sent all of it."""
        delivery.sent_out = self._had_all = True
        self._left_at = now

    def _came(self, now: float) -> None:
        """A feed has brought something, so there is somebody who has the media."""
        self._came_at = now
        self._broke_off_at = None

    @property
    def waits(self) -> bool:
        """Nobody here posts it, and nothing has come of it."""
        return not self.posted and not self.cache.begun

    @property
    def read(self) -> bool:
        """Somebody reads it who was not sent all."""
        return any(not delivery.sent_out for delivery in self.deliveries.values())

    @property
    def _fed(self) -> bool:
        """A client posts it."""
        return any(not feed.upstream for feed in self.feeds.values())

    @property
    def gives_way(self) -> bool:
        """Nobody reads it or posts it now."""
        return not self.read and not self._fed

    def cut_at(self, config: RelayConfig) -> float | None:
        """When it ends with what came of it: nobody has posted on, the upstream, asked again, does
        not know it any more, or what is missing before its final point does not come, as a sender
        may have sent it in vain."""
        cache = self.cache
        if cache.complete:
            return None
        if cache.final is None:
            since = self._broke_off_at
        else:
            since = self._came_at if self.feeds or self.posted else None
        return since + config.repost_wait if since is not None else None

    def stays_until(self, config: RelayConfig) -> float | None:
        """When it is discarded; None: not before something else happens."""
        cache = self.cache
        if self.read or self.pinned:
            return None
        if not cache.complete:
            waits = self._fed or (self.posted and self._broke_off_at is not None)
            return None if waits else self._left_at + config.linger
        if self.upstream_waits and not cache.empty:
            return None
        if self._had_all or cache.empty:
            return self._left_at + config.linger
        return None

    @property
    def counts(self) -> UrlCounts:
        cache = self.cache
        return UrlCounts(
            self.url,
            readers=len(self.deliveries),
            posts=sum(not feed.upstream for feed in self.feeds.values()),
            objects=cache.objects,
            bytes=self._bytes,
            repeats=self._repeats,
            given_up=cache.given_up,
            missed=self._missed + sum(d.reader.missed for d in self.deliveries.values()),
            dropped=self.dropped,
            final=cache.complete,
        )
