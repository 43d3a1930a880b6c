"""What transactions are to a relay, by connection."""

from __future__ import annotations

from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.media.cache_memory import CacheMemory
from aqueduct_core.quicr.media.cache_readers import MediaOrderReader
from aqueduct_core.quicr.relay.media import MediaDelivery, MediaFeed, RelayedMedia, TransactionKey
from aqueduct_core.quicr.relay.roles import PrefixSubscription, TransactionRoles

ONE, OTHER = QuicrEngine(client=False), QuicrEngine(client=False)


def test_a_transaction_has_one_role_until_it_is_over() -> None:
    roles = TransactionRoles()
    media = RelayedMedia(b"a", CacheMemory(), 0.0, lambda media: None)
    keys = [TransactionKey(ONE, stream) for stream in (0, 4, 8)]
    feed = media.feed(keys[0], upstream=False, now=0.0)
    delivery = media.deliver(keys[1], MediaOrderReader(media.cache, 0.0))
    subscription = PrefixSubscription(keys[2])
    for key, role in zip(keys, (feed, delivery, subscription), strict=True):
        roles.assign(key, role)
    assert (roles.feed(ONE, 0), roles.delivery(ONE, 0)) == (feed, None)
    assert (roles.feed(ONE, 4), roles.delivery(ONE, 4)) == (None, delivery)
    assert (roles.feed(ONE, 8), roles.delivery(ONE, 8)) == (None, None)
    assert roles.feed(OTHER, 0) is None
    kinds = (MediaFeed, MediaDelivery, PrefixSubscription)
    assert [roles.count(ONE, kind) for kind in kinds] == [1, 1, 1]
    assert roles.take(keys[2]) is subscription
    assert roles.take(keys[2]) is None
    assert roles.count(ONE, PrefixSubscription) == roles.count(OTHER, MediaFeed) == 0
    roles.lost(ONE)
    assert roles.feed(ONE, 0) is None
    roles.lost(OTHER)


def test_a_connection_waits_for_media_of_which_nothing_has_come() -> None:
    roles = TransactionRoles()
    for stream in (0, 4):
        media = RelayedMedia(b"%d" % stream, CacheMemory(), 0.0, lambda media: None)
        key = TransactionKey(ONE, stream)
        roles.assign(key, media.deliver(key, MediaOrderReader(media.cache, 0.0)))
    assert roles.waiting(ONE, 2)
    assert not roles.waiting(ONE, 3)
    assert not roles.waiting(OTHER, 1)
    media.feed(TransactionKey(OTHER, 0), upstream=False, now=0.0)
    assert not roles.waiting(ONE, 2)
