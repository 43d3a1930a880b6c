"""The frontend of an intake that producers dial."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from aqueduct_core.engine.engine import StorageEngine
from aqueduct_core.errors import AqueductError, InvalidOption
from aqueduct_core.intake.sessions.authentication import Authentication
from aqueduct_core.intake.sessions.context import MODERATION, SessionContext
from aqueduct_core.intake.sessions.frontend import AcceptSession
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.primitives.host_port import HostPort, is_loopback
from aqueduct_core.transport.driver import OnEvents
from aqueduct_core.transport.listener import ListenedProtocol, Listener, PeerInfo, listen
from aqueduct_core.transport.settings import LEAST_WINDOW, LinkSettings, ListenLimits
from aqueduct_core.transport.tls.credentials import ServerTls

log = logging.getLogger(__name__)

SHARED_WINDOW = 128 << 20
"""Bytes. While the spool is full each producer may fill its window, and all of that is in memory:
8 producers have the full window each, 500 have about 650 MB in all, and those above
``limits.memory`` are held back. Never more than a part of that limit."""

WINDOW_PART = 4
"""One in so many bytes of ``limits.memory`` are shared out as windows."""

OUTGOING = 32 << 20
"""Bytes that may wait for one producer: acks, receipts and answers, with the streams of 65,536
channels that were attached at once in part. An intake sends nothing else."""


LOOK_SECONDS = 1.0
"""Between two looks at the files: a certificate is renewed days before it expires."""

Stamp: TypeAlias = tuple[int, int, int]


class ListenFrontend:
    """A `Frontend` that listens. Certificate files that are replaced are shown to those who come
    from then on. Raises where it is made: InvalidOption, TlsFailed (certificate,
    token file); where it is opened: ConnectFailed (the address)."""

    subscriptions = None
    complete = False

    def __init__(
        self,
        settings: IntakeSettings,
        where: str,
        *,
        alpn: str,
        link: LinkSettings,
        internal_error: int,
        has_tokens: bool,
        accepts: Callable[[Callable[[str | None], str | None]], AcceptSession],
    ) -> None:
        self._settings = settings
        self._where = where
        self._tls = server_tls(settings)
        self._tls.checked()
        self._files = certificate_files(settings)
        self._looking: asyncio.TimerHandle | None = None
        self._alpn = alpn
        self._link = link
        self._internal_error = internal_error
        self._has_tokens = has_tokens
        self._accept = accepts(Authentication(settings.auth).refusal)
        self._listener: Listener
        self._context: SessionContext
        self._joined: Callable[[Session[Any]], None]

    @property
    def address(self) -> str:
        return str(HostPort(*self._listener.address))

    @property
    def fingerprint(self) -> str:
        return self._listener.fingerprint

    @property
    def counters(self) -> Mapping[str, int]:
        """``connections_refused``: the first packets that found a limit reached (a client repeats
        them); ``garbage_packets``: those that belong to no connection and open none; and
        ``stateless_resets``: how many of these were answered so, as they may be of connections
        that were here before a restart. ``datagrams_dropped``: what came while the kernel's buffer
        was full, or beyond what there is time for (QUIC sends it again). ``connections_evicted``:
        those that were closed for want of memory; ``connections_held_back``: how often one was
        given no credit for it; and ``connections_memory``: the bytes that they take now, of
        ``limits.memory``."""
        counts, memory = self._listener.counts, self._listener.memory_counts
        return {
            "connections_refused": counts.refused,
            "garbage_packets": counts.garbage + counts.unknown_version,
            "stateless_resets": counts.resets,
            "datagrams_dropped": self._listener.dropped,
            "connections_evicted": memory.evicted,
            "connections_held_back": memory.held_back,
            "connections_memory": self._listener.memory,
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        if self._settings.auth.required or is_loopback(self._listener.address[0]):
            return ()
        token = "demands no token (auth.tokenFile)"
        if not self._has_tokens:
            token = "its protocol has no tokens: let only those reach the port who may"
        return (
            f"everybody who reaches {self.address} may store messages here: the listener is not "
            f"on loopback and {token}",
        )

    async def open(self, context: SessionContext, joined: Callable[[Session[Any]], None]) -> None:
        self._context = context
        self._joined = joined
        host, port = HostPort.parse(self._where)
        self._listener = await listen(
            host,
            port,
            {self._alpn: ListenedProtocol(self._begin, self._link, self._internal_error)},
            tls=self._tls,
            limits=listen_limits(self._settings),
            transport=self._settings.transport,
            reset_key=self._settings.credentials.reset_key(context.spool_id),
            share_port=self._settings.share_port,
        )
        self._look_later()

    def refuse(self) -> None:
        self._listener.refuse()

    async def close(self, code: int, reason: str) -> None:
        if self._looking is not None:
            self._looking.cancel()
        await self._listener.close(code, reason)

    def _look_later(self) -> None:
        if self._files is not None:
            self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        assert self._files is not None
        renewed = self._files.renewed()
        if renewed is not None:
            self._listener.renew(renewed.identity)
            log.info("a new certificate, SHA-256 %s", renewed.fingerprint)
        self._look_later()

    def _begin(self, peer: PeerInfo, now: float) -> tuple[StorageEngine[Any], OnEvents]:
        where = str(HostPort(*peer.address[:2]))
        engine, session = self._accept(where, self._context, now)
        self._joined(session)
        return engine, session.on_events


class CertificateFiles:
    """The certificate of a listener as files, which are replaced while it runs.

    Two files are not replaced at one moment, so a pair that does not fit, is half written, or is
    outside its dates is left aside, with one warning, until the files change again.
    """

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        self._files = (cert_file, key_file)
        self._stamps = self._look()

    def renewed(self) -> ServerTls | None:
        """The new certificate, loaded and checked; None when nothing usable is new."""
        stamps = self._look()
        if stamps == self._stamps:
            return None
        self._stamps = stamps
        cert_file, key_file = self._files
        tls = ServerTls(cert_file=cert_file, key_file=key_file)
        try:
            tls.checked()
        except AqueductError as error:
            log.warning("the certificate that was served so far stays: %s", error)
            return None
        return tls

    def _look(self) -> tuple[Stamp | None, ...]:
        return tuple(_stamp(file) for file in self._files)


def _stamp(file: Path) -> Stamp | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def listen_limits(settings: IntakeSettings) -> ListenLimits:
    limits = settings.limits
    part = limits.memory // WINDOW_PART
    return ListenLimits(
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
        handshakes=limits.handshakes,
        handshakes_per_network=limits.handshakes_per_network,
        retry=limits.retry,
        memory=limits.memory,
        connection_share=limits.connection_share,
        shared_window=max(LEAST_WINDOW, min(SHARED_WINDOW, part)),
        outgoing=max(LEAST_WINDOW, min(OUTGOING, part)),
        early_data=settings.early_data,
        moderation=MODERATION,
    )


def server_tls(settings: IntakeSettings) -> ServerTls:
    """The listener's certificate; raises InvalidOption.MISSING when none is named."""
    tls = settings.tls
    if tls.self_signed:
        return ServerTls.self_signed(tls.self_signed)
    if tls.cert_file is None or tls.key_file is None:
        found = {"tls.certFile": tls.cert_file, "tls.keyFile": tls.key_file}
        given = [name for name, file in found.items() if file is not None]
        absent = [name for name, file in found.items() if file is None]
        raise InvalidOption(
            "MISSING",
            f"{given[0]} is given without {absent[0]}"
            if given
            else "the listener has no certificate",
            f"Set {' and '.join(absent)}, or tls.selfSigned",
        )
    return ServerTls(cert_file=Path(tls.cert_file), key_file=Path(tls.key_file))


def certificate_files(settings: IntakeSettings) -> CertificateFiles | None:
    """The files to keep an eye on; None for a certificate that was made at the start."""
    tls = settings.tls
    if tls.self_signed or tls.cert_file is None or tls.key_file is None:
        return None
    return CertificateFiles(Path(tls.cert_file), Path(tls.key_file))
