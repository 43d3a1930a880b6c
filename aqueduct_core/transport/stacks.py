"""Transports by name."""

from __future__ import annotations

import importlib.util
from functools import cache

from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport.link import Stack

NAMES = ("aioquic", "qh3")


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
        installed = importlib.util.find_spec("qh3") is not None
        raise InvalidOption(
            "BAD_VALUE",
            "transport is 'qh3', which "
            + ("this version does not drive yet" if installed else "is not installed"),
            "Use aioquic",
        )
    raise InvalidOption("BAD_VALUE", f"transport is {name!r}", f"Use one of {', '.join(NAMES)}")
