"""Names to socket addresses, and sockets bound or connected to them."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

from aqueduct_core.errors import ConnectFailed
from aqueduct_core.transport.link import Address


async def resolve(
    host: str, port: int, *, passive: bool = False
) -> list[tuple[socket.AddressFamily, Address]]:
    """The addresses of ``host``, in the order in which to try them.

    Raises ``ConnectFailed.DNS`` when the name is not known.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(
            host or None,
            port,
            type=socket.SOCK_DGRAM,
            flags=socket.AI_PASSIVE if passive else 0,
        )
    except (OSError, UnicodeError) as error:
        raise ConnectFailed(
            "DNS",
            f"the host name {host!r} cannot be resolved: {_text(error)}",
            "Check the name, or give an IP address",
        ) from None
    return [(family, address) for family, _, _, _, address in found]  # type: ignore[misc]


def bound(family: socket.AddressFamily, address: Address, *, shared: bool = False) -> socket.socket:
    """A UDP socket bound to ``address``; ``ConnectFailed.REFUSED`` says what is in the way.

    ``shared``: with others that say so, of the same user; the kernel gives what one address sends
    to one of them (SO_REUSEPORT).
    """
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # "::" serves both families.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
        sock.bind(address)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            what = f"the address {shown(address)} is in use by another process"
            remedy = "Stop that process or listen on another port (0: any free one)"
        else:
            what = f"cannot listen on {shown(address)}: {_text(error)}"
            remedy = "Give an address of this machine and a port that you may use"
        raise ConnectFailed("REFUSED", what, remedy) from None
    return sock


def connected(family: socket.AddressFamily, address: Address) -> socket.socket:
    """A UDP socket that talks to ``address`` only, so the kernel reports ICMP errors to it."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.connect(address)
    except OSError as error:
        sock.close()
        raise refused(address, error) from None
    return sock


def refused(address: Address, error: OSError) -> ConnectFailed:
    """The error for an address where nobody listens or which cannot be reached."""
    return ConnectFailed(
        "REFUSED",
        f"{shown(address)} cannot be reached: {_text(error)}",
        "Check that a server listens on that UDP port and that the network lets it through",
    )


def shown(address: Address) -> str:
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error.args[-1]) if error.args else type(error).__name__
