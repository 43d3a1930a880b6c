"""Connections of a listener that are not admitted yet, and which of them give way to others.

A stranger can begin as many as it likes, from any address that it writes into its datagrams. So
there is a bound for each network and for all together, and where one is reached, the oldest gives
way whose client has not proved its address. Of those who have proved it, the oldest gives way to
another client of its network, and the oldest of the most crowded network to one of another: who
means it is admitted within some round trips, and who waits for nothing cannot keep others out.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")

IPV6_NETWORK = 64
"""Bits of an IPv6 address that an access line is given at least; it may use the rest at will."""


def network(host: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 of an IPv6 one."""
    host = host.partition("%")[0]
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(address) >> IPV6_NETWORK << IPV6_NETWORK))


class _Network(Generic[T]):
    """Those of one network, oldest first."""

    __slots__ = ("proved", "unproved")

    def __init__(self) -> None:
        self.proved: OrderedDict[T, None] = OrderedDict()
        self.unproved: OrderedDict[T, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self.proved) + len(self.unproved)


class HalfOpen(Generic[T]):
    """At most ``most`` in all, and ``each`` of one network."""

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._of: dict[T, str] = {}
        self._unproved: OrderedDict[T, None] = OrderedDict()
        self._networks: dict[str, _Network[T]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, item: T) -> bool:
        return item in self._of

    @property
    def unproved(self) -> int:
        """Connections of clients that have not proved their address."""
        return len(self._unproved)

    def is_unproved(self, item: T) -> bool:
        """Whether its client has not proved its address."""
        return item in self._unproved

    def full(self, host: str) -> bool:
        """Whether one must give way, or not begin, for another from ``host``."""
        return len(self) >= self._most or self._crowd(host) >= self._each

    def oldest(self, host: str) -> T | None:
        """Which one gives way to another from ``host``; None: none does."""
        near = self._networks.get(network(host))
        if near is not None and len(near) >= self._each:
            return next(iter(near.unproved or near.proved))
        if self._unproved:
            return next(iter(self._unproved))
        crowd = max(self._networks.values(), key=len)
        return next(iter(crowd.proved)) if len(crowd) > self._crowd(host) + 1 else None

    def add(self, item: T, host: str, proved: bool) -> None:
        name = self._of[item] = network(host)
        near = self._networks.setdefault(name, _Network())
        if proved:
            near.proved[item] = None
        else:
            near.unproved[item] = self._unproved[item] = None

    def prove(self, item: T) -> None:
        """Its client has shown that it receives at its address."""
        if item in self._unproved:
            del self._unproved[item]
            near = self._networks[self._of[item]]
            del near.unproved[item]
            near.proved[item] = None

    def discard(self, item: T) -> None:
        """It is admitted, or gone."""
        name = self._of.pop(item, None)
        if name is None:
            return
        near = self._networks[name]
        self._unproved.pop(item, None)
        near.unproved.pop(item, None)
        near.proved.pop(item, None)
        if not near:
            del self._networks[name]

    def _crowd(self, host: str) -> int:
        return len(self._networks.get(network(host), ()))
