"""From the options of a query to what each of its intakes is told."""

from __future__ import annotations

from pathlib import PurePosixPath

from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.settings import AuthSettings, IntakeSettings, TlsSettings
from aqueduct_spark.model.access import ListenerTls, TokenSource
from aqueduct_spark.model.partitions import LaunchOrder
from aqueduct_spark.model.read_options import StreamReadOptions
from aqueduct_spark.model.tokens import Token
from aqueduct_spark.model.values import Address
from aqueduct_spark.receivers.hosts import bind_host

LOCK_GRACE = 5.0
"""Seconds beyond the lease until an intake that lost its query has let go of its spool."""

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def launch_order(
    options: StreamReadOptions,
    intake: int,
    credentials: Credentials,
    rendezvous: str,
    spool_id: str | None,
) -> LaunchOrder:
    """What a task needs to have intake number ``intake`` running."""
    listen = options.listen
    if listen.port:
        listen = Address(listen.host, listen.port + intake)
    settings = IntakeSettings(
        spool=str(PurePosixPath(options.spool) / f"intake-{intake}"),
        credentials=credentials,
        partitions=options.partitions_per_intake,
        listen=str(listen),
        flight=f"{bind_host(listen)}:0",
        tls=_tls(options.tls, listen),
        auth=_auth(options.auth),
        lease=options.lease,
        group_commit=options.group_commit,
        spool_max_bytes=options.spool_max_bytes,
        retention=options.retention,
        max_message_bytes=options.max_message_bytes,
        transport=options.transport,
        name=f"intake-{intake}",
    )
    return LaunchOrder(
        intake=intake,
        settings=settings,
        rendezvous=rendezvous,
        spool_id=spool_id,
        launch_timeout=options.launch_timeout,
        lock_timeout=options.lease + LOCK_GRACE,
    )


def _tls(tls: ListenerTls, listen: Address) -> TlsSettings:
    if not tls.self_signed:
        return TlsSettings(tls.cert_file, tls.key_file)
    own = () if listen.loopback else (listen.host,)
    return TlsSettings(self_signed=(*_LOOPBACK_NAMES, *own))


def _auth(source: TokenSource | None) -> AuthSettings:
    token = Token.of(source)
    return AuthSettings(token_file=token.file, token=token.held)
