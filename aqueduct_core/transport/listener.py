"""Listen for QUIC: one socket, many connections of several protocols, by their connection ids."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from aqueduct_core.engine.engine import Engine
from aqueduct_core.errors import ConnectFailed, InvalidOption
from aqueduct_core.transport.address_tokens import AddressTokens, TokenState
from aqueduct_core.transport.address_validation import AddressValidation
from aqueduct_core.transport.addresses import bound, resolve
from aqueduct_core.transport.datagram_server import DatagramServer
from aqueduct_core.transport.driver import INTERNAL, Driver, OnEvents
from aqueduct_core.transport.link import (
    CONNECTION_ID_LENGTH,
    LONG_HEADER,
    AcceptTerms,
    Address,
    Hello,
    Stack,
    destination_of,
)
from aqueduct_core.transport.sessions import SessionTable
from aqueduct_core.transport.settings import LinkSettings, ListenLimits, check_alpn, share
from aqueduct_core.transport.stacks import stack
from aqueduct_core.transport.stateless_reset import StatelessResets
from aqueduct_core.transport.tls.credentials import ServerIdentity, ServerTls
from aqueduct_core.transport.udp_socket import UdpSocket

UNPROVED_PART = 4
"""Clients are asked to prove their address from one in so many handshakes on that may be under way
and are without proof."""
BEFORE_THE_CHOICE = (
    "handshake_timeout",
    "initial_datagram_size",
    "max_datagram_size",
    "congestion",
)
"""Settings of a link that hold before its client has chosen a protocol."""


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """Who connected: the address, and the server name of the certificate it was shown."""

    address: Address
    fingerprint: str | None = None


Accept: TypeAlias = Callable[[PeerInfo, float], tuple[Engine[Any], OnEvents]]


@dataclass(frozen=True, slots=True)
class ListenedProtocol:
    """What a protocol brings to a listener.

    Attributes:
        make_engine: called for each connection when its handshake is complete; returns the engine
            and who takes its events.
        settings: of each link, with the streams and datagrams that the protocol grants.
        internal_error: the code with which a connection is closed for a fault of ours.
    """

    make_engine: Accept
    settings: LinkSettings = field(default_factory=LinkSettings)
    internal_error: int = INTERNAL


async def listen(
    host: str,
    port: int,
    protocols: Mapping[str, ListenedProtocol],
    *,
    tls: ServerTls,
    limits: ListenLimits | None = None,
    transport: str = "aioquic",
    reset_key: bytes | None = None,
    share_port: bool = False,
) -> Listener:
    """Listen on ``host`` (an address of this machine; "" or "::" for all) and ``port`` (0: any).

    ``protocols`` are those that clients may speak, by the name that they give in the TLS handshake
    (ALPN); who names none of them is refused. Each has limits and sessions of its own.
    ``reset_key``, secret and of this listener alone, is kept by the caller, so that a listener in
    the place of this one ends the connections of it that its clients still hold
    (``StatelessResets``); None: it does so for its own alone.
    ``share_port``: with other processes of this user that say so. A client stays with one of them
    for as long as its address does: where that changes, its connection is lost.

    Raises:
        ConnectFailed.REFUSED: the address is in use or not of this machine.
        ConnectFailed.DNS: ``host`` is a name that is not known.
        TlsFailed.EXPIRED: the certificate is outside its dates.
        InvalidOption: certificate files that are missing, unreadable or do not belong together;
            a key of resets that has not 32 bytes; protocols that do not fit together, or none.
    """
    library = stack(transport)
    identity = tls.checked()
    resets = StatelessResets(reset_key)
    addresses = await resolve(host, port, passive=True)
    if not addresses:
        raise ConnectFailed("DNS", f"the host {host!r} has no address", "Give an IP address")
    listener = Listener(library, protocols, identity, limits or ListenLimits(), resets)
    sock = bound(*addresses[0], shared=share_port)
    listener.open(
        UdpSocket(
            sock,
            listener.receive,
            listener.report,
            unfragmented=True,
            moderation=listener.moderation,
        )
    )
    return listener


class Listener(DatagramServer):
    """Accepts connections of QUIC until ``close``; made by ``listen``.

    Routes hold every connection id that a live connection answers to. What arrives for any other
    id opens a connection (an Initial), or is counted as garbage and dropped or answered by a
    stateless reset.
    """

    def __init__(
        self,
        library: Stack,
        protocols: Mapping[str, ListenedProtocol],
        identity: ServerIdentity,
        limits: ListenLimits,
        resets: StatelessResets,
    ) -> None:
        super().__init__(limits)
        _check(protocols)
        self.fingerprint = identity.fingerprint
        self._protocols = dict(protocols)
        self._library = library
        self._identity = identity
        self._tokens = AddressTokens() if limits.retry != "never" else None
        self._validation = AddressValidation(limits.retry, limits.handshakes // UNPROVED_PART)
        keeps = limits.resume or limits.early_data
        self._sessions = SessionTable(limits.sessions) if keeps else None
        self._resets = resets

    def renew(self, identity: ServerIdentity) -> None:
        """Show this certificate to those who come from now on; connections that are there stay."""
        self._identity = identity
        self.fingerprint = identity.fingerprint

    def _key(self, data: bytes, address: Address) -> Hashable:
        return destination_of(data)

    def _may_open(self, data: bytes) -> bool:
        return bool(data) and data[0] & LONG_HEADER != 0

    def _accept(self, data: bytes, address: Address) -> Driver | None:
        hello = self._library.hello(data)
        if hello is None:
            self._garbage(data, address)
            return None
        if not self._library.supports(hello.version):
            self.counts.unknown_version += 1
            self._socket.send([(self._library.negotiation(hello), address)])
            return None
        if self._refused(address):
            return None
        terms = self._terms(hello, address)
        if terms is None:
            return None
        if not self._library.authentic(data, hello):
            self._garbage(data, address)
            return None
        if not self._has_room(address[0]):
            return None
        link = self._library.accept(self._grants(), self._identity, hello, terms)
        return self._begin(link, address, hello.destination, proved=terms.proved)

    def _grants(self) -> dict[str, LinkSettings]:
        """The settings of one more connection, by the protocol that its client will choose."""
        there, shared = len(self.drivers), self.limits.shared_window
        grants = {
            alpn: share(protocol.settings, there, shared)
            for alpn, protocol in self._protocols.items()
        }
        if self._socket.unfragmented:
            return grants
        return {alpn: settings.for_fragments for alpn, settings in grants.items()}

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
        state, original = tokens.check(hello.token, address, hello.destination, now)
        if state is TokenState.PROVED:
            later = tokens.for_later(address, now)
            return replace(terms, original=original, proved=True, token=later)
        self._validation.came(now)
        if state is TokenState.REFUSED:
            self.counts.tokens_refused += 1
            answer = self._library.refuse_token(hello)
        elif not self._validation.wanted(self._half_open.unproved, now):
            return replace(terms, token=tokens.for_later(address, now))
        else:
            self.counts.retried += 1
            source = os.urandom(CONNECTION_ID_LENGTH)
            token = tokens.for_retry(address, hello.destination, source, now)
            answer = self._library.retry(hello, source, token)
        self._socket.send([(answer, address)])
        return None

    def _garbage(self, data: bytes, address: Address) -> None:
        """It is of no connection and opens none; whoever lost one learns so."""
        super()._garbage(data, address)
        answer = self._resets.answer(data, self._loop.time())
        if answer is not None:
            self.counts.resets += 1
            self._socket.send([(answer, address)])

    def _welcome(self, driver: Driver, now: float) -> tuple[Engine[Any], OnEvents]:
        self.counts.ready += 1
        assert driver.link.alpn is not None
        protocol = self._protocols[driver.link.alpn]
        driver.internal_error = protocol.internal_error
        return protocol.make_engine(PeerInfo(driver.peer, driver.peer_certificate_fingerprint), now)


def _check(protocols: Mapping[str, ListenedProtocol]) -> None:
    """Raise InvalidOption where they cannot be listened for together."""
    if not protocols:
        raise InvalidOption("MISSING", "no protocol to listen for was given", "Give one at least")
    first = next(iter(protocols.values())).settings
    for alpn, protocol in protocols.items():
        check_alpn(alpn)
        for name in BEFORE_THE_CHOICE:
            value, other = getattr(protocol.settings, name), getattr(first, name)
            if value != other:
                raise InvalidOption(
                    "CONFLICT",
                    f"{name} is {value!r} for {alpn!r} and {other!r} for another protocol",
                    "Give all protocols of a listener the same",
                )
