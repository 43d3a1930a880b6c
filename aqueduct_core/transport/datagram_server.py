"""One UDP socket and many connections, each in its turn and all within their limits.

What datagrams are, and how a connection begins, is for the kind of listener to say: ``Listener``
speaks QUIC, ``plain_udp`` has packets of engines.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Hashable
from typing import Any, TypeAlias

from aqueduct_core.engine.engine import Engine
from aqueduct_core.logs.refusals import RefusalLog
from aqueduct_core.transport.driver import Driver, OnEvents
from aqueduct_core.transport.fair_turns import FairTurns
from aqueduct_core.transport.half_open import HalfOpen
from aqueduct_core.transport.link import Address, Link, ListenCounts
from aqueduct_core.transport.memory_guard import GuardCounts, MemoryGuard
from aqueduct_core.transport.moderation import Moderation
from aqueduct_core.transport.settings import ListenLimits
from aqueduct_core.transport.udp_socket import UdpSocket

STRANGERS_SHARE = 0.002
"""Seconds of a turn for datagrams that may open connections, or are for those whose clients have
proved nothing; those of all others have been seen to. The rest of them waits for the next turn, and
so takes a part of the time at most."""
FIRST_FLIGHT = 12_000
"""Bytes that a client sends before it has heard anything, and that are taken in at once."""
STRANGERS_WAITING = 1_024
"""Datagrams that wait for that; beyond them they are dropped, and honest clients send again."""
STRANGERS_BYTES = 4 << 20
"""The same of their bytes: an Initial has some 1,200, but may have 64 KiB."""

Received: TypeAlias = tuple[bytes, Address] | None
"""What a connection has a turn for: a datagram and its sender, or a deadline of its own."""

_logger = logging.getLogger(__name__)


class DatagramServer(ABC):
    """Accepts connections until ``close``.

    Holds: what every live connection is found by, in ``_routes``; what arrives for anything else
    may open one. Connections of clients with a proved address come first, each in its turn
    (``FairTurns``), then who has not proved one, from ``_strangers``, for a share of the time.
    """

    def __init__(self, limits: ListenLimits) -> None:
        self.limits = limits
        self.counts = ListenCounts()
        self.drivers: set[Driver] = set()
        self._loop = asyncio.get_running_loop()
        self._routes: dict[Hashable, Driver] = {}
        self._keys: dict[Driver, set[Hashable]] = {}
        self._half_open: HalfOpen[Driver] = HalfOpen(
            limits.handshakes, limits.handshakes_per_network
        )
        self._addresses: Counter[str] = Counter()
        self._turns: FairTurns[Driver, Received] = FairTurns(
            limits.connection_share, lambda driver: not driver.link.admitted
        )
        self._strangers: deque[tuple[bytes, Address]] = deque()
        self._strangers_bytes = 0
        self._waits = False
        self._resumes: asyncio.TimerHandle | None = None
        self._closing = False
        self._refusals = RefusalLog(_logger, self._loop.call_later)
        self._guard = MemoryGuard(
            limits.memory,
            limits.outgoing,
            self._refusals,
            self._turns.memory,
            self._loop.call_later,
        )
        self._socket: UdpSocket

    def open(self, socket: UdpSocket) -> None:
        self._socket = socket

    @property
    def moderation(self) -> Moderation | None:
        """Of its socket."""
        most = self.limits.moderation
        return Moderation(most, self._is_eager, self._loop.time) if most else None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port as bound."""
        name = self._socket.address
        return name[0], name[1]

    @property
    def dropped(self) -> int:
        """Datagrams that came and were dropped: the kernel's buffer was full, or more of them
        waited than there is time for."""
        return self._socket.overflowed + self.counts.overrun

    @property
    def memory_counts(self) -> GuardCounts:
        return self._guard.counts

    @property
    def memory(self) -> int:
        """Bytes that all connections are charged with, of ``ListenLimits.memory``."""
        return self._guard.budget.used

    def refuse(self) -> None:
        """Accept nobody any more; connections that are there stay."""
        self._closing = True

    async def close(self, code: int = 0, reason: str = "the listener closes") -> None:
        """Accept nobody any more, close every link in order and free the socket.

        Returns when all peers were told and the closing periods are over (some round trips).
        """
        self._closing = True
        for driver in list(self.drivers):
            driver.close(code, reason)
            lost = driver.lost
            if lost is None or lost.by_peer:
                # The peer has gone already and nothing more is owed to it.
                driver.abandon()
        for driver in list(self.drivers):
            await driver.wait_closed()
        if self._resumes is not None:
            self._resumes.cancel()
        self._socket.close()
        self._refusals.close()

    # What datagrams are

    @abstractmethod
    def _key(self, data: bytes, address: Address) -> Hashable:
        """What the connection is found by that a datagram is for."""

    @abstractmethod
    def _may_open(self, data: bytes) -> bool:
        """Whether it looks like one that opens a connection."""

    @abstractmethod
    def _accept(self, data: bytes, address: Address) -> Driver | None:
        """Begin a connection by a datagram that is of none (``_refused``, ``_begin``); None: not
        now, or by none like that."""

    @abstractmethod
    def _welcome(self, driver: Driver, now: float) -> tuple[Engine[Any], OnEvents]:
        """The engine of a connection that is ready, and who takes its events."""

    # Turns

    def receive(self, datagrams: list[tuple[bytes, Address]]) -> None:
        """Take in what was read from the socket."""
        routes = self._routes
        for item in datagrams:
            data = item[0]
            driver = routes.get(self._key(*item))
            if driver is not None and not self._half_open.is_unproved(driver):
                if not self._turns.add(driver, item, len(data)):
                    self.counts.overrun += 1
            elif driver is None and not self._may_open(data):
                self._garbage(data, item[1])
            elif (
                len(self._strangers) < STRANGERS_WAITING and self._strangers_bytes < STRANGERS_BYTES
            ):
                self._strangers.append(item)
                self._strangers_bytes += len(data)
            else:
                self.counts.overrun += 1
        if not self._waits:
            self._serve()

    def _serve(self) -> None:
        """Take in what waits, for a while; then the socket is read again before the rest."""
        self._waits = False
        if self._resumes is not None:
            self._resumes.cancel()
        now = self._loop.time()
        self._turns.begin(now)
        used = time.thread_time()
        while (turn := self._turns.next(others=bool(self._strangers))) is not None:
            driver, batch = turn
            datagrams = [item for item in batch if item is not None]
            driver.turn(datagrams, now)
            before, used, now = used, time.thread_time(), self._loop.time()
            self._turns.spent(driver, len(datagrams), used - before)
        self._see_strangers()
        if self._turns or self._strangers:
            self._waits = True
            self._loop.call_soon(self._serve)
        elif (due := self._turns.due) is not None:
            self._resumes = self._loop.call_at(due, self._serve)

    def _see_strangers(self) -> None:
        """Take in datagrams of strangers for as long as their share lasts."""
        begun = now = self._loop.time()
        strangers = self._strangers
        while strangers and now < begun + STRANGERS_SHARE:
            data, address = strangers.popleft()
            self._strangers_bytes -= len(data)
            key = self._key(data, address)
            driver = self._routes.get(key) or self._accept(data, address)
            if driver is not None:
                batch, size = [(data, address)], len(data)
                while strangers and self._key(*strangers[0]) == key:
                    more = len(strangers[0][0])
                    if size + more > FIRST_FLIGHT:
                        break
                    size += more
                    batch.append(strangers.popleft())  # 0-RTT comes right behind its Initial
                    self._strangers_bytes -= more
                driver.turn(batch, now)
            now = self._loop.time()

    # Connections begin and end

    def _refused(self, address: Address) -> bool:
        """Whether nobody at this address may connect now; they are counted then."""
        reason = self._refusal(address)
        if reason is None:
            return False
        self.counts.refused += 1
        self._refusals.add(
            "first packets refused", "%s:%d refused: %s", address[0], address[1], reason
        )
        return True

    def _refusal(self, address: Address) -> str | None:
        limits = self.limits
        if self._closing:
            return "the listener closes"
        if len(self.drivers) >= limits.connections:
            return f"{limits.connections} connections are there"
        if self._addresses[address[0]] >= limits.connections_per_address:
            return f"{limits.connections_per_address} connections of its address are there"
        return self._guard.refusal()

    def _has_room(self, host: str) -> bool:
        """Whether there is room for one more stranger, if need be because another gave way."""
        if self._half_open.full(host):
            oldest = self._half_open.oldest(host)
            if oldest is not None:
                self.counts.gave_way += 1
                oldest.abandon("gave way to other connections")
        if self._half_open.full(host):
            self.counts.refused += 1
            return False
        return True

    def _begin(self, link: Link, address: Address, key: Hashable, *, proved: bool) -> Driver:
        """Keep a connection that begins, found by ``key`` and what its link says."""
        driver = Driver(
            link,
            address,
            make_engine=self._welcome,
            send=self._socket.send,
            on_turn=self._turned,
            on_due=self._deadline,
            unread=self._is_behind,
        )
        self.counts.accepted += 1
        self.drivers.add(driver)
        self._half_open.add(driver, address[0], proved)
        self._addresses[address[0]] += 1
        self._keys[driver] = {key}
        self._routes[key] = driver
        self._route(driver)
        return driver

    def _garbage(self, data: bytes, address: Address) -> None:
        """It is of no connection and opens none."""
        self.counts.garbage += 1
        self._refusals.add(
            "packets that belong to no connection",
            "%s:%d sent what belongs to no connection and opens none",
            *address[:2],
            level=logging.INFO,
        )

    def _turned(self, driver: Driver) -> None:
        self._route(driver)
        if driver.link.admitted or driver.link.lost is not None:
            self._half_open.discard(driver)
        elif driver.link.proved:
            self._half_open.prove(driver)
        if driver.closed:
            self._forget(driver)
        elif driver in self.drivers:
            self._guard.touch(driver)

    def _deadline(self, driver: Driver) -> None:
        """A deadline has come: those whose turns are short have one, others wait for theirs."""
        if self._turns.prompt(driver):
            before = time.thread_time()
            driver.turn((), self._loop.time())
            self._turns.spent(driver, 0, time.thread_time() - before)
            return
        self._turns.add(driver, None)  # or has one anyhow, as so much waits
        if not self._waits:
            self._serve()

    def _is_eager(self) -> bool:
        """Connections begin, which takes round trips, or there is more to do."""
        return bool(self._half_open) or self._waits

    def _is_behind(self) -> bool:
        return self._socket.backlogged or bool(self._turns)

    def _route(self, driver: Driver) -> None:
        issued, retired = driver.link.routes()
        keys = self._keys.get(driver)
        if keys is None:
            return
        for key in issued:
            self._routes[key] = driver
            keys.add(key)
        for key in retired:
            self._routes.pop(key, None)
            keys.discard(key)

    def _forget(self, driver: Driver) -> None:
        if driver not in self.drivers:
            return
        self.drivers.discard(driver)
        self._turns.forget(driver)
        self._guard.forget(driver)
        self._half_open.discard(driver)
        host = driver.peer[0]
        self._addresses[host] -= 1
        if self._addresses[host] <= 0:
            del self._addresses[host]
        for key in self._keys.pop(driver):
            self._routes.pop(key, None)

    def report(self, error: OSError) -> None:
        """Take note of an error that the socket had."""
        # A peer that went away; its link finds out by its own timeout.
        _logger.debug("the listening socket reports %s", error)
