"""What each transaction of each connection is to a relay.

| transaction | of a client | with the upstream |
|---|---|---|
| POST | `MediaFeed` | `MediaDelivery` |
| REQUEST | `MediaDelivery` | `MediaFeed` |
| SUBSCRIBE | `PrefixSubscription` | none: `Upstream` knows what it is for |
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.relay.media import MediaDelivery, MediaFeed, TransactionKey


class PrefixSubscription(NamedTuple):
    """A client hears of URLs."""

    key: TransactionKey


TransactionRole: TypeAlias = MediaFeed | MediaDelivery | PrefixSubscription


class TransactionRoles:
    """Of those that are not over, by connection."""

    def __init__(self) -> None:
        self._roles: dict[QuicrEngine, dict[int, TransactionRole]] = {}

    def assign(self, key: TransactionKey, role: TransactionRole) -> None:
        self._roles.setdefault(key.engine, {})[key.stream] = role

    def take(self, key: TransactionKey) -> TransactionRole | None:
        """It is over."""
        return self._roles.get(key.engine, {}).pop(key.stream, None)

    def lost(self, engine: QuicrEngine) -> None:
        """The connection is over."""
        self._roles.pop(engine, None)

    def feed(self, engine: QuicrEngine, stream: int) -> MediaFeed | None:
        role = self._roles.get(engine, {}).get(stream)
        return role if isinstance(role, MediaFeed) else None

    def delivery(self, engine: QuicrEngine, stream: int) -> MediaDelivery | None:
        role = self._roles.get(engine, {}).get(stream)
        return role if isinstance(role, MediaDelivery) else None

    def count(self, engine: QuicrEngine, kind: type[TransactionRole]) -> int:
        """Transactions of a kind on one connection."""
        return sum(isinstance(role, kind) for role in self._roles.get(engine, {}).values())

    def waiting(self, engine: QuicrEngine, most: int) -> bool:
        """Whether a connection has so many requests of which nothing has come."""
        roles = self._roles.get(engine, {})
        waits = (isinstance(role, MediaDelivery) and role.media.waits for role in roles.values())
        return len(roles) >= most and sum(waits) >= most
