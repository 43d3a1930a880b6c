"""Dial a server over QUIC: one socket and one driver for each connection."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.engine import Engine
from aqueduct_core.errors import AqueductError, ConnectFailed, InvalidOption, TlsFailed
from aqueduct_core.primitives.host_port import is_loopback
from aqueduct_core.transport.addresses import connected, refused, resolve, shown
from aqueduct_core.transport.dialled_socket import DialledSocket
from aqueduct_core.transport.driver import INTERNAL, Driver, OnEvents, lost_before_ready
from aqueduct_core.transport.link import Address, CertificateFault, Resumption, Stack
from aqueduct_core.transport.sessions import (
    DEFAULT_TICKETS,
    ServerKey,
    SessionStore,
    TlsSession,
    server_key,
)
from aqueduct_core.transport.settings import LinkSettings, check_alpn
from aqueduct_core.transport.stacks import stack
from aqueduct_core.transport.tls.credentials import ClientTls

NO_APPLICATION_PROTOCOL = 120
TOO_LATE = (CloseOrigin.HANDSHAKE_TIMEOUT, CloseOrigin.IDLE_TIMEOUT)


async def dial(
    host: str,
    port: int,
    *,
    alpn: str,
    settings: LinkSettings,
    tls: ClientTls,
    make_engine: Callable[[float], Engine[Any]],
    on_events: OnEvents,
    transport: str = "aioquic",
    tickets: SessionStore | None = None,
    early_data: bool = False,
    internal_error: int = INTERNAL,
    moderation: float = 0.0,
    on_server: Callable[[str | None], None] = lambda fingerprint: None,
) -> Driver:
    """Connect to ``host`` and return when the TLS handshake is complete.

    ``alpn`` is the name of the protocol in that handshake, which the server must speak.
    The addresses of the host are tried in turn; ``settings.handshake_timeout`` holds for each.
    ``make_engine`` is called with the time, once, when the handshake is complete.
    ``internal_error`` is the code with which it is closed for a fault of ours.
    ``moderation`` is as of ``ListenLimits``, of its socket.
    ``on_server`` is called before ``make_engine``, with the SHA-256 of the server's certificate.

    Sessions and address tokens that the server gives are kept in ``tickets`` (None: in memory, for
    the life of the process) and used for the next dial of the same server (AQ-0RTT-5). With
    ``early_data`` and a session that allows it, return at once: ``driver.link.early`` holds then,
    what is sent leaves as 0-RTT data, and a failure comes as ``LinkLost`` (AQ-0RTT-1). Such a
    dial goes only to the address that gave the session.

    Raises:
        ConnectFailed.DNS: the name is not known.
        ConnectFailed.REFUSED: nobody listens on the port (the network said so at once).
        ConnectFailed.NO_REPLY: silence, or the server does not speak our protocol.
        ConnectFailed.TIMEOUT: the server answered, but the handshake took too long.
        TlsFailed: its certificate expired, is of an unknown authority or for another name.
        InvalidOption.BAD_VALUE: ``insecure`` for a host that is not loopback; an unknown
            transport; CA files that cannot be read.
        Exception: whatever ``make_engine`` raised; the connection is closed then.
    """
    library = stack(transport)
    check_alpn(alpn)
    if not tls.insecure:
        tls.authorities()
    addresses = await resolve(host, port)
    if tls.insecure:
        _check_loopback(host, [address for _, address in addresses])
    store = DEFAULT_TICKETS if tickets is None else tickets
    key = server_key(tls, host, port, alpn)
    session = store.take_session(key, library.name, time.time())
    home = session.host if early_data and session is not None and session.early_data else None
    if home is not None:
        addresses.sort(key=lambda found: found[1][0] != home)
    server = _Server(
        library,
        settings,
        tls,
        host,
        key,
        store,
        make_engine,
        on_events,
        internal_error,
        moderation,
        on_server,
    )
    failure: AqueductError | None = None
    for family, address in addresses:
        try:
            sock = connected(family, address)
        except ConnectFailed as error:
            failure = error
            continue
        found = await server.attempt(sock, address, session, early=address[0] == home)
        if isinstance(found, Driver):
            return found
        session, failure = None, found  # A session is used once, whatever became of it.
        if isinstance(failure, TlsFailed):
            break
    if failure is None:
        raise ConnectFailed("DNS", f"the host {host!r} has no address", "Check the name")
    raise failure


def _check_loopback(host: str, addresses: list[Address]) -> None:
    if not all(is_loopback(address[0]) for address in addresses):
        raise InvalidOption(
            "BAD_VALUE",
            f"insecure TLS was asked for {host!r}, which is not a loopback address",
            "Give a CA file; insecure is for tests on this machine",
        )


@dataclass(frozen=True, slots=True)
class _Server:
    """Whom to dial, and how."""

    library: Stack
    settings: LinkSettings
    tls: ClientTls
    host: str
    key: ServerKey
    store: SessionStore
    make_engine: Callable[[float], Engine[Any]]
    on_events: OnEvents
    internal_error: int
    moderation: float
    on_server: Callable[[str | None], None]

    async def attempt(
        self, sock: socket.socket, address: Address, session: TlsSession | None, *, early: bool
    ) -> Driver | AqueductError:
        """Dial one address: a driver that is ready, or writes early data; or why there is none."""
        line = DialledSocket(sock, address, unfragmented=True, moderation=self.moderation)
        settings = self.settings if line.unfragmented else self.settings.for_fragments
        try:
            now = asyncio.get_running_loop().time()
            resumption = Resumption(
                session,
                early,
                self.store.take_token(self.key),
                partial(self.store.keep_session, self.key),
                partial(self.store.keep_token, self.key),
            )
            driver = Driver(
                self.library.dial(
                    self.key.alpn, settings, self.tls, self.host, address, now, resumption
                ),
                address,
                make_engine=self._make_engine,
                send=line.send,
                on_turn=line.turned,
                unread=line.is_behind,
                explain=partial(_failure, self.host, line),
            )
            driver.internal_error = self.internal_error
            line.driver = driver
            driver.turn((), now)
        except BaseException:
            line.end()
            raise
        try:
            await driver.wait_ready()
        except BaseException:
            driver.close(reason="the dial was given up")  # the server need not wait for more
            line.end()
            raise
        if driver.failure is not None:
            driver.turn((), driver.now())  # so that the server learns it
            line.end()
            raise driver.failure
        if driver.link.ready or driver.link.early:
            # What may have ended it since is the engine's to learn.
            return driver
        failure = driver.why_not_ready()
        line.end()
        return failure

    def _make_engine(self, driver: Driver, now: float) -> tuple[Engine[Any], OnEvents]:
        self.on_server(driver.peer_certificate_fingerprint)
        return self.make_engine(now), self.on_events


def _failure(host: str, line: DialledSocket, driver: Driver) -> AqueductError:
    """Why a handshake did not complete."""
    where = shown(line.address)
    if line.unreachable is not None:
        return refused(line.address, line.unreachable)
    lost, alert = driver.lost, driver.link.alert
    if alert == NO_APPLICATION_PROTOCOL:
        return ConnectFailed(
            "NO_REPLY",
            f"the server at {where} speaks another protocol (ALPN was refused)",
            "Check host and port; the server must offer the same protocol name",
        )
    if alert is not None and lost is not None and not lost.by_peer:
        return _untrusted(host, where, driver, lost.reason)
    if alert is not None:
        return ConnectFailed(
            "NO_REPLY",
            f"the server at {where} refused the TLS handshake (alert {alert})",
            "Look into the log of the server",
        )
    if driver.statistics.datagrams_received == 0:
        return ConnectFailed(
            "NO_REPLY",
            f"no reply from {where}",
            "Check host, port and firewalls: QUIC needs UDP",
        )
    if lost is not None and lost.origin in TOO_LATE:
        return ConnectFailed(
            "TIMEOUT",
            f"{where} answered, but the handshake was not complete in time",
            "Try again, or raise the handshake timeout",
        )
    return lost_before_ready(driver)


def _untrusted(host: str, where: str, driver: Driver, reason: str) -> AqueductError:
    """Our own alert: what is wrong with the certificate that the server showed."""
    match driver.link.certificate_fault:
        case CertificateFault.DATES:
            return TlsFailed(
                "EXPIRED",
                f"the certificate of {where} is outside its dates: {reason}",
                "Renew the certificate of the server, or check the clocks",
            )
        case CertificateFault.NAME:
            return TlsFailed(
                "NAME_MISMATCH",
                f"the certificate of {where} {_names(host, reason)}",
                "Dial a name that is in the certificate, or set the server name (--server-name, "
                "tls.serverName)",
            )
        case CertificateFault.AUTHORITY:
            return TlsFailed(
                "UNKNOWN_CA",
                f"the certificate of {where} is not trusted: {reason}",
                "Give the CA that issued it (--ca, tls.caFile)",
            )
    return ConnectFailed(
        "NO_REPLY",
        f"the TLS handshake with {where} failed (alert {driver.link.alert}): {reason}",
        "Check that an Aqueduct server listens there",
    )


def _names(host: str, reason: str) -> str:
    """What a certificate is for, as far as the text of the library tells, which is for programmers:
    shown better, and nothing rests on it."""
    asked = re.search(r"hostname '([^']+)'", reason)
    wanted = asked[1] if asked else host
    names = [
        a or b for a, b in re.findall(r"pattern=(?:b'([^']+)'|IPv[46]\w+\('([^']+)'\))", reason)
    ]
    if not names:
        return f"is not for {wanted!r}: {reason}"
    return f"is for {', '.join(names)}, and not for {wanted!r}"
