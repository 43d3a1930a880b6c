"""From the options of a query to the settings of each intake that it launches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import cast

import msgspec

from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.settings.dial import ConnectSettings
from aqueduct_core.intake.settings.intake import AuthSettings, TlsSettings
from aqueduct_core.intake.settings.service import HttpSettings
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.formats.description import FormatDescription
from aqueduct_spark.intakes.rendezvous import bind_host, outside_of
from aqueduct_spark.model.partitions import LaunchOrder
from aqueduct_spark.options.access import ListenerTls
from aqueduct_spark.options.read import BatchReadOptions, StreamReadOptions
from aqueduct_spark.options.source import Dial, Listen
from aqueduct_spark.options.tokens import Token

LOCK_GRACE = 5.0
"""Seconds beyond the lease until an intake that lost its query has let go of its spool."""

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def launch_order(
    description: FormatDescription,
    options: StreamReadOptions,
    intake: int,
    credentials: Credentials,
    rendezvous: str,
    spool_id: str | None,
    elsewhere: Sequence[str] = (),
    given_out: Sequence[int] = (),
) -> LaunchOrder:
    """What a task needs to have intake number ``intake`` running, for queries of this format.
    ``elsewhere``: the endpoints that other intakes have; ``given_out``: the offsets that its spool
    must not give out again.

    Raises:
        AuthFailed: MISSING when a variable with a token is not set.
        ValueError: the intakes of the query are not launched but run already.
    """
    source = options.source
    if not isinstance(source, Listen | Dial):
        raise ValueError("these intakes are not launched")
    outside, token = outside_of(source), Token.of(source.auth)
    listen, tls, auth, connect = None, TlsSettings(), AuthSettings(), None
    if isinstance(source, Listen):
        listen = str(_port_of(source.address, intake))
        tls = _listener_tls(source.tls, source.address)
        env = None if source.auth is None else source.auth.env
        auth = AuthSettings(token_file=token.file, token=token.held, token_env=env)
    else:
        addresses = source.endpoint.addresses
        connect = connect_settings(
            description, options, addresses, intakes=options.intakes, elsewhere=tuple(elsewhere)
        )
    settings = description.intake_settings(
        options.rows.own,
        spool=str(PurePosixPath(source.spool or "") / f"intake-{intake}"),
        credentials=credentials,
        given_out=tuple(given_out),
        skip_given_out=not options.fail_on_data_loss,
        partitions=options.partitions_per_intake or 1,
        listen=listen,
        connect=connect,
        flight=f"{bind_host(outside)}:0",
        tls=tls,
        auth=auth,
        lease=options.lease,
        name=f"intake-{intake}",
        **msgspec.structs.asdict(options.intake) | {"http": _http_of(options.intake.http, intake)},
    )
    return LaunchOrder(
        intake=intake,
        settings=settings,
        rendezvous=rendezvous,
        outside=outside,
        spool_id=spool_id,
        launch_timeout=options.launch_timeout,
        # A process that was halted for a while is waited for as long as one that has to start.
        lock_timeout=max(options.lease + LOCK_GRACE, options.launch_timeout),
    )


def connect_settings(
    description: FormatDescription,
    options: StreamReadOptions | BatchReadOptions,
    addresses: tuple[HostPort, ...],
    *,
    bounded: bool = False,
    intakes: int | None = None,
    elsewhere: tuple[str, ...] = (),
) -> ConnectSettings:
    """The settings of an intake that dials ``addresses`` of the endpoint. ``bounded``: for a read
    that ends; ``intakes``: with how many it shares them; ``elsewhere``: those that others have."""
    source = cast(Dial, options.source)
    token = Token.of(source.auth)
    return description.connect_settings(
        options.rows.own,
        endpoints=tuple(str(address) for address in addresses),
        ca_file=source.tls.ca_file,
        server_name=source.tls.server_name,
        insecure=source.tls.insecure,
        token_file=token.file,
        token=token.held,
        bounded=bounded,
        intakes=intakes,
        elsewhere=elsewhere,
    )


def _http_of(http: HttpSettings, intake: int) -> HttpSettings:
    if http.listen is None:
        return http
    listen = _port_of(HostPort.parse(http.listen), intake)
    return msgspec.structs.replace(http, listen=str(listen))


def _port_of(listen: HostPort, intake: int) -> HostPort:
    return HostPort(listen.host, listen.port + intake) if listen.port else listen


def _listener_tls(tls: ListenerTls | None, listen: HostPort) -> TlsSettings:
    if tls is None:
        return TlsSettings()
    if not tls.self_signed:
        return TlsSettings(tls.cert_file, tls.key_file)
    own = () if listen.loopback else (listen.host,)
    return TlsSettings(self_signed=(*_LOOPBACK_NAMES, *own))
