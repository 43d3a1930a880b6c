"""Transports by name."""

from __future__ import annotations

from functools import cache

from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport.link import Stack


@cache
def stack(name: str = "aioquic") -> Stack:
    """The stack of that name.

    Raises:
        InvalidOption.BAD_VALUE: no such name, or the package behind it is not installed or of a
            version that does not fit.
    """
    if name == "aioquic":
        try:
            from aqueduct_core.transport.aioquic.stack import AioquicStack
        except ImportError as error:
            raise InvalidOption(
                "BAD_VALUE",
                f"transport is 'aioquic', which cannot be used: {error}",
                "Install the dependencies of this package as they are pinned",
            ) from error
        return AioquicStack()
    if name == "qh3":
        raise InvalidOption(
            "BAD_VALUE",
            "transport is 'qh3', which is refused: its core fails on streams that are echoed under "
            "loss, gives credit for bytes that nobody has consumed, sends no address tokens and "
            "opens 103 streams at most (2.1.0)",
            "Use aioquic; docs/design.md says how to see what is missing in a newer version",
        )
    raise InvalidOption("BAD_VALUE", f"transport is {name!r}", "Use aioquic")
