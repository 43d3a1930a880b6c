"""Under which host a process of ours can be reached by the others."""

from __future__ import annotations

import os
import socket

from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.options.source import Dial, Listen

_ANY = ("0.0.0.0", "::")


def outside_of(source: Listen | Dial) -> HostPort:
    """The address by which a query shows how far it reaches: where it listens, or whom it dials.

    With everything it dials on loopback, all of it is on this machine.
    """
    if isinstance(source, Listen):
        return source.address
    addresses = source.endpoint.addresses
    return addresses[0] if all(a.loopback for a in addresses) else HostPort(_ANY[0], 0)


def reachable_host(outside: HostPort) -> str:
    """The host to tell to others, for a process on this machine.

    A query on loopback has everything on this machine, so loopback it is. Else the address that
    the listener binds, or Spark's own choice (SPARK_LOCAL_IP), or that of the route out.
    """
    if outside.loopback:
        return "127.0.0.1"
    if outside.host not in _ANY and ":" not in outside.host:  # inner services speak IPv4
        return outside.host
    return os.environ.get("SPARK_LOCAL_IP") or _address_of_route()


def bind_host(outside: HostPort) -> str:
    """The host to bind an inner service to: never wider than the query itself."""
    return "127.0.0.1" if outside.loopback else "0.0.0.0"


def _address_of_route() -> str:
    # Connecting a UDP socket sends nothing; it only makes the system choose the local address.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            host: str = probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"
    return host
