"""QUIC as the carrier of an intake: with the certificate that a listener shows, and the sessions
that a client keeps."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

from aqueduct_core.engine.engine import Engine
from aqueduct_core.errors import AqueductError, InvalidOption
from aqueduct_core.intake.sessions.carriers import BeginSession, DialEndpoint
from aqueduct_core.intake.sessions.context import MODERATION
from aqueduct_core.intake.settings.dial import ConnectSettings
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.driver import OnEvents
from aqueduct_core.transport.listener import ListenedProtocol, Listener, PeerInfo, listen
from aqueduct_core.transport.session_file import SessionFile
from aqueduct_core.transport.sessions import SessionStore
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.stacks import stack
from aqueduct_core.transport.tls.credentials import ServerTls

log = logging.getLogger(__name__)

Stamp: TypeAlias = tuple[int, int, int]


class QuicListen:
    """A `ListenCarrier`. Raises where it is made: InvalidOption, TlsFailed (the certificate)."""

    warnings: tuple[str, ...] = ()

    def __init__(
        self, settings: IntakeSettings, *, alpn: str, link: LinkSettings, internal_error: int
    ) -> None:
        self._settings = settings
        self._alpn = alpn
        self._link = link
        self._internal_error = internal_error
        self._tls = server_tls(settings)
        self.fingerprint = self._tls.checked().fingerprint
        self._files = certificate_files(settings)
        self._listener: Listener

    async def listen(
        self, where: HostPort, begin: BeginSession, *, limits: ListenLimits, spool_id: str
    ) -> Listener:
        def accept(peer: PeerInfo, now: float) -> tuple[Engine[Any], OnEvents]:
            return begin(peer.address, now)

        self._listener = await listen(
            where.host,
            where.port,
            {self._alpn: ListenedProtocol(accept, self._link, self._internal_error)},
            tls=self._tls,
            limits=limits,
            transport=self._settings.transport,
            reset_key=self._settings.credentials.reset_key(spool_id),
            share_port=self._settings.share_port,
        )
        return self._listener

    def look(self) -> None:
        renewed = None if self._files is None else self._files.renewed()
        if renewed is not None:
            self._listener.renew(renewed.identity)
            self.fingerprint = renewed.fingerprint
            log.info("a new certificate, SHA-256 %s", renewed.fingerprint)


class QuicDial:
    """A `DialCarrier`. Raises where it is made: InvalidOption (CA file, transport)."""

    warnings: tuple[str, ...] = ()

    def __init__(
        self,
        settings: IntakeSettings,
        connect: ConnectSettings,
        *,
        alpn: str,
        link: LinkSettings,
        internal_error: int,
    ) -> None:
        if not connect.insecure:
            connect.tls.authorities()
        stack(settings.transport)
        self._settings = settings
        self._connect = connect
        self._alpn = alpn
        self._link = replace(link, idle_timeout=connect.idle_timeout)
        self._internal_error = internal_error

    def to(self, where: HostPort) -> DialEndpoint:
        return partial(
            dial,
            where.host,
            where.port,
            alpn=self._alpn,
            settings=self._link,
            tls=self._connect.tls,
            transport=self._settings.transport,
            tickets=self._tickets,
            early_data=self._settings.early_data,
            internal_error=self._internal_error,
            moderation=MODERATION,
        )

    @cached_property
    def _tickets(self) -> SessionStore | None:
        if not self._settings.early_data:
            return None
        return SessionFile.in_directory(Path(self._settings.spool), self._alpn)


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
