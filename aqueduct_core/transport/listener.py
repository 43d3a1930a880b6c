"""Listen: one socket, many connections, routed by connection id."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from aqueduct_core.engine.engine import Engine
from aqueduct_core.errors import ConnectFailed
from aqueduct_core.logs.refusals import RefusalLog
from aqueduct_core.transport.address_tokens import AddressTokens, TokenState
from aqueduct_core.transport.address_validation import AddressValidation
from aqueduct_core.transport.addresses import bound, resolve
from aqueduct_core.transport.driver import Driver, OnEvents
from aqueduct_core.transport.fair_turns import FairTurns
from aqueduct_core.transport.half_open import HalfOpen
from aqueduct_core.transport.link import (
    CONNECTION_ID_LENGTH,
    LONG_HEADER,
    AcceptTerms,
    Address,
    Hello,
    ListenCounts,
    Stack,
    destination_of,
)
from aqueduct_core.transport.memory_guard import GuardCounts, MemoryGuard
from aqueduct_core.transport.session_table import SessionTable
from aqueduct_core.transport.settings import LinkSettings, ListenLimits, share
from aqueduct_core.transport.stacks import stack
from aqueduct_core.transport.stateless_reset import StatelessResets
from aqueduct_core.transport.tls.credentials import ServerIdentity, ServerTls
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
UNPROVED_PART = 4
"""Clients are asked to prove their address from one in so many handshakes on that may be under way
and are without proof."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """Who connected: the address, and the server name of the certificate it was shown."""

    address: Address
    fingerprint: str | None = None


Received: TypeAlias = tuple[bytes, Address] | None
"""What a connection has a turn for: a datagram and its sender, or a deadline of its own."""
Accept: TypeAlias = Callable[[PeerInfo, float], tuple[Engine[Any], OnEvents]]


async def listen(
    host: str,
    port: int,
    *,
    settings: LinkSettings,
    tls: ServerTls,
    make_engine: Accept,
    limits: ListenLimits | None = None,
    transport: str = "aioquic",
    reset_key: bytes | None = None,
) -> Listener:
    """Listen on ``host`` (an address of this machine; "" or "::" for all) and ``port`` (0: any).

    ``make_engine`` is called for each connection when its handshake is complete, and returns the
    engine and who takes its events. ``reset_key``, secret and of this listener alone, is kept by
    the caller, so that a listener in the place of this one ends the connections of it that its
    clients still hold (``StatelessResets``); None: it does so for its own alone.

    Raises:
        ConnectFailed.REFUSED: the address is in use or not of this machine.
        ConnectFailed.DNS: ``host`` is a name that is not known.
        TlsFailed.EXPIRED: the certificate is outside its dates.
        InvalidOption: certificate files that are missing, unreadable or do not belong together;
            a key of resets that has not 32 bytes.
    """
    library = stack(transport)
    identity = tls.checked()
    resets = StatelessResets(reset_key)
    addresses = await resolve(host, port, passive=True)
    if not addresses:
        raise ConnectFailed("DNS", f"the host {host!r} has no address", "Give an IP address")
    listener = Listener(library, settings, identity, make_engine, limits or ListenLimits(), resets)
    listener.open(UdpSocket(bound(*addresses[0]), listener._burst, listener._error))
    return listener


class Listener:
    """Accepts connections until ``close``; made by ``listen``.

    Holds: every connection id that a live connection answers to, in ``_routes``; what arrives for
    any other id opens a connection (an Initial), or is counted as garbage and dropped or answered
    by a stateless reset. Connections of clients with a proved address come first, each in its turn
    (``FairTurns``), then who has not proved one, from ``_strangers``, for a share of the time.
    """

    def __init__(
        self,
        library: Stack,
        settings: LinkSettings,
        identity: ServerIdentity,
        make_engine: Accept,
        limits: ListenLimits,
        resets: StatelessResets,
    ) -> None:
        self.settings = settings
        self.limits = limits
        self.counts = ListenCounts()
        self.fingerprint = identity.fingerprint
        self.drivers: set[Driver] = set()
        self._library = library
        self._identity = identity
        self._make_engine = make_engine
        self._loop = asyncio.get_running_loop()
        self._routes: dict[bytes, Driver] = {}
        self._ids: dict[Driver, set[bytes]] = {}
        self._shaking: HalfOpen[Driver] = HalfOpen(limits.handshakes, limits.handshakes_per_network)
        self._addresses: Counter[str] = Counter()
        self._tokens = AddressTokens() if limits.retry != "never" else None
        self._validation = AddressValidation(limits.retry, limits.handshakes // UNPROVED_PART)
        self._turns: FairTurns[Driver, Received] = FairTurns(
            limits.connection_share, lambda driver: not driver.link.admitted
        )
        self._strangers: deque[tuple[bytes, Address]] = deque()
        self._strangers_bytes = 0
        self._waits = False
        self._resumes: asyncio.TimerHandle | None = None
        keeps = limits.resume or limits.early_data
        self._sessions = SessionTable(limits.sessions) if keeps else None
        self._resets = resets
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
    def address(self) -> tuple[str, int]:
        """Host and port as bound."""
        name = self._socket.address
        return name[0], name[1]

    @property
    def socket_counts(self) -> Any:
        return self._socket.counts

    @property
    def memory_counts(self) -> GuardCounts:
        return self._guard.counts

    @property
    def memory(self) -> int:
        """Bytes that all connections are charged with, of ``ListenLimits.memory``."""
        return self._guard.budget.used

    def renew(self, identity: ServerIdentity) -> None:
        """Show this certificate to those who come from now on; connections that are there stay."""
        self._identity = identity
        self.fingerprint = identity.fingerprint

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

    def _burst(self, datagrams: list[tuple[bytes, Address]]) -> None:
        routes = self._routes
        for item in datagrams:
            data = item[0]
            driver = routes.get(destination_of(data))
            if driver is not None and not self._shaking.doubts(driver):
                if not self._turns.add(driver, item, len(data)):
                    self.counts.overrun += 1
            elif driver is None and not (data and data[0] & LONG_HEADER):
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
            destination = destination_of(data)
            driver = self._routes.get(destination) or self._accept(data, address)
            if driver is not None:
                batch, size = [(data, address)], len(data)
                while strangers and destination_of(strangers[0][0]) == destination:
                    more = len(strangers[0][0])
                    if size + more > FIRST_FLIGHT:
                        break
                    size += more
                    batch.append(strangers.popleft())  # 0-RTT comes right behind its Initial
                    self._strangers_bytes -= more
                driver.turn(batch, now)
            now = self._loop.time()

    def _accept(self, data: bytes, address: Address) -> Driver | None:
        hello = self._library.hello(data)
        if hello is None:
            self._garbage(data, address)
            return None
        if not self._library.supports(hello.version):
            self.counts.unknown_version += 1
            self._socket.send([(self._library.negotiation(hello), address)])
            return None
        reason = self._refusal(address)
        if reason is not None:
            self.counts.refused += 1
            self._refusals.add(
                "first packets refused", "%s:%d refused: %s", address[0], address[1], reason
            )
            return None
        terms = self._terms(hello, address)
        if terms is None:
            return None
        if not self._library.authentic(data, hello):
            self._garbage(data, address)
            return None
        if not self._make_room(address[0]):
            self.counts.refused += 1
            return None
        limits = self.limits
        driver = Driver(
            self._library.accept(
                share(self.settings, len(self.drivers), limits.shared_window),
                self._identity,
                hello,
                terms,
            ),
            address,
            make_engine=self._welcome,
            send=self._socket.send,
            on_turn=self._turned,
            on_due=self._deadline,
        )
        self.counts.accepted += 1
        self.drivers.add(driver)
        self._shaking.add(driver, address[0], terms.proved)
        self._addresses[address[0]] += 1
        self._ids[driver] = set()
        self._route(driver)
        return driver

    def _make_room(self, host: str) -> bool:
        """Whether there is room for one more, if need be because another gave way."""
        if self._shaking.full(host):
            oldest = self._shaking.oldest(host)
            if oldest is not None:
                self.counts.gave_way += 1
                oldest.abandon("gave way to other connections")
        return not self._shaking.full(host)

    def _refusal(self, address: Address) -> str | None:
        """Why nobody at this address may connect now; None: they may."""
        limits = self.limits
        if self._closing:
            return "the listener closes"
        if len(self.drivers) >= limits.connections:
            return f"{limits.connections} connections are there"
        if self._addresses[address[0]] >= limits.per_address:
            return f"{limits.per_address} connections of its address are there"
        return self._guard.refusal()

    def _garbage(self, data: bytes, address: Address) -> None:
        """It is of no connection and opens none; whoever lost one learns so."""
        self.counts.garbage += 1
        self._refusals.add(
            "packets that belong to no connection",
            "%s:%d sent what belongs to no connection and opens none",
            *address[:2],
            level=logging.INFO,
        )
        self._reset(data, address)

    def _terms(self, hello: Hello, address: Address) -> AcceptTerms | None:
        """What the client is granted; None: it was told to prove its address first."""
        terms = AcceptTerms(
            sessions=self._sessions,
            early_data=self.limits.early_data,
            reset_token=self._resets.token,
        )
        tokens = self._tokens
        if tokens is None:
            return terms
        now = self._loop.time()
        standing, original = tokens.check(hello.token, address, hello.destination, now)
        if standing is TokenState.PROVED:
            later = tokens.for_later(address, now)
            return replace(terms, original=original, proved=True, token=later)
        self._validation.came(now)
        if standing is TokenState.REFUSED:
            self.counts.tokens_refused += 1
            answer = self._library.refuse_token(hello)
        elif not self._validation.wanted(self._shaking.unproved, now):
            return replace(terms, token=tokens.for_later(address, now))
        else:
            self.counts.retried += 1
            source = os.urandom(CONNECTION_ID_LENGTH)
            token = tokens.for_retry(address, hello.destination, source, now)
            answer = self._library.retry(hello, source, token)
        self._socket.send([(answer, address)])
        return None

    def _reset(self, data: bytes, address: Address) -> None:
        """Tell whoever sends on a connection that is not here any more."""
        answer = self._resets.answer(data, self._loop.time())
        if answer is not None:
            self.counts.resets += 1
            self._socket.send([(answer, address)])

    def _welcome(self, driver: Driver, now: float) -> tuple[Engine[Any], OnEvents]:
        self.counts.ready += 1
        info = PeerInfo(driver.peer, driver.peer_certificate_fingerprint)
        return self._make_engine(info, now)

    def _turned(self, driver: Driver) -> None:
        self._route(driver)
        if driver.link.admitted or driver.link.lost is not None:
            self._shaking.discard(driver)
        elif driver.link.ready:
            self._shaking.prove(driver)
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

    def _route(self, driver: Driver) -> None:
        issued, retired = driver.link.routes()
        ids = self._ids.get(driver)
        if ids is None:
            return
        for cid in issued:
            self._routes[cid] = driver
            ids.add(cid)
        for cid in retired:
            self._routes.pop(cid, None)
            ids.discard(cid)

    def _forget(self, driver: Driver) -> None:
        if driver not in self.drivers:
            return
        self.drivers.discard(driver)
        self._turns.forget(driver)
        self._guard.forget(driver)
        self._shaking.discard(driver)
        host = driver.peer[0]
        self._addresses[host] -= 1
        if self._addresses[host] <= 0:
            del self._addresses[host]
        for cid in self._ids.pop(driver):
            self._routes.pop(cid, None)

    def _error(self, error: OSError) -> None:
        # A peer that went away; its link finds out by its own timeout.
        _logger.debug("the listening socket reports %s", error)
