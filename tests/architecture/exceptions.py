"""Compares what a check found with what ``exceptions.toml`` allows."""

from __future__ import annotations

import tomllib
from pathlib import Path

EXCEPTIONS = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text("utf-8"))


def unexcused(kind: str, found: dict[str, str], remedy: str) -> list[str]:
    """``found``: what breaks the rule, by the key that an exception would have.

    Returns all that has no exception, below ``remedy``, or exceptions that nothing needs any more.
    """
    allowed = EXCEPTIONS.get(kind, {})
    new = [f"{key}: {found[key]}" for key in sorted(found) if key not in allowed]
    if new:
        return [f"{remedy} Or give a reason in tests/architecture/exceptions.toml, [{kind}].", *new]
    stale = sorted(set(allowed) - set(found))
    return [f"nothing needs the exception [{kind}] {key} any more" for key in stale]
