"""A relay, or an origin, which is a relay without an upstream (Q26): events in, commands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.primitives.timers import Timers
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.events import (
    EndReason,
    FinalPoint,
    Fragments,
    Notified,
    ObjectsDropped,
    PostAccepted,
    Posted,
    QuicrEvent,
    Ready,
    Requested,
    SentOut,
    StartPoint,
    Subscribed,
    TransactionEnded,
)
from aqueduct_core.quicr.media.cache_memory import CacheMemory
from aqueduct_core.quicr.media.cache_readers import (
    ArrivalOrderReader,
    MediaOrderReader,
    PostReader,
)
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_core.quicr.relay.media import (
    MediaDelivery,
    MediaFeed,
    RelayedMedia,
    TooLargeObject,
    TransactionKey,
    UrlCounts,
)
from aqueduct_core.quicr.relay.roles import PrefixSubscription, TransactionRoles
from aqueduct_core.quicr.relay.subscriptions import PrefixSubscriptions
from aqueduct_core.quicr.relay.upstream import Aim, FailedAim, Purpose, Upstream


class Relay:
    """Takes what the engines of all its connections tell, and gives them their commands.

    After each call, the caller kicks the drivers of `take_kicks`, and dials the upstream where
    `take_dial` says so. Nothing is ever waited for here: who reads slowly, or not at all, costs
    others nothing.

    Args:
        upstream: there is one, so this is a relay; else an origin.
        chance: gives a number from 0 to 1, for the waits between two attempts to dial.
    """

    def __init__(
        self, config: RelayConfig | None = None, *, upstream: bool, chance: Callable[[], float]
    ) -> None:
        self.config = config or RelayConfig()
        self.refused = 0
        """Transactions that a bound has not let in."""
        self._upstream = Upstream(chance) if upstream else None
        self._memory = CacheMemory(self.config.memory, self.config.lifetime)
        self._media: dict[bytes, RelayedMedia] = {}
        self._roles = TransactionRoles()
        self._subscriptions = PrefixSubscriptions(self.config.max_known)
        self._timers: Timers[bytes] = Timers()
        self._changed: dict[RelayedMedia, None] = {}
        self._touched: dict[RelayedMedia, None] = {}
        self._kicks: dict[QuicrEngine, None] = {}
        self._too_large: list[TooLargeObject] = []

    # the caller

    @property
    def wake_at(self) -> float | None:
        """When `tick` is wanted next; None: never, unless something happens."""
        upstream = self._upstream.wake_at if self._upstream is not None else None
        due = [at for at in (self._timers.next, self._memory.wake_at, upstream) if at is not None]
        return min(due, default=None)

    def tick(self, now: float) -> None:
        """Act on every deadline that is due."""
        self._memory.expire(now)
        while (url := self._timers.pop(now)) is not None:
            media = self._media.get(url)
            if media is not None:
                self._touch(media)
        if self._upstream is not None:
            self._upstream.tick(now)
        self._settle(now)

    def take_kicks(self) -> list[QuicrEngine]:
        """Take the engines that were given commands since the last call."""
        taken, self._kicks = list(self._kicks), {}
        return taken

    def take_dial(self) -> bool:
        """Whether the upstream is to be dialled now; `dialled` or `dial_failed` follows."""
        return self._upstream is not None and self._upstream.take_dial()

    def dialled(self, engine: QuicrEngine) -> None:
        """The engine of the connection to the upstream, before its handshake: its events are for
        `handle`, as all others."""
        assert self._upstream is not None
        self._upstream.join(engine)

    def dial_failed(self, now: float) -> None:
        """There is no connection to the upstream."""
        assert self._upstream is not None
        self._upstream.lost(now)

    def take_failed(self) -> list[FailedAim]:
        """Take what has failed at the upstream, as of `Upstream.take_failed`."""
        return self._upstream.take_failed() if self._upstream is not None else []

    def take_too_large(self) -> list[TooLargeObject]:
        """Take the objects that were too large since the last call."""
        taken, self._too_large = self._too_large, []
        return taken

    def counts(self) -> list[UrlCounts]:
        """What there is to say of each URL."""
        return [media.counts for media in self._media.values()]

    @property
    def memory(self) -> int:
        """Bytes that all caches take together, about."""
        return self._memory.size

    # events

    def handle(self, engine: QuicrEngine, events: Iterable[QuicrEvent], now: float) -> None:
        """What an engine has told: of a client, or of the upstream."""
        for event in events:
            self._handle(engine, event, now)
        self._settle(now)

    def _handle(self, engine: QuicrEngine, event: QuicrEvent, now: float) -> None:
        match event:
            case Fragments(stream, fragments, size):
                feed = self._roles.feed(engine, stream)
                if feed is not None and not feed.media.take(feed, fragments, now):
                    self._cannot_keep(feed, now)
                if size:
                    engine.consumed(stream, size, now)
                    self._kicks[engine] = None
            case Requested(stream, url, datagram):
                self._requested(TransactionKey(engine, stream), url, datagram, now)
            case Posted(stream, url, datagram):
                self._posted(TransactionKey(engine, stream), url, datagram, now)
            case Subscribed(stream, prefix):
                self._subscribe(TransactionKey(engine, stream), prefix, now)
            case StartPoint(stream, start):
                if (feed := self._roles.feed(engine, stream)) is not None:
                    feed.media.start_at(feed, start, now)
            case FinalPoint(stream, final, sure):
                feed = self._roles.feed(engine, stream)
                if feed is not None and not sure and not feed.upstream:
                    self._cancel(feed.key, now)  # it broke off
                elif feed is not None:
                    feed.media.finish(feed, final, now, sure=sure)
                    self._touch(feed.media)
            case PostAccepted(stream, datagram):
                delivery = self._roles.delivery(engine, stream)
                if delivery is not None and isinstance(delivery.reader, PostReader):
                    delivery.reader.choose(datagram=datagram, now=now)
                    engine.wake(stream, now)
                    self._kicks[engine] = None
            case Notified(_, url):
                self._told(url, now)
            case ObjectsDropped(stream, positions):
                if (delivery := self._roles.delivery(engine, stream)) is not None:
                    delivery.media.dropped += len(positions)
            case SentOut(stream):
                if (delivery := self._roles.delivery(engine, stream)) is not None:
                    delivery.media.sent_out(delivery, now)
                    self._touch(delivery.media)
            case TransactionEnded():
                self._ended(engine, event, now)
            case Ready() if self._is_upstream(engine):
                assert self._upstream is not None
                self._upstream.ready()
            case LinkLost():
                self._lost(engine, now)

    def _requested(self, key: TransactionKey, url: bytes, datagram: bool, now: float) -> None:
        """Served at once, however late its media comes (Q14)."""
        known = self._media.get(url)
        too_many = (known is None or known.waits) and self._roles.waiting(
            key.engine, self.config.max_waiting
        )
        media = self._media_of(url, now) if not too_many else None
        if media is None:
            self._refuse(key, now)
            return
        reader = (ArrivalOrderReader if datagram else MediaOrderReader)(media.cache, now)
        self._roles.assign(key, media.deliver(key, reader))
        key.engine.serve(key.stream, reader, now)
        self._kicks[key.engine] = None
        self._need_feed(media)
        self._touch(media)

    def _posted(self, key: TransactionKey, url: bytes, datagram: bool, now: float) -> None:
        """Taken, whether others post it or wait for it (Q21). What is at its end already stays for
        its readers, and this is another media under its URL."""
        if self._roles.count(key.engine, MediaFeed) >= self.config.max_posts:
            self._refuse(key, now)
            return
        before = self._media.get(url)
        if before is not None and before.cache.complete and not before.upstream_waits:
            del self._media[url]
            self._touch(before)
        media = self._media_of(url, now)
        if media is None:
            self._refuse(key, now)
            return
        self._drop(Aim(Purpose.REQUEST, url), now)
        self._roles.assign(key, media.feed(key, upstream=False, now=now))
        key.engine.accept(key.stream, datagram=datagram, now=now)
        self._kicks[key.engine] = None
        if self._upstream is not None:
            media.upstream_waits = True
            self._upstream.pursue(Aim(Purpose.POST, url))
        self._notify(self._subscriptions.add_posted(url), url, now)
        self._touch(media)

    def _subscribe(self, key: TransactionKey, prefix: bytes, now: float) -> None:
        """What there is, at once, and what comes (Q22); the same prefix upstream (Q24)."""
        if self._roles.count(key.engine, PrefixSubscription) >= self.config.max_subscriptions:
            self._refuse(key, now)
            return
        self._roles.assign(key, PrefixSubscription(key))
        if self._subscriptions.subscribe(key, prefix) and self._upstream is not None:
            self._upstream.pursue(Aim(Purpose.SUBSCRIBE, prefix))
        for url in self._subscriptions.known(prefix):
            self._notify([key], url, now)

    def _told(self, url: bytes, now: float) -> None:
        """The upstream has a URL."""
        self._notify(self._subscriptions.add_remote(url), url, now)
        if self.config.eager and url not in self._media and (media := self._media_of(url, now)):
            media.pinned = True
            self._need_feed(media)

    def _ended(self, engine: QuicrEngine, ended: TransactionEnded, now: float) -> None:
        stream, reason, by_peer, object = ended
        role = self._roles.take(TransactionKey(engine, stream))
        if self._is_upstream(engine):
            self._upstream_ended(stream, reason, by_peer, now)
        match role:
            case MediaFeed(media=media):
                if object is not None:
                    self._too_large.append(role.refusal(object, None))
                    if role.upstream and not media.posted:
                        media.cache.cut_short(now)  # it would end so again
                media.feed_ended(role, now)
                if not media.posted and not role.upstream:
                    self._post_failed(media, now)
                self._touch(media)
            case MediaDelivery(media=media):
                media.delivery_ended(role, now, lost=reason is EndReason.LOST)
                self._touch(media)
            case PrefixSubscription():
                prefix = self._subscriptions.unsubscribe(role.key)
                if prefix is not None:
                    self._drop(Aim(Purpose.SUBSCRIBE, prefix), now)

    def _cannot_keep(self, feed: MediaFeed, now: float) -> None:
        """The end of a post says that all of it was kept, so this one does not come to its end. To
        readers the object is a hole, as one that was dropped on the way."""
        assert feed.too_large is not None
        self._too_large.append(feed.refusal(feed.too_large, self.config.memory))
        if not feed.upstream:
            self._cancel(feed.key, now)

    def _post_failed(self, media: RelayedMedia, now: float) -> None:
        """Nothing has come of it: it is there no more than before."""
        self._drop(Aim(Purpose.POST, media.url), now)
        self._subscriptions.withdraw(media.url)
        if media.read:
            self._need_feed(media)

    def _upstream_ended(self, stream: int, reason: EndReason, by_peer: bool, now: float) -> None:
        assert self._upstream is not None
        refused = reason is EndReason.CANCELLED and by_peer
        aim = self._upstream.ended(stream, now, refused=refused)
        if aim is not None and reason in (EndReason.COMPLETE, EndReason.TOO_LARGE):
            self._upstream.drop(aim)
            media = self._media.get(aim.name)
            if aim.purpose is Purpose.POST and media is not None:
                media.upstream_waits = False

    def _lost(self, engine: QuicrEngine, now: float) -> None:
        """Its transactions have ended before that."""
        self._kicks.pop(engine, None)
        self._roles.lost(engine)
        if self._is_upstream(engine):
            assert self._upstream is not None
            self._upstream.lost(now)

    # what follows from it

    def _settle(self, now: float) -> None:
        """Have readers learn what there is for them, and media end that is due."""
        self._open_upstream(now)
        while self._changed or self._touched:
            changed, self._changed = self._changed, {}
            touched, self._touched = self._touched | changed, {}
            for media in changed:
                self._wake(media, now)
            for media in touched:
                self._settle_one(media, now)
            self._open_upstream(now)

    def _wake(self, media: RelayedMedia, now: float) -> None:
        media.cache.changed = False
        for (engine, stream), delivery in media.deliveries.items():
            if not delivery.reader.cut_off:
                engine.wake(stream, now)
            elif not delivery.cancelled:
                delivery.cancelled = True
                engine.cancel(stream, now)
            self._kicks[engine] = None

    def _settle_one(self, media: RelayedMedia, now: float) -> None:
        if self._media.get(media.url) is not media:
            if not media.read:
                media.cache.discard()
            return
        cut_at = media.cut_at(self.config)
        if cut_at is not None and cut_at <= now:
            media.cache.cut_short(now)
            self._drop(Aim(Purpose.REQUEST, media.url), now)
            cut_at = None
        if media.cache.complete:
            self._confirm(media, now)
        until = media.stays_until(self.config)
        if until is not None and until <= now:
            self._discard(media, now)
            return
        due = [at for at in (cut_at, until) if at is not None]
        if due:
            self._timers.set(media.url, min(due))
        else:
            self._timers.cancel(media.url)

    def _confirm(self, media: RelayedMedia, now: float) -> None:
        """Those who have brought all of it learn that it is here; those who have brought more, that
        it is not wanted."""
        media.pinned = False
        assert media.cache.final is not None
        for feed in media.feeds.values():
            if feed.final is None or feed.confirmed:
                continue
            feed.confirmed = True
            if feed.final <= media.cache.final:
                feed.key.engine.confirm(feed.key.stream, now)
                self._kicks[feed.key.engine] = None
            else:
                self._cancel(feed.key, now)

    def _discard(self, media: RelayedMedia, now: float) -> None:
        del self._media[media.url]
        self._timers.cancel(media.url)
        self._changed.pop(media, None)
        self._subscriptions.withdraw(media.url)
        self._drop(Aim(Purpose.REQUEST, media.url), now)
        self._drop(Aim(Purpose.POST, media.url), now, in_vain=media.upstream_waits)
        media.cache.discard()

    def _need_feed(self, media: RelayedMedia) -> None:
        """Somebody reads it: the upstream may have it, if nobody posts it here."""
        if self._upstream is not None and not media.posted and not media.cache.complete:
            self._upstream.pursue(Aim(Purpose.REQUEST, media.url))

    def _open_upstream(self, now: float) -> None:
        upstream = self._upstream
        if upstream is None:
            return
        for aim in upstream.unopened():
            engine = upstream.engine
            if engine is None or engine.closed is not None:
                return  # it tells so with its next events
            self._kicks[engine] = None
            datagram = self.config.upstream_datagram
            if aim.purpose is Purpose.SUBSCRIBE:
                upstream.opened(aim, engine.subscribe(aim.name, now))
                continue
            media = self._media[aim.name]
            if aim.purpose is Purpose.REQUEST:
                key = TransactionKey(engine, engine.request(aim.name, datagram=datagram, now=now))
                self._roles.assign(key, media.feed(key, upstream=True, now=now))
                self._touch(media)
            else:
                reader = PostReader(media.cache)
                stream = engine.post(aim.name, reader, datagram=datagram, now=now)
                key = TransactionKey(engine, stream)
                self._roles.assign(key, media.deliver(key, reader))
            upstream.opened(aim, key.stream)

    def _media_of(self, url: bytes, now: float) -> RelayedMedia | None:
        """The media of a URL, a new one if need be; None: there are too many."""
        media = self._media.get(url)
        if media is None and len(self._media) >= self.config.max_media:
            idle = next((each for each in self._media.values() if each.gives_way), None)
            if idle is not None:
                self._discard(idle, now)
        if media is None and len(self._media) < self.config.max_media:
            media = self._media[url] = RelayedMedia(url, self._memory, now, self._change)
        return media

    def _change(self, media: RelayedMedia) -> None:
        self._changed[media] = None

    def _notify(self, keys: Iterable[TransactionKey], url: bytes, now: float) -> None:
        for engine, stream in keys:
            engine.notify(stream, url, now)
            self._kicks[engine] = None

    def _refuse(self, key: TransactionKey, now: float) -> None:
        self.refused += 1
        self._cancel(key, now)

    def _cancel(self, key: TransactionKey, now: float) -> None:
        key.engine.cancel(key.stream, now)
        self._kicks[key.engine] = None

    def _drop(self, aim: Aim, now: float, *, in_vain: bool = False) -> None:
        """The upstream is not needed for this any more."""
        if self._upstream is None:
            return
        stream = self._upstream.drop(aim, in_vain=in_vain)
        engine = self._upstream.engine
        if stream is not None and engine is not None:
            self._cancel(TransactionKey(engine, stream), now)

    def _touch(self, media: RelayedMedia) -> None:
        self._touched[media] = None

    def _is_upstream(self, engine: QuicrEngine) -> bool:
        return self._upstream is not None and self._upstream.engine is engine
