"""The HTTP address of an intake: its page, metrics and health, for whom they are meant."""

from __future__ import annotations

import hmac
import logging
import socket
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path

from aqueduct_core.flight.activity import ChannelQuery
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.intake.sessions.authentication import Authentication
from aqueduct_core.intake.settings.intake import AuthSettings, IntakeSettings
from aqueduct_core.monitoring.access import PageAccess
from aqueduct_core.monitoring.health import observed
from aqueduct_core.monitoring.http_server import HttpServer
from aqueduct_core.monitoring.site import Site
from aqueduct_core.primitives.certificates import Issued
from aqueduct_core.primitives.host_port import HostPort

log = logging.getLogger(__name__)


def serve_http(
    settings: IntakeSettings, observe: Callable[[ChannelQuery], IntakeStatus]
) -> HttpServer | None:
    """Serve ``observe``, which is called in other threads, where ``http.listen`` says; None where
    it says nothing.

    On a loopback address it is plain HTTP for everybody on this machine, unless ``http.tokenFile``
    names tokens. Elsewhere it is HTTPS with a certificate of the spool's authority, and asks for
    one of these tokens, or that of the spool.

    Raises:
        IntakeFailed: UNREACHABLE: the address cannot be bound.
        InvalidOption: BAD_VALUE: the file with tokens.
    """
    http = settings.http
    if http.listen is None:
        return None
    where = HostPort.parse(http.listen)
    site = Site(
        lambda query: [observed(settings.spool, lambda: observe(query))],
        PageAccess(_accepted(settings, where.loopback)),
        alone=True,
    )
    return HttpServer(where, site.respond, None if where.loopback else _tls(settings, where))


def url_of(server: HttpServer | None) -> str:
    """Where a browser finds it; "" where nothing is served."""
    if server is None:
        return ""
    return f"{'http' if server.tls is None else 'https'}://{server.address}"


def _accepted(settings: IntakeSettings, loopback: bool) -> Callable[[str], bool] | None:
    token_file = settings.http.token_file
    if token_file is not None:
        tokens = Authentication(AuthSettings(token_file=token_file))
        return lambda given: tokens.refusal(given) is None
    if loopback:
        return None
    own = settings.credentials.token.encode()
    return lambda given: hmac.compare_digest(given.encode(), own)


def _tls(settings: IntakeSettings, where: HostPort) -> ssl.SSLContext:
    host = socket.gethostname()
    names = {settings.advertise or where.host, where.host, host, "localhost", "127.0.0.1"}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, settings.credentials.page_identity(sorted(names - {"0.0.0.0", "::"})))
    return context


def _load(context: ssl.SSLContext, identity: Issued) -> None:
    """The library reads files alone: one that nobody else can read, and that is gone at once."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "identity.pem"
        path.touch(0o600)
        path.write_bytes(identity.cert_pem + identity.key_pem)
        context.load_cert_chain(path)
