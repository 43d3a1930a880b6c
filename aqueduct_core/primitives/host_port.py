"""``host:port`` as people write it: read in one way, and kept in one form, so that what is kept
under it is found again. Addresses of sockets are those of the transport."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from aqueduct_core.errors import InvalidOption


class HostPort(NamedTuple):
    """A host, which is a name or an IP address without brackets, and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, lowest_port: int = 0, *, any_host: bool = False) -> HostPort:
        """Of ``host:port`` or ``[v6]:port``, the host in its one form.

        ``lowest_port`` is 0 where the system may choose one; ``any_host``: no host is all of them.

        Raises ValueError: what is allowed, to complete "it must be …".
        """
        if "://" in text:
            raise ValueError("host:port without a scheme, such as 127.0.0.1:4433")
        host, colon, port = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError("host:port with brackets around an IPv6 address, such as [::1]:4433")
        named = any_host or host
        if not (named and colon and _PORT.fullmatch(port)) or _FOREIGN.intersection(host):
            raise ValueError(_allowed(lowest_port))
        if not lowest_port <= int(port) <= 0xFFFF:
            raise ValueError(_allowed(lowest_port))
        return cls(canonical_host(host), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host == "localhost" or is_loopback(self.host)


def parse_url(url: str, scheme: str) -> HostPort:
    """Host and port of ``scheme://host:port``.

    Raises:
        InvalidOption: BAD_VALUE: another scheme, no host, no port, or anything after the port.
    """

    # The text of the error must not repeat what may be a password.
    hidden = re.sub("//[^/]*@", "//…@", url)

    def refused(why: str, shown: str = hidden) -> InvalidOption:
        return InvalidOption(
            "BAD_VALUE",
            f"the endpoint {shown!r} cannot be used: {why}",
            f"Give {scheme}://host:port",
        )

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise refused(_why_no_port(url)) from None
    if parts.scheme != scheme:
        raise refused(f"it does not start with {scheme}://")
    if not host:
        raise refused("it names no host")
    if not port:
        raise refused("it names no port")
    if parts.username is not None or parts.password is not None:
        raise refused("it holds a user name; use a token", f"{scheme}://…@{host}:{port}")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise refused("nothing may follow the port")
    return HostPort(host, port)


def canonical_host(host: str) -> str:
    """The one form of a name or an IP address (without brackets): a name in lower case without the
    dot at its end, an address as short as it can be."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower().removesuffix(".") or host


def canonical(endpoint: str) -> str:
    """The one form of ``host:port``; what is none stays as it is."""
    try:
        return str(HostPort.parse(endpoint))
    except ValueError:
        return endpoint


def is_loopback(host: str) -> bool:
    """Whether an IP address is one of this machine's loopback addresses."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or (mapped is not None and mapped.is_loopback)


def _why_no_port(url: str) -> str:
    authority = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if "," in authority:
        return "it names several addresses, and one is dialled"
    if authority.count(":") > 1 and "[" not in authority:
        return "an IPv6 address has brackets around it, as in [::1]:4433"
    return "the port is no number from 1 to 65535"


_PORT = re.compile(r"[0-9]{1,5}")
_FOREIGN = frozenset(" /@?#[]")


def _allowed(lowest_port: int) -> str:
    return f"host:port with a port from {lowest_port} to 65535, such as 127.0.0.1:4433"
