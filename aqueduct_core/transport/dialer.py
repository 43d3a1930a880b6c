"""Dial a server: one socket and one driver for each connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.engine import Engine
from aqueduct_core.errors import AqueductError, ConnectFailed, InvalidOption, TlsFailed
from aqueduct_core.primitives.host_port import is_loopback
from aqueduct_core.transport.addresses import connected, refused, resolve, shown
from aqueduct_core.transport.driver import Driver, OnEvents, lost_before_ready
from aqueduct_core.transport.link import Address, Resumption
from aqueduct_core.transport.liveness import ASK_EVERY, LivenessProbe
from aqueduct_core.transport.sessions import DEFAULT_TICKETS, SessionStore, server_key
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.stacks import stack
from aqueduct_core.transport.tls.credentials import ClientTls
from aqueduct_core.transport.udp_socket import UdpSocket

BAD_CERTIFICATE = 42
CERTIFICATE_EXPIRED = 45
UNKNOWN_CA = 48
NO_APPLICATION_PROTOCOL = 120
TOO_LATE = (CloseOrigin.HANDSHAKE_TIMEOUT, CloseOrigin.IDLE_TIMEOUT)


async def dial(
    host: str,
    port: int,
    *,
    settings: LinkSettings,
    tls: ClientTls,
    make_engine: Callable[[float], Engine[Any]],
    on_events: OnEvents,
    transport: str = "aioquic",
    tickets: SessionStore | None = None,
    early_data: bool = False,
) -> Driver:
    """Connect to ``host`` and return when the TLS handshake is complete.

    The addresses of the host are tried in turn; ``settings.handshake_timeout`` holds for each.
    ``make_engine`` is called with the time, once, when the handshake is complete.

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
    if not tls.insecure:
        tls.authorities()
    addresses = await resolve(host, port)
    if tls.insecure and not all(is_loopback(address[0]) for _, address in addresses):
        raise InvalidOption(
            "BAD_VALUE",
            f"insecure TLS was asked for {host!r}, which is not a loopback address",
            "Give a CA file; insecure is for tests on this machine",
        )
    store = DEFAULT_TICKETS if tickets is None else tickets
    key = server_key(tls, host, port, settings.alpn)
    session = store.take_session(key, library.name, time.time())
    home = session.host if early_data and session is not None and session.early_data else None
    if home is not None:
        addresses.sort(key=lambda found: found[1][0] != home)
    failure: AqueductError | None = None
    for family, address in addresses:
        try:
            sock = connected(family, address)
        except ConnectFailed as error:
            failure = error
            continue
        attempt = _Attempt(address)
        attempt.socket = UdpSocket(sock, attempt.burst, attempt.error, peer=address)
        try:
            now = asyncio.get_running_loop().time()
            driver = Driver(
                library.dial(
                    settings,
                    tls,
                    host,
                    address,
                    now,
                    Resumption(
                        session,
                        address[0] == home,
                        store.take_token(key),
                        partial(store.keep_session, key),
                        partial(store.keep_token, key),
                    ),
                ),
                address,
                make_engine=lambda _, ready: (make_engine(ready), on_events),
                send=attempt.socket.send,
                on_turn=attempt.turned,
                explain=partial(attempt.failure, host),
            )
            attempt.driver = driver
            session = None  # Used once, whatever becomes of this attempt.
            driver.turn((), now)
            await driver.wait_ready()
        except BaseException:
            attempt.end()
            raise
        if driver.failure is not None:
            raise driver.failure
        if driver.link.ready or driver.link.early:
            # What may have ended it since is the engine's to tell.
            return driver
        failure = attempt.failure(host, driver)
        attempt.end()
        if isinstance(failure, TlsFailed):
            break
    if failure is None:
        raise ConnectFailed("DNS", f"the host {host!r} has no address", "Check the name")
    raise failure


class _Attempt:
    """The socket of one dialled connection; it closes when the driver is done."""

    socket: UdpSocket
    driver: Driver | None = None

    def __init__(self, address: Address) -> None:
        self.address = address
        self.unreachable: OSError | None = None
        self._doubt: LivenessProbe | None = None

    def burst(self, datagrams: list[tuple[bytes, Address]]) -> None:
        if self.driver is not None:
            self.driver.turn(datagrams, self.driver.now())

    def error(self, error: OSError) -> None:
        """ICMP is a hint that anyone on the path can forge: it ends a dial. A connection that is
        up ends by it only when the peer does not answer either; all but a closed port is left to
        its idle timeout, since paths come and go."""
        driver = self.driver
        if driver is None or driver.closed or driver.lost is not None:
            return
        if not driver.link.ready:
            self.unreachable = error
            driver.abandon(f"unreachable: {error.strerror}")
        elif isinstance(error, ConnectionRefusedError):
            if self._doubt is not None:
                self._doubt.refused(driver.now())
                return
            link = driver.link
            self._doubt = LivenessProbe(
                driver.now(), link.counts.datagrams_received, link.round_trip
            )
            self._ask(driver)

    def _ask(self, driver: Driver) -> None:
        if self._doubt is None or driver.closed or driver.lost is not None:
            return
        now = driver.now()
        gone = self._doubt.verdict(now, driver.link.counts.datagrams_received)
        if gone is None:
            driver.link.probe()
            driver.turn((), now)
            asyncio.get_running_loop().call_later(ASK_EVERY, self._ask, driver)
            return
        self._doubt = None
        if gone:
            driver.abandon("unreachable: nobody listens at the peer's address any more")

    def turned(self, driver: Driver) -> None:
        if driver.closed:
            self.socket.close()
            self.driver = None

    def end(self) -> None:
        if self.driver is not None:
            self.driver.abandon()
        self.socket.close()

    def failure(self, host: str, driver: Driver) -> AqueductError:
        """Why the handshake did not complete."""
        where = shown(self.address)
        if self.unreachable is not None:
            return refused(self.address, self.unreachable)
        lost, alert = driver.lost, driver.link.alert
        reason = lost.reason if lost is not None else ""
        by_peer = lost is not None and lost.by_peer
        if alert == NO_APPLICATION_PROTOCOL:
            return ConnectFailed(
                "NO_REPLY",
                f"the server at {where} speaks another protocol (ALPN was refused)",
                "Check host and port; the server must offer the same protocol name",
            )
        if alert is not None and not by_peer:
            return _untrusted(host, where, alert, reason)
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


def _untrusted(host: str, where: str, alert: int, reason: str) -> AqueductError:
    """Our own alert: what is wrong with the certificate that the server showed."""
    if alert == CERTIFICATE_EXPIRED or "expired" in reason or "not yet valid" in reason:
        return TlsFailed(
            "EXPIRED",
            f"the certificate of {where} is outside its dates: {reason}",
            "Renew the certificate of the server, or check the clocks",
        )
    if "match" in reason or "hostname" in reason or "subject" in reason.lower():
        return TlsFailed(
            "NAME_MISMATCH",
            f"the certificate of {where} is not for {host!r}: {reason}",
            "Dial a name that is in the certificate, or set the server name",
        )
    if alert in (BAD_CERTIFICATE, UNKNOWN_CA):
        return TlsFailed(
            "UNKNOWN_CA",
            f"the certificate of {where} is not trusted: {reason}",
            "Give the CA that issued it (tls.caFile)",
        )
    return ConnectFailed(
        "NO_REPLY",
        f"the TLS handshake with {where} failed (alert {alert}): {reason}",
        "Check that an Aqueduct server listens there",
    )
