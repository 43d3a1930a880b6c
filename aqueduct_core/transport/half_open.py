"""Handshakes under way at a listener, and which of them give way to others.

A stranger can begin as many as it likes, from any address that it writes into its datagrams. So
there is a bound for each network and for all together, and where one is reached, the oldest gives
way whose client has not proved its address. Those who have proved theirs give way to nobody.
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


class HalfOpen(Generic[T]):
    """At most ``most`` in all, and ``each`` of one network whose address is not proved."""

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._proved: set[T] = set()
        self._unproved: OrderedDict[T, str] = OrderedDict()
        self._networks: dict[str, OrderedDict[T, None]] = {}

    def __len__(self) -> int:
        return len(self._proved) + len(self._unproved)

    def __contains__(self, item: T) -> bool:
        return item in self._proved or item in self._unproved

    @property
    def unproved(self) -> int:
        """Handshakes of clients that have not proved their address."""
        return len(self._unproved)

    def full(self, host: str, proved: bool) -> bool:
        """Whether one must give way, or not begin, for another from ``host``."""
        return len(self) >= self._most or not (proved or self._room(host))

    def oldest(self, host: str, proved: bool) -> T | None:
        """Which one gives way to another from ``host``; None: none does."""
        if not proved and not self._room(host):
            return next(iter(self._networks[network(host)]))
        return next(iter(self._unproved), None)

    def add(self, item: T, host: str, proved: bool) -> None:
        if proved:
            self._proved.add(item)
            return
        of = self._unproved[item] = network(host)
        self._networks.setdefault(of, OrderedDict())[item] = None

    def discard(self, item: T) -> None:
        """It is complete, or gone."""
        self._proved.discard(item)
        of = self._unproved.pop(item, None)
        if of is not None:
            mine = self._networks[of]
            del mine[item]
            if not mine:
                del self._networks[of]

    def _room(self, host: str) -> bool:
        return len(self._networks.get(network(host), ())) < self._each
