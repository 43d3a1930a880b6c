"""Under which host a process of ours can be reached by the others."""

from __future__ import annotations

import os
import socket

from aqueduct_spark.model.values import Address

_ANY = ("0.0.0.0", "::")


def reachable_host(listen: Address) -> str:
    """The host to tell to others, for a process on this machine.

    A listener on loopback has everything on this machine, so loopback it is. Else the address
    that the listener binds, or Spark's own choice (SPARK_LOCAL_IP), or that of the route out.
    """
    if listen.loopback:
        return "127.0.0.1"
    if listen.host not in _ANY and ":" not in listen.host:  # inner services speak IPv4
        return listen.host
    return os.environ.get("SPARK_LOCAL_IP") or _address_of_route()


def bind_host(listen: Address) -> str:
    """The host to bind an inner service to: never wider than the listener."""
    return "127.0.0.1" if listen.loopback else "0.0.0.0"


def _address_of_route() -> str:
    # Connecting a UDP socket sends nothing; it only makes the system choose the local address.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            host: str = probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"
    return host
