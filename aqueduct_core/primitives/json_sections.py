"""Reading the sections of settings: what is known, and of what kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aqueduct_core.errors import InvalidOption


def section(data: Mapping[str, Any], name: str, keys: set[str]) -> Mapping[str, Any]:
    """Section ``name``, empty where it is missing. Raises InvalidOption.UNKNOWN."""
    found: Mapping[str, Any] = data.get(name) or {}
    known(f"{name}.", found, keys)
    return found


def known(prefix: str, data: Mapping[str, Any], keys: set[str]) -> None:
    """Raises InvalidOption.UNKNOWN for a key that is not one of ``keys``."""
    for key in data:
        if key not in keys:
            raise InvalidOption(
                "UNKNOWN",
                f"the settings hold the unknown key {prefix}{key}",
                f"Known here: {', '.join(sorted(keys))}",
            )


def strings(value: Any) -> str:
    """The text; raises TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"not a text: {type(value).__name__}")
    return value
