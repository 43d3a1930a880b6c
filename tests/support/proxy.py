"""A bad network between two UDP ends: loses, duplicates, holds back and counts what it did.

The proxy sees encrypted packets only. What it can attribute without looking inside:

* A QUIC packet may hold several frames, so packets lost say nothing exact about messages lost.
* A packet that is larger than half of the largest one holds at most one DATAGRAM frame of that
  size. Where nothing else that large is under way, ``only_above`` therefore makes *packets lost*
  and *messages lost* the same number.
* What is never dropped is never lost: with ``loss`` 0 every datagram frame arrives.

All chance comes from one seed and is drawn for each direction on its own.
"""

from __future__ import annotations

import asyncio
import math
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Direction = Literal["up", "down"]
BUFFER_BYTES = 4 * 1024 * 1024
"""Of the sockets, so that the proxy loses nothing that it does not count."""


@dataclass(frozen=True, slots=True)
class Impairment:
    """Shares of packets, and seconds. A packet that is held back is overtaken by later ones."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    delay: float = 0.005
    hold: float = 0.02
    only_above: int = 0
    """Packets up to this many bytes are never lost."""
    only_held: int = 0
    """Packets up to this many bytes are never held back."""
    rate: float = math.inf
    """Bytes a second of each direction; what comes faster waits for it."""
    queue: int = 64 * 1024
    """Bytes that wait for it, at most; what comes on top is lost."""


@dataclass(slots=True)
class Count:
    """What happened to the packets of one direction; ``dark`` were lost in a blackout, ``overrun``
    because the queue was full."""

    seen: int = 0
    dropped: int = 0
    overrun: int = 0
    dark: int = 0
    duplicated: int = 0
    held: int = 0


class Proxy:
    """Carries packets between any number of clients and one server.

    ``up`` is towards the server. ``dark`` loses everything while it is set, ``deaf`` what goes in
    that direction. Ends by ``close``; packets that are under way then are gone.
    """

    def __init__(self, server: tuple[str, int], impairment: Impairment, seed: int) -> None:
        self.impairment = impairment
        self.dark = False
        self.deaf: Direction | None = None
        self.counts: dict[Direction, Count] = {"up": Count(), "down": Count()}
        self._server = server
        self._random: dict[Direction, random.Random] = {
            "up": random.Random(f"up {seed}"),
            "down": random.Random(f"down {seed}"),
        }
        self._free_at: dict[Direction, float] = {"up": 0.0, "down": 0.0}
        self._loop = asyncio.get_running_loop()
        self._front: asyncio.DatagramTransport | None = None
        self._backs: dict[tuple[str, int], asyncio.DatagramTransport] = {}
        self._waiting: dict[tuple[str, int], list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> tuple[str, int]:
        """Listen on a free port of the loopback address; where."""
        transport, _ = await self._loop.create_datagram_endpoint(
            lambda: _Ear(self._from_client), sock=udp_socket()
        )
        self._front = transport
        host, port = transport.get_extra_info("sockname")[:2]
        return host, port

    async def rebind(self, make: Callable[[], socket.socket] | None = None) -> None:
        """Give each client another address, as a NAT does that has forgotten them. What is under
        way to the old one is lost. ``make`` gives a socket that is connected to the server, from
        wherever the client is to be now; default: another port of the same host."""
        for client, old in list(self._backs.items()):
            del self._backs[client]
            self._waiting[client] = []
            old.close()
            await self._connect(client, make() if make else udp_socket(self._server))

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for transport in (self._front, *self._backs.values()):
            if transport is not None:
                transport.close()

    def _from_client(self, packet: bytes, client: tuple[str, int]) -> None:
        back = self._backs.get(client)
        if back is not None:
            self._carry("up", packet, back, None)
        elif client in self._waiting:
            self._waiting[client].append(packet)
        else:
            self._waiting[client] = [packet]
            task = self._loop.create_task(self._connect(client, udp_socket(self._server)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self, client: tuple[str, int], sock: socket.socket) -> None:
        front = self._front
        assert front is not None
        back, _ = await self._loop.create_datagram_endpoint(
            lambda: _Ear(lambda packet, _: self._carry("down", packet, front, client)),
            sock=sock,
        )
        self._backs[client] = back
        for packet in self._waiting.pop(client):
            self._carry("up", packet, back, None)

    def _carry(
        self,
        direction: Direction,
        packet: bytes,
        out: asyncio.DatagramTransport,
        to: tuple[str, int] | None,
    ) -> None:
        shape, count, chance = self.impairment, self.counts[direction], self._random[direction]
        count.seen += 1
        if self.dark or direction == self.deaf:
            count.dark += 1
            return
        if len(packet) > shape.only_above and chance.random() < shape.loss:
            count.dropped += 1
            return
        copies = 1
        if chance.random() < shape.duplicate:
            count.duplicated += 1
            copies = 2
        for _ in range(copies):
            now = self._loop.time()
            free_at = max(now, self._free_at[direction])
            if shape.rate < math.inf and (free_at - now) * shape.rate + len(packet) > shape.queue:
                count.overrun += 1
                continue
            self._free_at[direction] = free_at + len(packet) / shape.rate
            delay = shape.delay + self._free_at[direction] - now
            if len(packet) > shape.only_held and chance.random() < shape.reorder:
                count.held += 1
                delay += shape.hold * (0.5 + chance.random())
            self._loop.call_later(delay, self._deliver, packet, out, to)

    @staticmethod
    def _deliver(packet: bytes, out: asyncio.DatagramTransport, to: tuple[str, int] | None) -> None:
        if not out.is_closing():
            out.sendto(packet, to)


class _Ear(asyncio.DatagramProtocol):
    """Hands packets on; an unreachable port (the server is not up any more) is loss."""

    def __init__(self, hear: Any) -> None:
        self._hear = hear

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._hear(data, addr)

    def error_received(self, exc: Exception) -> None:
        pass


def udp_socket(server: tuple[str, int] | None = None, host: str = "127.0.0.1") -> socket.socket:
    """A large and non-blocking one: connected to ``server``, else bound to a port of ``host``."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    if server is None or host != "127.0.0.1":
        sock.bind((host, 0))
    if server is not None:
        sock.connect(server)
    return sock
