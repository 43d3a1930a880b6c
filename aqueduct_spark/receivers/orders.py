"""From the options of a query to what each of its intakes is told."""

from __future__ import annotations

from pathlib import PurePosixPath

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.settings import AuthSettings, IntakeSettings, TlsSettings
from aqueduct_spark.model.access import ListenerTls, TokenSource
from aqueduct_spark.model.partitions import LaunchOrder
from aqueduct_spark.model.read_options import StreamReadOptions
from aqueduct_spark.model.source import Listen
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
    source = options.source
    if not isinstance(source, Listen):
        raise InvalidOption(
            "NOT_FOR_QUERY_TYPE", "Streams of this version have intakes that listen", "Set 'listen'"
        )
    listen = source.address
    if listen.port:
        listen = Address(listen.host, listen.port + intake)
    settings = IntakeSettings(
        spool=str(PurePosixPath(source.spool) / f"intake-{intake}"),
        credentials=credentials,
        partitions=options.partitions_per_intake or 1,
        listen=str(listen),
        flight=f"{bind_host(listen)}:0",
        tls=_tls(source.tls, listen),
        auth=_auth(source.auth),
        lease=options.lease,
        group_commit=options.intake.group_commit,
        spool_max_bytes=options.intake.spool_max_bytes,
        retention=options.intake.retention,
        max_message_bytes=options.intake.max_message_bytes,
        transport=options.intake.transport,
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
