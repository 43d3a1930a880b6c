"""Where to dial: ``aqueduct://host:port``."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from aqueduct_core.errors import InvalidOption

SCHEME = "aqueduct"


class HostPort(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_url(url: str) -> HostPort:
    """Host and port of ``aqueduct://host:port``.

    Raises:
        InvalidOption.BAD_VALUE: another scheme, no host, no port, or anything after the port.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _bad(url, str(error)) from None
    if parts.scheme != SCHEME:
        raise _bad(url, f"it does not start with {SCHEME}://")
    if not host:
        raise _bad(url, "it names no host")
    if not port:
        raise _bad(url, "it names no port")
    if parts.username is not None or parts.password is not None:
        # The text of the error must not repeat what may be a password.
        raise _bad(f"{SCHEME}://…@{host}:{port}", "it holds a user name; use a token")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise _bad(url, "nothing may follow the port")
    return HostPort(host, port)


def parse_listen(address: str) -> HostPort:
    """Host and port of ``address:port``; port 0 is any free one, an empty address is all.

    Raises:
        InvalidOption.BAD_VALUE: not of that form.
    """
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InvalidOption(
            "BAD_VALUE",
            f"the address to listen on is {address!r}",
            "Give ADDRESS:PORT, for instance 127.0.0.1:4433 or [::]:4433; port 0 is any free one",
        )
    return HostPort(host, int(port))


def _bad(url: str, why: str) -> InvalidOption:
    return InvalidOption(
        "BAD_VALUE", f"the endpoint {url!r} cannot be used: {why}", f"Give {SCHEME}://host:port"
    )
