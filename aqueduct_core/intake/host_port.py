"""``host:port`` in its parts, and back."""

from __future__ import annotations

from aqueduct_core.errors import InvalidOption


def address(text: str, option: str) -> tuple[str, int]:
    """``host:port`` (``[v6]:port``) in its parts; raises InvalidOption.BAD_VALUE."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not int(port) <= 0xFFFF:
        raise InvalidOption(
            "BAD_VALUE",
            f"option {option} is {text!r}",
            "Give it as host:port, such as 0.0.0.0:4433",
        )
    return host, int(port)


def joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
