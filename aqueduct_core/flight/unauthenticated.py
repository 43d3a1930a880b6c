"""Bounds connections at the port of Flight over which nobody has shown the token yet.

gRPC accepts whoever comes and holds 50 to 80 KB and a descriptor for each, silent or not, for two
minutes; pyarrow passes none of its bounds on. A thousand of them would leave a spool, in the same
process, without descriptors.
"""

from __future__ import annotations

import os
import resource
import socket
import stat
import threading
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote

MAX_WAITING = 512
"""Connections that wait for their first call; beyond it the oldest give way."""

LOOK_SECONDS = 0.25
"""Between two looks. gRPC accepts a thousand connections in it on a core that does nothing else."""

MAX_LOOKS = 40
"""Looks for which a connection may wait for its first call: ten seconds, without the time for which
this process was stopped."""

FAMILIES = (socket.AF_INET, socket.AF_INET6)


class PeerAddress(NamedTuple):
    """The other end of a connection: IP address, of IPv4 where it is mapped, and port."""

    host: str
    port: int

    @classmethod
    def of(cls, host: str, port: int) -> PeerAddress:
        return cls(host.partition("%")[0].removeprefix("::ffff:"), port)

    @classmethod
    def named(cls, name: str) -> PeerAddress:
        """As gRPC names it: ``ipv4:192.0.2.1:9``, ``ipv6:%5B2001:db8::1%5D:9``."""
        host, _, port = unquote(name).partition(":")[2].rpartition(":")
        return cls.of(host.strip("[]"), int(port))


class UnauthenticatedConnections:
    """Connections to a TCP port of this process until their first call, which shows the token.

    They are found among the descriptors of the process and shut down, as if their peer had hung up:
    gRPC, whose they are, notices and closes them. `watch` looks for them until `stop`.
    """

    def __init__(self) -> None:
        self._peers: dict[int, PeerAddress | None] = {}  # by inode; None: not of this port
        self._looks: dict[int, int] = {}  # the same
        self._proven: set[PeerAddress] = set()
        self._over = threading.Event()

    def watch(self, port: int) -> None:
        """Look every `LOOK_SECONDS`, in a thread."""
        threading.Thread(
            target=self._watched, args=[port], name="flight half-open", daemon=True
        ).start()

    def stop(self) -> None:
        self._over.set()

    def prove(self, name: str) -> None:
        """A call with the token came from the peer that gRPC names so; called in any thread."""
        self._proven.add(PeerAddress.named(name))

    def look(self, port: int) -> int:
        """End those that have waited too long, and the oldest of those that are too many; returns
        how many that were."""
        proven, there = set(self._proven), open_sockets()
        self._peers = {
            inode: self._peers[inode] if inode in self._peers else accepted_from(number, port)
            for inode, number in there.items()
        }
        self._proven.difference_update(proven.difference(self._peers.values()))
        self._looks = {
            inode: self._looks.get(inode, 0) + 1
            for inode, peer in self._peers.items()
            if peer is not None and peer not in self._proven
        }
        over = overdue(self._looks)
        for inode in over:
            _hang_up(there[inode], inode)
        return len(over)

    def _watched(self, port: int) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.look(port)


def overdue(looks: dict[int, int]) -> list[int]:
    """Those to be ended of connections that have been seen waiting so many times each."""
    oldest_first = sorted(looks, key=lambda inode: -looks[inode])
    too_many = len(looks) - MAX_WAITING
    return [
        inode
        for place, inode in enumerate(oldest_first)
        if place < too_many or looks[inode] > MAX_LOOKS
    ]


def open_sockets() -> dict[int, int]:
    """The descriptors of this process that are sockets, by their inodes, which no other socket gets
    for as long as it matters here. Takes no descriptor where none is left."""
    found = {}
    for number in _descriptors():
        try:
            status = os.fstat(number)
        except OSError:
            continue  # it is closed by now
        if stat.S_ISSOCK(status.st_mode):
            found[status.st_ino] = number
    return found


def accepted_from(descriptor: int, port: int) -> PeerAddress | None:
    """The peer of a connection that was accepted at ``port``; None of any other socket."""
    try:
        connection = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        if connection.family not in FAMILIES or connection.getsockname()[1] != port:
            return None
        host, its_port, *_ = connection.getpeername()
        return PeerAddress.of(host, its_port)
    except OSError:
        return None  # it listens, or its peer is gone
    finally:
        connection.detach()


def _descriptors() -> Iterable[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:  # none is left to list them with: all that there may be are open
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _hang_up(descriptor: int, inode: int) -> None:
    try:
        if os.fstat(descriptor).st_ino != inode:
            return
        connection = socket.socket(fileno=descriptor)
    except OSError:
        return
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # its peer was first
    finally:
        connection.detach()
