"""Who wants to hear of which URLs, and which there are (Q22-Q25)."""

from __future__ import annotations

from collections import Counter, OrderedDict

from aqueduct_core.quicr.relay.media import TransactionKey


class PrefixSubscriptions:
    """URLs as a set, and subscriptions of prefixes to it.

    A URL is there when it is posted, or told by the upstream; not when it is only asked for, unlike
    in the prototype (Q23), or anybody could have all subscribers ask for what nobody has.

    Args:
        max_known: URLs from the upstream that are kept; the oldest one is forgotten first.
    """

    def __init__(self, max_known: int) -> None:
        self._posted: dict[bytes, int] = {}
        self._remote: OrderedDict[bytes, int] = OrderedDict()
        self._max_known = max_known
        self._serial = 0
        self._prefixes: dict[TransactionKey, bytes] = {}
        self._uses: Counter[bytes] = Counter()

    def subscribe(self, key: TransactionKey, prefix: bytes) -> bool:
        """Whether it is the first subscription of this prefix."""
        self._prefixes[key] = prefix
        self._uses[prefix] += 1
        return self._uses[prefix] == 1

    def unsubscribe(self, key: TransactionKey) -> bytes | None:
        """The prefix, if that was its last subscription: what the upstream has told for no other
        one is forgotten."""
        prefix = self._prefixes.pop(key)
        self._uses[prefix] -= 1
        if self._uses[prefix]:
            return None
        del self._uses[prefix]
        left = tuple(self._uses)
        for url in [url for url in self._remote if not url.startswith(left)]:
            del self._remote[url]
        return prefix

    def known(self, prefix: bytes) -> list[bytes]:
        """URLs that are there, the newest first (Q22)."""
        serials = self._remote | self._posted
        urls = [url for url in serials if url.startswith(prefix)]
        return sorted(urls, key=serials.__getitem__, reverse=True)

    def add_posted(self, url: bytes) -> list[TransactionKey]:
        """It is posted here; who is to be told."""
        if url in self._posted:
            return []
        self._serial += 1
        self._posted[url] = self._serial
        return self._listeners(url)

    def add_remote(self, url: bytes) -> list[TransactionKey]:
        """The upstream has told it; who is to be told."""
        if url in self._remote:
            return []
        self._serial += 1
        self._remote[url] = self._serial
        if len(self._remote) > self._max_known:
            self._remote.popitem(last=False)
        return self._listeners(url)

    def withdraw(self, url: bytes) -> None:
        """It is posted here no more."""
        self._posted.pop(url, None)

    def _listeners(self, url: bytes) -> list[TransactionKey]:
        return [key for key, prefix in self._prefixes.items() if url.startswith(prefix)]
