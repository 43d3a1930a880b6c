"""``host:port`` in its parts, and back; in one form, so that what is kept under it is found
again."""

from __future__ import annotations

import ipaddress

from aqueduct_core.errors import InvalidOption


def address(text: str, option: str) -> tuple[str, int]:
    """``host:port`` (``[v6]:port``) in its parts, the host in its one form; raises
    InvalidOption.BAD_VALUE."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not int(port) <= 0xFFFF:
        raise InvalidOption(
            "BAD_VALUE",
            f"option {option} is {text!r}",
            "Give it as host:port, such as 0.0.0.0:4433",
        )
    return canonical_host(host), int(port)


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
        return joined(*address(endpoint, "endpoint"))
    except InvalidOption:
        return endpoint


def joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
