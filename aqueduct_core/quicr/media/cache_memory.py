"""The memory of all caches together: what is oldest goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from aqueduct_core.quicr.media.cached_object import CachedObject

LIFETIME = 120.0
"""Seconds after its last piece came that an object stays (Q29)."""
MEMORY = 256 << 20
"""Bytes: twenty seconds of a hundred media of 1 Mbit/s, which is what late joiners want of them."""

Forget = Callable[[CachedObject, float], None]


class CacheMemory:
    """Which objects are kept, of any number of caches. Objects go as a whole, since a part of one
    is of no use, and those first of which nothing has come for the longest time.

    Args:
        most: bytes, about, that all objects take together.
        lifetime: seconds that an object stays.

    ``expired`` and ``evicted`` count the objects that went for their age, and for want of memory.
    """

    def __init__(self, most: int = MEMORY, lifetime: float = LIFETIME) -> None:
        self.size = 0
        self.expired = 0
        self.evicted = 0
        self.most = most
        self.lifetime = lifetime
        self._dropping = False
        self._objects: OrderedDict[CachedObject, tuple[float, Forget]] = OrderedDict()

    @property
    def wake_at(self) -> float | None:
        """When `expire` is wanted next."""
        for received, _ in self._objects.values():
            return received + self.lifetime
        return None

    def grew(self, object: CachedObject, size: int, now: float, forget: Forget) -> None:
        """Something of an object came; ``forget`` is called when it has to go, and may keep
        something smaller in its place."""
        self.size += size
        self._objects[object] = now, forget
        self._objects.move_to_end(object)
        while self.size > self.most and self._objects and not self._dropping:
            self.evicted += 1
            self._drop_oldest(now)

    def expire(self, now: float) -> None:
        """Let go what is too old."""
        while (due := self.wake_at) is not None and due <= now:
            self.expired += 1
            self._drop_oldest(now)

    def release(self, object: CachedObject) -> None:
        """It is not kept any more."""
        if self._objects.pop(object, None) is not None:
            self.size -= object.size

    def _drop_oldest(self, now: float) -> None:
        object, (_, forget) = self._objects.popitem(last=False)
        self.size -= object.size
        self._dropping = True
        try:
            forget(object, now)
        finally:
            self._dropping = False
